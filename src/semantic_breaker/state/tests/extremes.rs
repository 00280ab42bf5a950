use super::*;

#[test]
fn a_clock_that_goes_back_keeps_every_distance() {
    for jump in [secs(2), secs(3_600), secs(86_400 * 365)] {
        let mut rig = opened();
        rig.pass(5 * MINUTE);
        assert_eq!(rig.refused(READ), Refusal::Open);
        rig.now = rig.now.checked_sub(jump).unwrap_or(rig.start);
        rig.refused(READ);
        assert_eq!(rig.until(), 5 * MINUTE);
        rig.pass(5 * MINUTE);
        rig.probe(READ);
    }
}

#[test]
fn a_little_disorder_between_threads_moves_nothing() {
    let mut rig = opened();
    rig.pass(secs(1));
    rig.refused(READ);
    rig.now -= Duration::from_millis(900);
    rig.refused(READ);
    rig.pass(10 * MINUTE - Duration::from_millis(101));
    assert_eq!(rig.refused(READ), Refusal::Open);
    rig.pass(Duration::from_millis(1));
    rig.probe(READ);
}

#[test]
fn the_far_future_does_not_wedge() {
    for circuit in Circuit::ALL {
        let mut rig = Rig::new(circuit);
        for _ in 0..6 {
            let verdict = Verdict::new(Reason::Timeout);
            rig.settle(Settled::new(rig.epoch, READ, &verdict));
            rig.settle(Settled::new(rig.epoch, WRITE, &verdict));
            rig.end(READ, Reason::PermissionDenied);
            rig.limited(Some(secs(1 << 33)));
            rig.end(READ, Reason::Unauthenticated);
        }
        let before = rig.now;
        rig.pass(secs(1 << 33));
        rig.ask(WRITE);
        rig.now = before;
        rig.ask(WRITE);
        rig.pass(60 * MINUTE);
        assert_ne!(rig.state(), State::Open, "{circuit}");
    }
}

#[test]
fn huge_settings_do_not_panic() {
    let card = TripCard::default()
        .cool_down(Duration::MAX)
        .max_cool_down(Duration::MAX)
        .probe_lease(Duration::MAX)
        .ramp(Duration::MAX)
        .jitter(1.0)
        .live_probes(true);
    let card = card
        .failures(Failures::rate(1.0, Duration::MAX, 1))
        .denials(Denials { count: 1, within: Duration::MAX, ..Default::default() })
        .unknown_writes(UnknownWrites { count: 1, within: Duration::MAX, ..Default::default() })
        .rate_limits(RateLimits {
            first_hold: Duration::MAX,
            max_hold: Duration::MAX,
            within: Duration::MAX,
            pause: Duration::MAX,
            ..Default::default()
        });
    for circuit in Circuit::ALL {
        let mut rig = Rig::with(circuit, card.clone());
        for round in 0..50_u64 {
            for reason in [Reason::Timeout, Reason::PermissionDenied, Reason::RateLimited, Reason::Unauthenticated] {
                rig.end(READ, reason);
                rig.end(WRITE, reason);
            }
            rig.pass(secs(round << 28));
            if let Admit::Probe(lease) = rig.ask(WRITE).0 {
                rig.end_probe(lease, READ, if round % 3 == 0 { Reason::Overloaded } else { Reason::Completed });
            }
        }
    }
}

#[test]
fn a_cell_stays_small() {
    assert!(size_of::<Cell>() <= 256, "{}", size_of::<Cell>());
}
