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
