//! Dry run, kill switch, and what operators force.

use tower_belay::{Scope, semantic_breaker::Failures};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_dry_run_refuses_nothing_and_reports_what_it_would_refuse() {
    let rig = Rig::made_by(TripCard::default(), Breaker::dry_run);
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    rig.sends(2, &write("erp"), Reason::Timeout).await;
    rig.sends(3, &read("ats").actor("mallory"), Reason::PermissionDenied).await;
    rig.sends(1, &read("llm"), Reason::Unauthenticated).await;
    let held = [
        (read("crm"), Refusal::Open),
        (write("erp"), Refusal::WritesOpen),
        (read("any").actor("mallory"), Refusal::ActorBlocked),
        (read("llm"), Refusal::CredentialOpen),
    ];
    for (call, code) in held {
        rig.passes(&call).await;
        assert_eq!(mem::take(&mut rig.told().would_refuse), [code]);
    }
    assert_eq!(rig.alerts(), [AlertKind::Reconcile, AlertKind::Security, AlertKind::Credential]);
    assert_eq!(rig.told().refused, 0);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reports_calls_that_a_probe_would_replace() {
    let probe = tower::service_fn(|_: Call| async { panic!("a dry run tests nothing") as Result<Verdict, BoxError> });
    let rig = Rig::made_by(TripCard::default(), |layer| layer.dry_run().probe(probe));
    rig.sends(5, &write("crm"), Reason::Overloaded).await;
    pass(10 * MINUTE).await;
    rig.passes(&write("crm")).await;
    assert_eq!(rig.told().would_refuse, [Refusal::Probing]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reports_an_invalid_card() {
    let rig = Rig::made_by(TripCard::default().failures(Failures::count(0, 20)), Breaker::dry_run);
    rig.passes(&read("crm")).await;
    assert_eq!(rig.told().would_refuse, [Refusal::Misconfigured]);
}

#[tokio::test(start_paused = true)]
async fn the_kill_switch_is_real_in_a_dry_run_too() {
    let rig = Rig::made_by(TripCard::default(), Breaker::dry_run);
    rig.handle.kill();
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Killed);
    rig.handle.revive();
    rig.passes(&read("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn the_kill_switch_refuses_every_call_of_every_key_until_it_is_off() {
    let rig = Rig::new(TripCard::default());
    rig.handle.kill();
    assert!(rig.handle.is_killed());
    for call in [read("crm"), write("erp").tenant("globex"), Call::new()] {
        assert_eq!(rig.refused(&call).await, Refusal::Killed);
    }
    rig.handle.update(TripCard::default()).expect("a valid card");
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Killed, "a new card does not turn it off");
    rig.handle.revive();
    rig.passes(&read("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn killed_calls_do_not_wait_for_the_inner_service() {
    let layer = SemanticBreakerLayer::new(TripCard::default());
    layer.handle().kill();
    let never_ready = tower::limit::ConcurrencyLimit::new(tower::service_fn(answer), 0);
    let mut service = layer.layer(never_ready);
    let request = http::Request::get("http://crm.test/").body(String::new()).expect("a request");
    let sending = async { service.ready().await?.call(request).await };
    let error = tokio::time::timeout(secs(1), sending).await.expect("at once").expect_err("a refusal");
    assert_eq!(error.rejected().map(|it| (it.code(), it.scope())), Some((Refusal::Killed, Scope::GLOBAL)));
}

#[tokio::test(start_paused = true)]
async fn a_call_revived_between_readiness_and_sending_may_be_sent_again_at_once() {
    let layer = SemanticBreakerLayer::new(TripCard::default());
    let mut service = layer.layer(tower::service_fn(answer));
    let request = || http::Request::get("http://crm.test/").body(String::new()).expect("a request");
    layer.handle().kill();
    service.ready().await.expect("a refusal needs nobody");
    layer.handle().revive();
    let error = service.call(request()).await.expect_err("the inner service was not asked");
    assert_eq!(error.rejected().map(|it| it.code()), Some(Refusal::Killed));
    assert_eq!(error.retry_at(), Some(tokio::time::Instant::now()));
    assert!(service.ready().await.expect("ready").call(request()).await.is_ok());
}

async fn answer(_: http::Request<String>) -> Result<http::Response<String>, BoxError> {
    Ok(http::Response::new(String::new()))
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_opens_stays_open_whatever_comes_until_its_time() {
    let rig = Rig::new(TripCard::default());
    rig.handle.force_open(&read("crm"), Circuit::Health, 30 * MINUTE);
    pass(30 * MINUTE - secs(1)).await;
    assert_eq!(rig.refused(&read("crm")).await, Refusal::ForcedOpen);
    rig.passes(&read("erp")).await;
    pass(secs(1)).await;
    rig.passes(&read("crm")).await;

    rig.handle.force_open(&read("crm"), Circuit::Health, None);
    pass(1_000 * MINUTE).await;
    assert_eq!(rig.refused(&read("crm")).await, Refusal::ForcedOpen);
    rig.handle.reset(&read("crm"));
    rig.passes(&read("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_closes_stays_closed_whatever_comes_until_a_reset() {
    let rig = Rig::new(TripCard::default());
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    rig.handle.force_closed(&read("crm"), Circuit::Health);
    rig.sends(50, &read("crm"), Reason::Overloaded).await;
    rig.handle.reset(&read("crm"));
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Open);
}

#[tokio::test(start_paused = true)]
async fn a_reset_closes_every_circuit_and_keeps_unknown_writes_to_reconcile() {
    let rig = Rig::new(TripCard::default());
    let call = write("crm").action(tower_belay::ActionId::from_key(1));
    rig.sends(5, &call, Reason::Overloaded).await;
    rig.handle.reset(&call);
    rig.sends(2, &call.clone().action(tower_belay::ActionId::from_key(2)), Reason::Timeout).await;
    rig.sends(1, &call, Reason::Timeout).await;
    rig.handle.reset(&call);
    rig.passes(&call).await;
    assert_eq!(rig.handle.pending_writes(&call).len(), 2);
    rig.sends(1, &call.clone().action(tower_belay::ActionId::from_key(3)), Reason::Timeout).await;
    rig.passes(&call).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_card_keeps_what_is_known() {
    let rig = Rig::new(TripCard::default());
    rig.sends(4, &read("crm"), Reason::Overloaded).await;
    rig.sends(5, &read("erp"), Reason::Overloaded).await;
    rig.handle.update(TripCard::default().failures(Failures::count(3, 20))).expect("a valid card");
    assert_eq!(rig.refused(&read("erp")).await, Refusal::Open);
    rig.sends(1, &read("crm"), Reason::Overloaded).await;
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Open, "four are remembered");
    let error = rig.handle.update(TripCard::default().probes(0)).expect_err("no probes");
    assert_eq!(error.field(), "probes");
    assert_eq!(rig.refused(&read("erp")).await, Refusal::Open);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_asked_for_before_a_reset_is_late_for_what_comes_after_it() {
    let handle = Arc::<std::sync::OnceLock<BreakerHandle>>::default();
    let resets = handle.clone();
    let rig = Rig::made_by(TripCard::default(), |layer| {
        layer.listener(move |event: &Event<'_>| {
            if let (Event::Transition(it), Some(handle)) = (event, resets.get())
                && it.to == State::HalfOpen
            {
                handle.reset(&read("crm"));
            }
        })
    });
    handle.set(rig.handle.clone()).expect("nobody set it");
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    pass(10 * MINUTE).await;
    // Asking for it makes the circuit half-open, and the listener resets it before the call is sent.
    rig.sends(1, &read("crm"), Reason::Overloaded).await;
    assert_eq!(rig.circuit(&read("crm"), Circuit::Health).map(|it| it.counts.failures), Some(0));
    rig.sends(4, &read("crm"), Reason::Overloaded).await;
    rig.passes(&read("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn listeners_may_steer_the_breaker_they_hear_and_send_calls_through_it() {
    let parts = Arc::<std::sync::OnceLock<(BreakerHandle, BoxCloneSyncService<Request, Verdict, Error>)>>::default();
    let (uses, alerted) = (parts.clone(), parts.clone());
    let rig = Rig::made_by(TripCard::default(), |layer| {
        layer
            .listener(move |event: &Event<'_>| {
                // What it does itself it hears of too.
                let Some((handle, service)) = uses.get() else { return };
                if matches!(event, Event::Transition(it) if it.key.contains("other")) {
                    return;
                }
                handle.all();
                handle.state(&read("crm"));
                handle.force_open(&read("other"), Circuit::Health, None);
                handle.reset(&read("other"));
                handle.update(TripCard::default()).expect("a valid card");
                handle.kill();
                handle.revive();
                let request = Request { call: write("third"), verdict: good(), after: Duration::ZERO };
                let answer = futures_util::FutureExt::now_or_never(service.clone().oneshot(request));
                assert!(answer.is_some());
            })
            .alerts(move |_: &Alert| {
                if let Some((handle, _)) = alerted.get() {
                    handle.pending_writes(&write("crm"));
                    handle.reset(&read("other"));
                }
            })
    });
    assert!(parts.set((rig.handle.clone(), rig.service.clone())).is_ok());
    let send = async |call: &Call, verdict: Reason| {
        let request = Request { call: call.clone(), verdict: verdict.into(), after: Duration::ZERO };
        rig.service.clone().oneshot(request).await.err().and_then(|error| error.rejected().map(|it| it.code()))
    };
    for _ in 0..5 {
        assert_eq!(send(&read("crm"), Reason::Overloaded).await, None);
    }
    assert_eq!(send(&read("crm"), Reason::Completed).await, Some(Refusal::Open));
    for _ in 0..2 {
        assert_eq!(send(&write("erp"), Reason::Timeout).await, None);
    }
    assert_eq!(send(&write("erp"), Reason::Completed).await, Some(Refusal::WritesOpen));
}

#[tokio::test(start_paused = true)]
async fn whoever_panics_when_told_changes_no_decision_and_loses_no_count() {
    let rig = Rig::made_by(TripCard::default(), |layer| {
        layer.listener(|_: &Event<'_>| panic!("a listener")).alerts(|_: &Alert| panic!("a sink"))
    });
    let call = read("crm").credential("key").actor("eve");
    rig.sends(3, &call, Reason::PermissionDenied).await;
    assert_eq!(rig.refused(&call).await, Refusal::ActorBlocked);
    // Two circuits of one call: the first that tells does not keep the second from counting.
    rig.sends(5, &read("erp"), Reason::Overloaded).await;
    assert_eq!(rig.refused(&read("erp")).await, Refusal::Open);
    pass(10 * MINUTE).await;
    // The slots of the probes that were told of in vain come free.
    rig.sends(4, &read("erp"), good()).await;
    assert_eq!(rig.handle.state(&read("erp")), State::Recovering);
}
