use super::*;

#[test]
fn the_worked_case_comes_out_exactly() {
    let mut health = Rig::new(Circuit::Health);
    let mut writes = Rig::new(Circuit::Writes);
    let attempts = [Reason::Completed; 16].into_iter().chain([Reason::SchemaViolation, Reason::InvalidRequest]);
    for reason in attempts.chain([Reason::ConnectFailed]) {
        health.end(WRITE, reason);
        writes.end(WRITE, reason);
        assert_eq!((health.state(), writes.state()), (State::Closed, State::Closed));
    }
    // The retry of attempt 19, with the same action, is lost after submission; its look-up is not an attempt.
    health.end(WRITE, Reason::Timeout);
    assert_eq!(writes.unknown(19), Changes::default());
    writes.passes(WRITE);
    health.end(WRITE, Reason::Timeout);
    let changes = writes.unknown(20);
    assert_eq!(changes.transition.expect("opens").cause, Signal::UnknownWrites);
    assert!(changes.reconcile);
    assert_eq!(writes.cell.pending_writes().count(), 2);
    for _ in 0..40 {
        assert_eq!(writes.refused(WRITE), Refusal::WritesOpen);
        writes.passes(READ);
    }
    assert_eq!(health.state(), State::Closed);
}

#[test]
fn attempts_at_one_action_are_one_unknown_write() {
    let mut rig = Rig::new(Circuit::Writes);
    for _ in 0..5 {
        rig.unknown(1);
    }
    assert_eq!(rig.state(), State::Closed);
    rig.end(WRITE, Reason::Cut);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_late_attempt_does_not_unmake_an_unknown_write() {
    let mut rig = Rig::new(Circuit::Writes);
    let old = rig.epoch;
    rig.act(|cell, moment| cell.reset(moment));
    rig.unknown(1);
    let verdict = Verdict::new(Reason::Timeout);
    rig.settle(Settled { action: Some(ActionId::from_key(1)), ..Settled::new(old, WRITE, &verdict) });
    rig.unknown(2);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn an_hour_later_an_unknown_write_counts_no_more() {
    let mut rig = Rig::new(Circuit::Writes);
    rig.unknown(1);
    rig.pass(60 * MINUTE);
    rig.unknown(2);
    assert_eq!(rig.state(), State::Closed);
    rig.pass(60 * MINUTE - secs(1));
    rig.unknown(3);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_write_given_up_early_says_nothing_and_a_hung_one_counts() {
    let mut rig = Rig::new(Circuit::Writes);
    for _ in 0..5 {
        let reason = rig.card.abandoned(secs(59));
        rig.end(WRITE, reason);
    }
    assert_eq!(rig.cell.pending_writes().count(), 0);
    for _ in 0..2 {
        let reason = rig.card.abandoned(secs(60));
        rig.end(WRITE, reason);
    }
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn findings_close() {
    let mut rig = writes_open();
    rig.act(|cell, moment| cell.reconciled(ActionId::from_key(99), moment));
    assert_eq!(rig.state(), State::Open);
    let changes = rig.act(|cell, moment| cell.reconciled(ActionId::from_key(1), moment));
    assert_eq!(changes.transition.expect("closes").to, State::Closed);
    rig.passes(WRITE);
    rig.unknown(3);
    assert_eq!(rig.state(), State::Open, "2 and 3 are not reconciled");
}

#[test]
fn findings_do_not_close_what_a_probe_has_shown_to_fail() {
    let mut rig = writes_open();
    rig.card.live_probes = true;
    rig.pass(10 * MINUTE);
    let lease = rig.probe(WRITE);
    rig.end_probe(lease, WRITE, Reason::ConnectFailed);
    for action in [1, 2] {
        rig.act(|cell, moment| cell.reconciled(ActionId::from_key(action), moment));
    }
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_late_unknown_write_is_listed_and_does_not_count() {
    let mut rig = writes_open();
    rig.act(|cell, moment| cell.reset(moment));
    let verdict = Verdict::new(Reason::Timeout);
    for action in [3, 4, 5] {
        let action = Some(ActionId::from_key(action));
        let changes = rig.settle(Settled { action, ..Settled::new(0, WRITE, &verdict) });
        assert!(changes.reconcile && changes.transition.is_none());
    }
    assert_eq!(rig.cell.pending_writes().count(), 5);
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn reads_never_probe_for_writes() {
    let mut rig = writes_open();
    rig.pass(10 * MINUTE);
    rig.passes(READ);
    assert_eq!(rig.refused(WRITE), Refusal::AwaitingProbe);
    for _ in 0..10 {
        rig.passes(READ);
        rig.end(READ, Verdict::completed());
    }
    assert_eq!(rig.refused(WRITE), Refusal::AwaitingProbe);
}

#[test]
fn more_unknown_writes_than_can_be_told_apart_never_close_by_findings() {
    let mut rig = Rig::new(Circuit::Writes);
    for action in 0..10_000 {
        rig.unknown(action);
    }
    assert_eq!(rig.cell.pending_writes().count(), 256);
    for action in 0..10_000 {
        rig.act(|cell, moment| cell.reconciled(ActionId::from_key(action), moment));
    }
    assert_ne!(rig.state(), State::Closed);
}
