use super::*;

#[test]
fn forced_open_refuses_until_its_end_and_then_the_phase_before_goes_on() {
    let mut rig = health();
    rig.fail(4);
    let until = Some(rig.now + MINUTE);
    rig.act(|cell, moment| cell.force_open(until, moment));
    assert_eq!(rig.refused(READ), Refusal::ForcedOpen);
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).cause, Some(Signal::Operator));
    rig.pass(MINUTE);
    rig.passes(READ);
    rig.fail(1);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn forced_closed_lets_everything_pass_until_reset() {
    let mut rig = opened();
    rig.act(|cell, moment| cell.force_closed(moment));
    rig.fail(100);
    rig.passes(WRITE);
    assert!(!rig.cell.evictable(rig.now));
    rig.act(|cell, moment| cell.reset(moment));
    rig.fail(5);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn results_from_before_a_reset_are_late() {
    let mut rig = opened();
    let old = rig.epoch;
    rig.act(|cell, moment| cell.reset(moment));
    let verdict = Verdict::new(Reason::Overloaded);
    for _ in 0..20 {
        rig.settle(Settled::new(old, READ, &verdict));
    }
    assert_eq!(rig.state(), State::Closed);
    let mut rig = Rig::new(Circuit::Credential);
    rig.limited(None);
    rig.act(|cell, moment| cell.reset(moment));
    let verdict = Verdict::new(Reason::RateLimited).with_retry_at(rig.now + MINUTE);
    rig.settle(Settled::new(0, READ, &verdict));
    rig.passes(READ);
}

#[test]
fn a_cell_is_clean_when_it_says_no_more_than_none_would() {
    let mut rig = health();
    assert!(rig.cell.is_clean(rig.now, &rig.card));
    rig.fail(1);
    assert!(!rig.cell.is_clean(rig.now, &rig.card));
    for _ in 0..20 {
        rig.end(READ, Verdict::completed());
    }
    assert!(rig.cell.is_clean(rig.now, &rig.card));
    let mut rig = opened();
    assert!(!rig.cell.evictable(rig.now));
    rig.recover();
    rig.pass(15 * MINUTE);
    rig.passes(READ);
    assert!(!rig.cell.is_clean(rig.now, &rig.card), "it still knows what is late");
    assert!(rig.cell.evictable(rig.now));
    rig.pass(60 * MINUTE);
    assert!(rig.cell.is_clean(rig.now, &rig.card));
}

#[test]
fn an_unknown_write_keeps_its_cell() {
    let mut rig = Rig::new(Circuit::Writes);
    rig.end(WRITE, Reason::Timeout);
    assert!(!rig.cell.evictable(rig.now));
    rig.pass(60 * MINUTE);
    assert!(rig.cell.is_clean(rig.now, &rig.card));
}
