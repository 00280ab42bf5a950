//! Names made up by whoever attacks.

use tower_belay::Scope;

use super::*;

const NAMES: usize = 100_000;
/// A tenant's own keys, and the one that the rest of its keys share, a circuit.
const CAP: usize = 1_024 + 1;

/// One tenant sends calls that all end in `verdict`, each under names of its own.
async fn attack(rig: &Rig, verdict: Reason, names: impl Fn(Call, &str) -> Call) {
    let mallory = Call::new().tenant("mallory").effect(Effect::ReadOnly);
    for n in 0..NAMES {
        let _ = rig.send(&names(mallory.clone(), &format!("name {n}")), verdict).await;
        if n % 1_000 == 0 {
            rig.target.take_requests();
        }
    }
}

/// Somebody's breaker that was open before an attack is open after it, and everybody else feels nothing.
async fn nobody_else_feels(rig: &Rig, attack: impl AsyncFnOnce(&Rig)) {
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    let before = rig.handle.unhealthy();
    attack(rig).await;
    assert!(rig.handle.unhealthy() <= before + CAP, "{}", rig.handle.unhealthy());
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Open, "it is not evicted");
    for n in 0..100 {
        rig.passes(&read(&format!("name {n}"))).await;
        rig.passes(&Call::to(&format!("name {n}")).tenant(&format!("tenant {n}"))).await;
        rig.passes(&Call::to(&format!("name {n}"))).await;
    }
    rig.sends(5, &read("erp"), Reason::Overloaded).await;
    assert_eq!(rig.refused(&read("erp")).await, Refusal::Open, "others still have room");
    rig.recovers(&read("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_targets_of_one_tenant() {
    let rig = Rig::new(TripCard::default());
    nobody_else_feels(&rig, async |rig| attack(rig, Reason::Failed, |call, name| call.target(name)).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_runs_of_one_tenant() {
    let rig = Rig::new(TripCard::default().health_scope(Scope::RUN | Scope::TARGET));
    nobody_else_feels(&rig, async |rig| attack(rig, Reason::Failed, |call, name| call.run(name)).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_actors_of_one_tenant() {
    let rig = Rig::new(TripCard::default());
    let denied = Reason::PermissionDenied;
    nobody_else_feels(&rig, async |rig| attack(rig, denied, |call, name| call.actor(name)).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_credentials_of_one_tenant() {
    let rig = Rig::new(TripCard::default());
    let wrong = Reason::Unauthenticated;
    nobody_else_feels(&rig, async |rig| attack(rig, wrong, |call, name| call.credential(name)).await).await;
}

#[tokio::test(start_paused = true)]
async fn names_that_only_succeed_leave_nothing_behind() {
    let rig = Rig::new(TripCard::default());
    attack(&rig, Reason::Completed, |call, name| call.target(name).run(name)).await;
    assert_eq!((rig.handle.unhealthy(), rig.target.calls()), (0, NAMES));
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_of_the_attacker_is_not_evicted_either() {
    let rig = Rig::new(TripCard::default());
    let open = Call::to("crm").tenant("mallory").effect(Effect::ReadOnly);
    rig.sends(5, &open, Reason::Failed).await;
    attack(&rig, Reason::Failed, |call, name| call.target(name)).await;
    assert_eq!(rig.refused(&open).await, Refusal::Open);
    pass(9 * MINUTE).await;
    attack(&rig, Reason::Failed, |call, name| call.target(name)).await;
    assert_eq!(rig.refused(&open).await, Refusal::Open);
}

/// So many that the next one has no room of its own.
const FULL: usize = 1_024;

#[tokio::test(start_paused = true)]
async fn whoever_is_to_blame_blocks_nobody_else_of_its_tenant_however_many_there_are() {
    let rig = Rig::new(TripCard::default());
    for n in 0..2 * FULL {
        rig.sends(1, &read("llm").credential(&format!("stolen {n}")), Reason::Unauthenticated).await;
        rig.sends(3, &read("crm").actor(&format!("mallory {n}")), Reason::PermissionDenied).await;
    }
    rig.passes(&read("llm").credential("paid")).await;
    rig.passes(&read("crm").actor("ada")).await;
    assert_eq!(rig.refused(&read("llm").credential("stolen 0")).await, Refusal::CredentialOpen);
    assert_eq!(rig.refused(&read("crm").actor("mallory 0")).await, Refusal::ActorBlocked);
    // An operator has room where a call has none.
    rig.handle.force_open(&read("llm").credential("leaked"), Circuit::Credential, None);
    assert_eq!(rig.refused(&read("llm").credential("leaked")).await, Refusal::ForcedOpen);
}

#[tokio::test(start_paused = true)]
async fn blocked_credentials_that_nobody_uses_any_more_make_room_for_others() {
    let rig = Rig::new(TripCard::default());
    for n in 0..FULL {
        rig.sends(1, &read("llm").credential(&format!("old {n}")), Reason::Unauthenticated).await;
    }
    pass(20 * MINUTE).await;
    rig.sends(1, &read("llm").credential("new"), Reason::Unauthenticated).await;
    assert_eq!(rig.refused(&read("llm").credential("new")).await, Refusal::CredentialOpen);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asks_for_in_a_day_is_forgotten_but_not_that_writes_are_stopped() {
    let rig = Rig::new(TripCard::default());
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    rig.sends(3, &read("erp").actor("eve"), Reason::PermissionDenied).await;
    rig.sends(1, &read("llm"), Reason::Unauthenticated).await;
    rig.sends(2, &write("erp").actor("bob"), Reason::Timeout).await;
    pass(24 * 60 * MINUTE - secs(1)).await;
    rig.handle.all();
    assert_eq!(rig.handle.unhealthy(), 4);
    pass(secs(1)).await;
    rig.handle.all();
    let left: Vec<_> = rig.handle.all().into_iter().map(|(_, snapshot)| snapshot.circuit).collect();
    assert_eq!(left, [Circuit::Writes]);
    assert_eq!(rig.refused(&write("erp").actor("bob")).await, Refusal::AwaitingProbe);
}

#[tokio::test(start_paused = true)]
async fn an_operator_means_one_key_also_where_keys_share() {
    let rig = Rig::new(TripCard::default());
    for n in 0..FULL {
        rig.sends(1, &read(&format!("crm {n}")), Reason::Failed).await;
    }
    rig.handle.force_open(&read("erp"), Circuit::Health, None);
    assert_eq!(rig.refused(&read("erp")).await, Refusal::ForcedOpen);
    rig.passes(&read("ats")).await;
    // Those without room share what comes of them; a reset is for one of them.
    rig.sends(5, &read("web"), Reason::Failed).await;
    assert_eq!(rig.refused(&read("ats")).await, Refusal::Open);
    rig.handle.reset(&read("ats"));
    rig.passes(&read("ats")).await;
    assert_eq!(rig.refused(&read("web")).await, Refusal::Open);
}

#[tokio::test(start_paused = true)]
async fn writes_that_share_are_reconciled_where_they_are_listed() {
    let rig = Rig::new(TripCard::default());
    for n in 0..FULL {
        rig.sends(1, &write(&format!("crm {n}")), Reason::Timeout).await;
    }
    let action = |n| write("erp").action(tower_belay::ActionId::from_key(n));
    rig.sends(1, &action(1), Reason::Timeout).await;
    rig.sends(1, &action(2), Reason::Timeout).await;
    assert_eq!(rig.refused(&write("erp")).await, Refusal::WritesOpen);
    for write in rig.handle.pending_writes(&write("erp")) {
        rig.handle.reconciled(&action(0), write);
    }
    rig.passes(&write("erp")).await;
}
