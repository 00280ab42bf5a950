//! Cards as people write them, and cards that cannot mean anything.

use std::error::Error as StdError;

use tower_belay::{
    ConfigError, Scope,
    semantic_breaker::{Cost, Denials, Failures, Malformed, Quality, RateLimits, SlowCalls, UnknownWrites},
};

use super::*;

fn with<T>(mut value: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut value);
    value
}

fn impossible() -> Vec<(&'static str, TripCard)> {
    let card = TripCard::default;
    let (zero, nan) = (Duration::ZERO, f64::NAN);
    vec![
        ("failures.window", card().failures(Failures::count(0, 0))),
        ("failures.window", card().failures(Failures::count(5, 1_025))),
        ("failures.count", card().failures(Failures::count(0, 20))),
        ("failures.count", card().failures(Failures::count(21, 20))),
        ("failures.rate.share", card().failures(Failures::rate(nan, MINUTE, 20))),
        ("failures.rate.share", card().failures(Failures::rate(1.1, MINUTE, 20))),
        ("failures.rate.within", card().failures(Failures::rate(0.5, zero, 20))),
        ("failures.rate.min_sample", card().failures(Failures::rate(0.5, MINUTE, 0))),
        ("malformed.count", card().malformed(with(Malformed::default(), |row| row.count = 0))),
        ("slow_calls.threshold", card().slow_calls(SlowCalls::at_least(zero))),
        ("quality.floor", card().quality(Quality::below(nan))),
        ("quality.span", card().quality(with(Quality::below(0.5), |row| row.span = 0))),
        ("cost.ceiling", card().cost(Cost::above(f64::INFINITY))),
        ("cost.min_sample", card().cost(with(Cost::above(1.0), |row| row.min_sample = 0))),
        ("unknown_writes.count", card().unknown_writes(with(UnknownWrites::default(), |row| row.count = 257))),
        ("unknown_writes.within", card().unknown_writes(with(UnknownWrites::default(), |row| row.within = zero))),
        ("denials.count", card().denials(with(Denials::default(), |row| row.count = 0))),
        ("denials.within", card().denials(with(Denials::default(), |row| row.within = zero))),
        ("rate_limits.first_hold", card().rate_limits(with(RateLimits::default(), |row| row.first_hold = zero))),
        ("rate_limits.max_hold", card().rate_limits(with(RateLimits::default(), |row| row.max_hold = secs(4)))),
        ("cool_down", card().cool_down(zero)),
        ("max_cool_down", card().max_cool_down(secs(599))),
        ("jitter", card().jitter(nan)),
        ("jitter", card().jitter(1.5)),
        ("probes", card().probes(0)),
        ("probe_lease", card().probe_lease(zero)),
        ("start_share", card().start_share(0.0)),
        ("start_share", card().start_share(nan)),
        ("hung_after", card().hung_after(zero)),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_impossible_card_refuses_every_call_and_names_its_field() {
    for (field, card) in impossible() {
        let error = SemanticBreakerLayer::try_new(card.clone()).expect_err(field);
        assert_eq!(error.field(), field);

        let rig = Rig::new(card);
        let request = Request { call: read("crm"), verdict: good(), after: Duration::ZERO };
        let error = rig.service.clone().oneshot(request).await.expect_err(field);
        assert_eq!(error.rejected().map(|it| it.code()), Some(Refusal::Misconfigured));
        let mut source = error.source();
        while let Some(deeper) = source.filter(|error| !error.is::<ConfigError>()) {
            source = deeper.source();
        }
        let named = source.and_then(|error| error.downcast_ref::<ConfigError>());
        assert_eq!(named.map(ConfigError::field), Some(field));

        rig.handle.update(TripCard::default()).expect("a valid card");
        rig.passes(&read("crm")).await;
    }
}

#[test]
fn rows_that_are_off_are_not_looked_at() {
    let card = TripCard::default().failures(with(Failures::count(0, 0), |row| row.enabled = false));
    assert_eq!(card.validate(), Ok(()));
}

#[test]
fn a_card_in_toml_reads_as_people_write_it() {
    let card: TripCard = toml::from_str(
        r#"
        cool_down = "2m"
        max_cool_down = "1h30m"
        ramp = "0s"
        health_scope = "target"
        credential_scope = "global"

        [failures]
        count = 3
        [failures.rate]
        within = "250ms"
        [denials]
        enabled = false
        [slow_calls]
        enabled = true
        threshold = "1.5s"
        only_while_queued = true
        "#,
    )
    .expect("a card");
    let expected = TripCard::default()
        .cool_down(secs(120))
        .max_cool_down(secs(5_400))
        .ramp(Duration::ZERO)
        .health_scope(Scope::TARGET)
        .credential_scope(Scope::GLOBAL)
        .failures(with(Failures::rate(0.5, Duration::from_millis(250), 20), |row| row.count = 3))
        .denials(Denials::off())
        .slow_calls(with(SlowCalls::at_least(Duration::from_millis(1_500)), |row| row.only_while_queued = true));
    assert_eq!(card, expected);
}

#[test]
fn every_card_survives_being_written_and_read() {
    let cards = impossible().into_iter().map(|(_, card)| card).filter(|card| !format!("{card:?}").contains("NaN"));
    for card in cards.chain([TripCard::default()]) {
        let text = toml::to_string(&card).expect("a text");
        assert_eq!(toml::from_str::<TripCard>(&text).expect("a card"), card, "{text}");
    }
    assert!(toml::to_string(&TripCard::default()).expect("a text").contains(r#"cool_down = "10m""#));
}

#[test]
fn a_misspelt_field_is_refused_in_every_row() {
    let rows = ["", "[failures]", "[failures.rate]", "[malformed]", "[slow_calls]", "[quality]", "[cost]"];
    let more = ["[unknown_writes]", "[denials]", "[rate_limits]", "[credential]"];
    for row in rows.into_iter().chain(more) {
        let error = toml::from_str::<TripCard>(&format!("{row}\ntreshold = 3\n")).expect_err(row);
        assert!(error.to_string().contains("treshold"), "{error}");
    }
    for wrong in ["cool_down = 30", "cool_down = \"30\"", "cool_down = \"soon\"", "health_scope = \"targets\""] {
        assert!(toml::from_str::<TripCard>(wrong).is_err(), "{wrong}");
    }
}
