use super::*;

#[test]
fn one_probe_at_a_time() {
    let mut rig = half_open();
    let lease = rig.probe(READ);
    for _ in 0..100 {
        assert_eq!(rig.refused(READ), Refusal::Probing);
    }
    rig.end_probe(lease, READ, Verdict::completed());
    rig.probe(READ);
}

#[test]
fn four_verified_successes_start_recovery() {
    let mut rig = half_open();
    for count in 0..4 {
        assert_eq!(rig.state(), State::HalfOpen, "{count}");
        let lease = rig.probe(READ);
        rig.end_probe(lease, READ, Verdict::completed());
    }
    assert_eq!(rig.state(), State::Recovering);
}

#[test]
fn a_failed_probe_reopens() {
    let mut rig = half_open();
    for _ in 0..3 {
        let lease = rig.probe(READ);
        rig.end_probe(lease, READ, Verdict::completed());
    }
    let lease = rig.probe(READ);
    let changes = rig.end_probe(lease, READ, Reason::EmptyAnswer);
    assert_eq!(changes.transition.expect("reopens").cause, Signal::Malformed);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_write_is_verified_by_its_receipt() {
    let mut rig = half_open();
    rig.card.live_probes = true;
    for _ in 0..10 {
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Verdict::completed());
    }
    assert_eq!(rig.state(), State::HalfOpen);
    for _ in 0..4 {
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Verdict::completed().with_receipt("id 1"));
    }
    assert_eq!(rig.state(), State::Recovering);
}

#[test]
fn what_was_only_accepted_is_not_verified() {
    let mut rig = half_open();
    let lease = rig.probe(READ);
    rig.end_probe(lease, READ, Reason::Accepted);
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.probe_successes, 0);
    let lease = rig.probe(READ);
    rig.end_probe(lease, READ, Verdict::new(Reason::Accepted).with_receipt("job 1"));
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.probe_successes, 1);
}

#[test]
fn a_hung_probe_loses_its_slot_after_five_minutes() {
    let mut rig = half_open();
    let hung = rig.probe(READ);
    rig.pass(5 * MINUTE - secs(1));
    assert_eq!(rig.refused(READ), Refusal::Probing);
    rig.pass(secs(1));
    let second = rig.probe(READ);
    rig.end_probe(hung, READ, Reason::Timeout);
    rig.cell.release(hung);
    assert_eq!(rig.refused(READ), Refusal::Probing, "the slot is the second probe's");
    rig.end_probe(second, READ, Verdict::completed());
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.probe_successes, 1);
}

#[test]
fn a_lease_ends_with_the_deadline_but_not_with_one_that_has_passed_or_never_comes() {
    for (deadline, lease) in [(secs(30), secs(30)), (secs(0), 5 * MINUTE), (secs(1 << 32), 60 * MINUTE)] {
        let mut rig = half_open();
        let deadline = rig.now + deadline;
        assert!(matches!(rig.ask_until(READ, Some(deadline)).0, Admit::Probe(_)));
        rig.pass(lease - secs(1));
        assert_eq!(rig.refused(READ), Refusal::Probing);
        rig.pass(secs(1));
        rig.probe(READ);
    }
}

#[test]
fn a_failed_probe_counts_even_at_its_deadline() {
    let mut rig = half_open();
    let lease = rig.probe(READ);
    rig.pass(5 * MINUTE);
    rig.end_probe(lease, READ, Reason::Timeout);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_dropped_or_neutral_probe_frees_the_slot_and_changes_nothing() {
    let mut rig = half_open();
    for reason in [Reason::InvalidRequest, Reason::Abandoned, Reason::RateLimited, Reason::PermissionDenied] {
        let lease = rig.probe(READ);
        rig.end_probe(lease, READ, reason);
        let lease = rig.probe(READ);
        rig.cell.release(lease);
    }
    assert_eq!(rig.state(), State::HalfOpen);
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.probe_successes, 0);
}

#[test]
fn an_unknown_write_reopens_at_once() {
    for circuit in [Circuit::Health, Circuit::Writes] {
        let mut rig = if circuit == Circuit::Health { opened() } else { writes_open() };
        rig.card.live_probes = true;
        rig.pass(10 * MINUTE);
        let lease = rig.probe(WRITE);
        let changes = rig.end_probe(lease, WRITE, Reason::Timeout);
        assert_eq!(changes.transition.expect("reopens").cause, Signal::UnknownWrites);
        assert!(rig.until() >= 20 * MINUTE, "{:?}", rig.until());
    }
}

#[test]
fn a_late_result_changes_nothing() {
    let mut rig = health();
    let old = rig.epoch;
    rig.fail(5);
    let (good, bad) = (Verdict::completed(), Verdict::new(Reason::Overloaded));
    for _ in 0..20 {
        rig.settle(Settled::new(old, READ, &good));
    }
    assert_eq!(rig.state(), State::Open);
    rig.pass(10 * MINUTE);
    let lease = rig.probe(READ);
    rig.settle(Settled::new(old, READ, &good));
    rig.settle(Settled::new(old, READ, &bad));
    assert_eq!(rig.state(), State::HalfOpen);
    assert_eq!(rig.refused(READ), Refusal::Probing);
    rig.end_probe(lease, READ, Verdict::completed());
    for _ in 0..3 {
        let lease = rig.probe(READ);
        rig.end_probe(lease, READ, Verdict::completed());
    }
    for _ in 0..20 {
        rig.settle(Settled::new(old, READ, &bad));
    }
    assert_eq!(rig.state(), State::Recovering);
}

#[test]
fn writes_await_a_probe_with_one_alert_until_a_read_comes() {
    let mut rig = half_open();
    let (admit, changes) = rig.ask(WRITE);
    assert!(matches!(admit, Admit::Refuse { refusal: Refusal::AwaitingProbe, .. }));
    assert_eq!(changes.alert, Some(Notice::AwaitingProbe));
    assert_eq!(changes.transition.expect("a state of its own").to, State::AwaitingProbe);
    for _ in 0..10 {
        assert_eq!(rig.ask(WRITE).1, Changes::default());
    }
    rig.pass(secs(86_400));
    assert_eq!(rig.refused(WRITE), Refusal::AwaitingProbe);
    for _ in 0..4 {
        let lease = rig.probe(READ);
        assert_eq!(rig.refused(WRITE), Refusal::Probing);
        rig.end_probe(lease, READ, Verdict::completed());
    }
    assert_eq!(rig.state(), State::Recovering);
}

#[test]
fn the_users_probe_runs_in_place_of_a_write() {
    let mut rig = half_open();
    rig.has_probe = true;
    rig.card.live_probes = true;
    for _ in 0..4 {
        let Admit::RunProbe(lease) = rig.ask(WRITE).0 else { panic!("expected the probe to run") };
        rig.end_probe(lease, WRITE, Verdict::completed());
    }
    assert_eq!(rig.state(), State::Recovering);
}
