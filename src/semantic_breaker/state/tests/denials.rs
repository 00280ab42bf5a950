use super::*;

#[test]
fn three_in_five_minutes_block_the_actor_and_alert() {
    let mut rig = Rig::new(Circuit::Denials);
    rig.end(READ, Reason::PermissionDenied);
    rig.end(WRITE, Reason::CrossTenant);
    for _ in 0..100 {
        rig.end(READ, Verdict::completed());
    }
    rig.pass(5 * MINUTE - secs(1));
    let changes = rig.end(READ, Reason::PolicyDenied);
    assert_eq!(changes.alert, Some(Notice::ActorBlocked));
    assert_eq!(rig.refused(READ), Refusal::ActorBlocked);
}

#[test]
fn older_ones_do_not_count() {
    let mut rig = Rig::new(Circuit::Denials);
    for _ in 0..10 {
        rig.end(READ, Reason::PermissionDenied);
        rig.pass(secs(150));
    }
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn an_actor_that_only_writes_can_come_back() {
    let mut rig = Rig::new(Circuit::Denials);
    for _ in 0..3 {
        rig.end(WRITE, Reason::PermissionDenied);
    }
    rig.pass(10 * MINUTE);
    for _ in 0..4 {
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Reason::ServerError);
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Verdict::completed());
    }
    assert_eq!(rig.state(), State::Recovering);
    rig.pass(15 * MINUTE);
    rig.passes(WRITE);
}

#[test]
fn a_denied_probe_blocks_again() {
    let mut rig = Rig::new(Circuit::Denials);
    for _ in 0..3 {
        rig.end(WRITE, Reason::PermissionDenied);
    }
    rig.pass(10 * MINUTE);
    let lease = rig.probe(WRITE);
    assert_eq!(rig.end_probe(lease, WRITE, Reason::CrossTenant).alert, Some(Notice::ActorBlocked));
    assert!(rig.until() > 20 * MINUTE);
}
