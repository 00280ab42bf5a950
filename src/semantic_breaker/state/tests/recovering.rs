use super::*;

fn recovering() -> Rig {
    let mut rig = opened();
    rig.recover();
    rig
}

fn admitted(rig: &mut Rig, calls: u32) -> u32 {
    (0..calls).filter(|_| rig.ask(WRITE).0 == Admit::Pass).count() as u32
}

#[test]
fn the_share_is_exact() {
    let mut rig = recovering();
    assert_eq!(admitted(&mut rig, 1_000), 100);
    rig.pass(secs(450));
    assert_eq!(admitted(&mut rig, 1_000), 550);
    assert_eq!(rig.state(), State::Recovering);
    rig.pass(secs(450));
    assert_eq!(admitted(&mut rig, 1_000), 1_000);
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn what_is_left_out_is_told_so() {
    let mut rig = recovering();
    assert_eq!(rig.refused(READ), Refusal::Recovering);
}

#[test]
fn a_tripping_signal_reopens_and_one_failure_does_not() {
    let mut rig = recovering();
    rig.fail(4);
    assert_eq!(rig.state(), State::Recovering);
    rig.fail(1);
    assert_eq!(rig.state(), State::Open);
    assert!(rig.until() > 20 * MINUTE);
}

#[test]
fn failures_of_the_ramp_still_count_after_it() {
    let mut rig = recovering();
    rig.fail(4);
    rig.pass(15 * MINUTE);
    rig.fail(1);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn no_ramp_closes_at_once() {
    let mut rig = half_open();
    rig.card.ramp = Duration::ZERO;
    for _ in 0..4 {
        let lease = rig.probe(READ);
        rig.end_probe(lease, READ, Verdict::completed());
    }
    assert_eq!(rig.state(), State::Closed);
    rig.passes(WRITE);
}
