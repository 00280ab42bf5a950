//! Unknown writes, and denials.

use tower_belay::{ActionId, semantic_breaker::UnknownWrites};

use super::*;

fn action(id: u128) -> ActionId {
    ActionId::from_key(id)
}

async fn two_unknown_writes(rig: &Rig) {
    rig.sends(1, &write("crm").action(action(1)), Reason::Timeout).await;
    assert_eq!(rig.state(&write("crm"), Circuit::Writes), State::Closed);
    rig.sends(1, &write("crm").operation("close").actor("bob").action(action(2)), Reason::ConnectionLost).await;
}

#[tokio::test(start_paused = true)]
async fn two_unknown_writes_stop_the_writes_of_their_target_alone() {
    let rig = Rig::new(TripCard::default());
    two_unknown_writes(&rig).await;
    rig.sends(1, &read("crm"), Reason::Timeout).await;
    for effect in [Effect::Reversible, Effect::Consequential, Effect::Sensitive] {
        assert_eq!(rig.refused(&write("crm").operation("any").effect(effect)).await, Refusal::WritesOpen);
    }
    for other in [read("crm"), read("crm").operation("refund"), write("erp"), write("crm").tenant("globex")] {
        rig.passes(&other).await;
    }
    assert_eq!(rig.cause(&write("crm"), Circuit::Writes), Some(Signal::UnknownWrites));
    assert_eq!(rig.alerts(), [AlertKind::Reconcile]);
    assert_eq!(rig.handle.pending_writes(&write("crm")), [action(1), action(2)]);
}

#[tokio::test(start_paused = true)]
async fn findings_let_writes_go_on_at_once() {
    let rig = Rig::new(TripCard::default());
    two_unknown_writes(&rig).await;
    rig.handle.reconciled(&write("crm"), action(7));
    assert_eq!(rig.refused(&write("crm")).await, Refusal::WritesOpen, "nobody asked about that one");
    rig.handle.reconciled(&write("crm"), action(2));
    rig.passes(&write("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_action_counts_and_only_a_reset_lets_writes_go_on() {
    let rig = Rig::new(TripCard::default());
    rig.sends(2, &write("crm"), Reason::Timeout).await;
    assert_eq!(rig.refused(&write("crm")).await, Refusal::WritesOpen);
    assert_eq!(rig.handle.pending_writes(&write("crm")), []);
    rig.handle.reset(&write("crm"));
    rig.passes(&write("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn an_hour_apart_two_unknown_writes_stop_nothing() {
    let rig = Rig::new(TripCard::default());
    rig.sends(1, &write("crm"), Reason::Timeout).await;
    pass(60 * MINUTE).await;
    rig.sends(1, &write("crm"), Reason::Timeout).await;
    rig.passes(&write("crm")).await;
    pass(60 * MINUTE - secs(1)).await;
    rig.sends(1, &write("crm"), Reason::Timeout).await;
    assert_eq!(rig.refused(&write("crm")).await, Refusal::WritesOpen);
}

#[tokio::test(start_paused = true)]
async fn writes_recover_by_receipts_where_live_probes_are_allowed() {
    let rig = Rig::new(TripCard::default().live_probes(true));
    two_unknown_writes(&rig).await;
    pass(10 * MINUTE).await;
    rig.sends(9, &write("crm"), Verdict::completed()).await;
    let successes = rig.circuit(&write("crm"), Circuit::Writes).map(|it| it.counts.probe_successes);
    assert_eq!(successes, Some(0), "a write without a receipt proves nothing");
    rig.sends(4, &write("crm"), good()).await;
    assert_eq!(rig.state(&write("crm"), Circuit::Writes), State::Recovering);
    for share in [10, 40, 70, 100] {
        assert_eq!(rig.of_a_hundred(&write("crm")).await, share);
        pass(5 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_write_in_half_open_stops_writes_again_at_once() {
    let rig = Rig::new(TripCard::default().live_probes(true));
    two_unknown_writes(&rig).await;
    pass(10 * MINUTE).await;
    rig.sends(3, &write("crm"), good()).await;
    rig.sends(1, &write("crm").action(action(3)), Reason::Unproven).await;
    assert_eq!(rig.refused(&write("crm")).await, Refusal::WritesOpen);
    assert_eq!(rig.handle.pending_writes(&write("crm")), [action(1), action(2), action(3)]);
}

#[tokio::test(start_paused = true)]
async fn without_the_row_unknown_writes_stop_nothing() {
    let rig = Rig::new(TripCard::default().unknown_writes(UnknownWrites::off()));
    rig.sends(30, &write("crm"), Reason::Timeout).await;
    assert_eq!(rig.handle.unhealthy(), 0);
}

#[tokio::test(start_paused = true)]
async fn three_denials_block_their_actor_alone_and_tell_security() {
    let rig = Rig::new(TripCard::default());
    for (denial, target) in
        [(Reason::PermissionDenied, "crm"), (Reason::CrossTenant, "erp"), (Reason::PolicyDenied, "crm")]
    {
        assert!(rig.alerts().is_empty());
        rig.sends(1, &write(target), denial).await;
    }
    assert_eq!(rig.alerts(), [AlertKind::Security]);
    for blocked in [write("crm"), read("crm"), read("never seen")] {
        assert_eq!(rig.refused(&blocked).await, Refusal::ActorBlocked);
    }
    for other in [write("crm").actor("bob"), read("erp").actor("bob"), write("crm").tenant("globex")] {
        rig.passes(&other).await;
    }
    assert!(rig.alerts().is_empty(), "once");
    rig.recovers(&write("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn denials_further_apart_than_five_minutes_block_nobody() {
    let rig = Rig::new(TripCard::default());
    for _ in 0..6 {
        rig.sends(1, &read("crm"), Reason::PermissionDenied).await;
        pass(secs(150)).await;
    }
    rig.passes(&read("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn without_an_actor_the_tenant_is_blocked() {
    let rig = Rig::new(TripCard::default());
    let nobody = Call::to("crm").tenant("acme").effect(Effect::ReadOnly);
    rig.sends(3, &nobody, Reason::PermissionDenied).await;
    assert_eq!(rig.refused(&nobody.clone().target("erp")).await, Refusal::ActorBlocked);
    rig.passes(&nobody.clone().tenant("globex")).await;
    rig.passes(&nobody.actor("ada")).await;
    assert_eq!(rig.alerts(), [AlertKind::Security]);
}

#[tokio::test(start_paused = true)]
async fn without_actor_and_tenant_the_target_alone_is_blocked() {
    let rig = Rig::new(TripCard::default());
    let nobody = Call::to("crm").effect(Effect::ReadOnly);
    rig.sends(3, &nobody, Reason::PermissionDenied).await;
    assert_eq!(rig.refused(&nobody).await, Refusal::ActorBlocked);
    rig.passes(&nobody.clone().target("erp")).await;
    rig.passes(&nobody.actor("ada")).await;
}
