//! Rate limits, and credentials that do not work.

use tokio::time::Instant;
use tower_belay::semantic_breaker::{CredentialRule, RateLimits};

use super::*;

fn limited(wait: impl Into<Option<Duration>>) -> Verdict {
    Verdict::new(Reason::RateLimited).with_retry_at(wait.into().map(|wait| Instant::now() + wait))
}

/// Refused until just before `wait` is over, then sent.
async fn held_for(rig: &Rig, call: &Call, wait: Duration) {
    assert_eq!(rig.circuit(call, Circuit::Credential).and_then(|it| it.until), Some(Instant::now() + wait));
    pass(wait - Duration::from_nanos(1)).await;
    assert_eq!(rig.send(call, good()).await, Err(Refusal::Gated));
    pass(Duration::from_nanos(1)).await;
}

#[tokio::test(start_paused = true)]
async fn one_rate_limit_gates_its_credential_until_its_hint() {
    let rig = Rig::new(TripCard::default());
    let call = write("llm");
    rig.sends(1, &call, limited(secs(42))).await;
    assert_eq!(rig.state(&call, Circuit::Credential), State::Gated);
    for held in [read("llm"), write("llm").operation("other").actor("bob")] {
        assert_eq!(rig.refused(&held).await, Refusal::Gated);
    }
    for other in [write("llm").credential("key-2"), write("other"), write("llm").tenant("globex")] {
        rig.passes(&other).await;
    }
    held_for(&rig, &call, secs(42)).await;
    assert_eq!(rig.of_a_hundred(&call).await, 100, "no probes and no ramp");
    assert!(rig.alerts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_hints_a_hold_begins_at_five_seconds_and_doubles_until_a_success() {
    let rig = Rig::new(TripCard::default());
    for wait in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
        rig.sends(1, &read("llm"), limited(None)).await;
        held_for(&rig, &read("llm"), secs(wait)).await;
        pass(MINUTE).await;
    }
    rig.passes(&read("llm")).await;
    rig.sends(1, &read("llm"), limited(None)).await;
    held_for(&rig, &read("llm"), secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn three_in_a_minute_pause_until_the_providers_window() {
    let rig = Rig::new(TripCard::default());
    for hint in [1, 2] {
        rig.sends(1, &read("llm"), limited(secs(hint))).await;
        pass(secs(hint)).await;
    }
    rig.sends(1, &read("llm"), limited(secs(90))).await;
    rig.passes(&read("llm").credential("key-2")).await;
    held_for(&rig, &read("llm"), secs(90)).await;
    rig.passes(&read("llm")).await;
}

#[tokio::test(start_paused = true)]
async fn three_in_a_minute_without_hints_pause_for_a_minute() {
    let rig = Rig::new(TripCard::default());
    for wait in [5, 10] {
        rig.sends(1, &read("llm"), limited(None)).await;
        pass(secs(wait)).await;
    }
    rig.sends(1, &read("llm"), limited(None)).await;
    held_for(&rig, &read("llm"), MINUTE).await;
    rig.passes(&read("llm")).await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_of_hours_lets_one_call_look_after_ten_minutes() {
    let rig = Rig::new(TripCard::default());
    rig.sends(1, &read("llm"), limited(secs(7_200))).await;
    pass(10 * MINUTE).await;
    let looking = rig.begin(&read("llm"), good(), secs(3)).await;
    assert_eq!(rig.refused(&read("llm")).await, Refusal::Gated, "one");
    pass(secs(3)).await;
    looking.await.expect("an answer");
    assert_eq!(rig.of_a_hundred(&read("llm")).await, 100, "the hold was too long");
}

#[tokio::test(start_paused = true)]
async fn rate_limits_are_no_failures() {
    let rig = Rig::new(TripCard::default().rate_limits(RateLimits::off()));
    rig.sends(30, &read("llm"), limited(None)).await;
    assert_eq!(rig.handle.unhealthy(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_bad_credential_opens_it_at_its_target_until_it_changes() {
    for reason in [Reason::Unauthenticated, Reason::QuotaExhausted, Reason::NotEntitled] {
        let rig = Rig::new(TripCard::default());
        rig.sends(1, &write("llm"), reason).await;
        assert_eq!(rig.alerts(), [AlertKind::Credential]);
        for held in [write("llm"), read("llm").operation("other").actor("bob")] {
            assert_eq!(rig.refused(&held).await, Refusal::CredentialOpen);
        }
        for other in [write("llm").credential("key-2"), write("other"), write("llm").tenant("globex")] {
            rig.passes(&other).await;
        }
        assert_eq!(rig.cause(&write("llm"), Circuit::Credential), Some(Signal::Credential));
        // Any call may ask whether it works again: a rejected one is certainly not applied.
        rig.recovers(&write("llm")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_row_a_bad_credential_opens_nothing() {
    let rig = Rig::new(TripCard::default().credential(CredentialRule::off()));
    rig.sends(30, &read("llm"), Reason::Unauthenticated).await;
    assert_eq!(rig.handle.unhealthy(), 0);
}
