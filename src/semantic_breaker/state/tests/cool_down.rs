use super::*;

#[test]
fn it_doubles_with_jitter_to_its_cap_and_starts_anew_after_recovery() {
    let mut rig = opened();
    let mut waits = Vec::new();
    for _ in 0..6 {
        let wait = rig.until();
        waits.push(wait);
        rig.pass(wait);
        let lease = rig.probe(READ);
        rig.end_probe(lease, READ, Reason::Overloaded);
    }
    assert_eq!(waits[0], 10 * MINUTE);
    assert!(waits[1] > 20 * MINUTE && waits[1] <= 22 * MINUTE, "{waits:?}");
    assert!(waits[2] > 40 * MINUTE && waits[2] <= 44 * MINUTE, "{waits:?}");
    assert_eq!(waits[3..], [60 * MINUTE; 3]);
    rig.recover();
    rig.pass(15 * MINUTE);
    assert_eq!(rig.state(), State::Closed);
    rig.fail(5);
    assert_eq!(rig.until(), 10 * MINUTE);
}

#[test]
fn jitter_is_the_seeds() {
    let wait = |seed| {
        let mut rig = half_open();
        rig.cell.cool = crate::semantic_breaker::state::cooldown::CoolDown::new(seed);
        let lease = rig.probe(READ);
        rig.end_probe(lease, READ, Reason::Overloaded);
        rig.until()
    };
    assert_eq!(wait(1), wait(1));
    assert_ne!(wait(1), wait(2));
}
