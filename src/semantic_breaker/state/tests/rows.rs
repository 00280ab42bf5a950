use super::*;

#[test]
fn each_row_can_be_switched_off() {
    let off = TripCard::default()
        .failures(Failures::off())
        .malformed(Malformed::off())
        .unknown_writes(UnknownWrites::off())
        .denials(Denials::off())
        .rate_limits(RateLimits::off())
        .credential(CredentialRule::off());
    for circuit in Circuit::ALL {
        let mut rig = Rig::with(circuit, off.clone());
        for reason in Reason::ALL {
            for effect in [READ, WRITE] {
                let verdict = Verdict::new(*reason);
                let settled = Settled::new(0, effect, &verdict);
                assert!(!needs_cell(circuit, &settled, &off), "{circuit} {reason}");
                for _ in 0..20 {
                    rig.settle(settled);
                }
            }
        }
        assert_eq!(rig.state(), State::Closed, "{circuit}");
    }
}

#[test]
fn a_healthy_result_needs_no_cell() {
    let card = TripCard::default();
    for reason in [Reason::Completed, Reason::InvalidRequest, Reason::Refused, Reason::Abandoned] {
        for circuit in Circuit::ALL {
            let verdict = Verdict::new(reason);
            assert!(!needs_cell(circuit, &Settled::new(0, WRITE, &verdict), &card));
        }
    }
    let rate = TripCard::default().failures(Failures::rate(0.5, MINUTE, 10));
    let verdict = Verdict::completed();
    assert!(needs_cell(Circuit::Health, &Settled::new(0, READ, &verdict), &rate));
}

#[test]
fn impossible_values_name_their_field() {
    let card = TripCard::default;
    let cases = [
        (card().failures(Failures::count(0, 20)), "failures.count"),
        (card().failures(Failures::count(21, 20)), "failures.count"),
        (card().failures(Failures::count(1, 0)), "failures.window"),
        (card().failures(Failures::count(1, 1_025)), "failures.window"),
        (card().failures(Failures::rate(f64::NAN, MINUTE, 1)), "failures.rate.share"),
        (card().failures(Failures::rate(1.1, MINUTE, 1)), "failures.rate.share"),
        (card().failures(Failures::rate(0.5, Duration::ZERO, 1)), "failures.rate.within"),
        (card().failures(Failures::rate(0.5, MINUTE, 0)), "failures.rate.min_sample"),
        (card().malformed(Malformed { window: 4, ..Malformed::default() }), "malformed.count"),
        (card().slow_calls(SlowCalls::at_least(Duration::ZERO)), "slow_calls.threshold"),
        (card().quality(Quality::below(f64::NAN)), "quality.floor"),
        (card().cost(Cost { span: 0, ..Cost::above(1.0) }), "cost.span"),
        (card().unknown_writes(UnknownWrites { count: 257, ..Default::default() }), "unknown_writes.count"),
        (card().denials(Denials { within: Duration::ZERO, ..Default::default() }), "denials.within"),
        (card().rate_limits(RateLimits { max_hold: secs(1), ..Default::default() }), "rate_limits.max_hold"),
        (card().cool_down(Duration::ZERO), "cool_down"),
        (card().max_cool_down(secs(1)), "max_cool_down"),
        (card().jitter(-0.1), "jitter"),
        (card().probes(0), "probes"),
        (card().probe_lease(Duration::ZERO), "probe_lease"),
        (card().start_share(0.0), "start_share"),
        (card().start_share(f64::NAN), "start_share"),
        (card().hung_after(Duration::ZERO), "hung_after"),
    ];
    for (card, field) in cases {
        assert_eq!(card.validate().expect_err(field).field(), field);
    }
    assert_eq!(card().validate(), Ok(()));
    assert_eq!(card().failures(Failures { count: 0, ..Failures::off() }).validate(), Ok(()));
}

#[test]
fn a_card_is_read_from_a_file_and_unknown_fields_are_refused() {
    let card: TripCard = toml::from_str(
        "cool_down = '1h30m'\nhealth_scope = 'target'\n[failures]\ncount = 3\n[denials]\nenabled = false\n",
    )
    .unwrap();
    assert_eq!(card.cool_down, 90 * MINUTE);
    assert_eq!(card.failures, Failures::count(3, 20));
    assert_eq!(card.denials, Denials::off());
    assert_eq!(toml::from_str::<TripCard>(&toml::to_string(&card).unwrap()).unwrap(), card);
    assert!(toml::from_str::<TripCard>("cooldown = '10m'").is_err());
    assert!(toml::from_str::<TripCard>("[failures]\nwindows = 3").is_err());
}
