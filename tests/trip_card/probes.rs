//! Targets that must not be tested with real writes.

use std::sync::atomic::{AtomicUsize, Ordering};

use tower::service_fn;

use super::*;

/// A write-only target behind a probe of the user's, open for failures; how often the probe ran.
async fn opened_with_probe<F>(probe: impl Fn() -> F + Clone + Send + Sync + 'static) -> (Rig, Arc<AtomicUsize>)
where
    F: Future<Output = Result<Verdict, BoxError>> + Send + 'static,
{
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let rig = Rig::made_by(TripCard::default(), |layer| {
        layer.probe(service_fn(move |call: Call| {
            assert_eq!(call.name(tower_belay::Name::Target), Some("crm"));
            counter.fetch_add(1, Ordering::SeqCst);
            probe()
        }))
    });
    rig.sends(5, &write("crm"), Reason::Overloaded).await;
    (rig, runs)
}

fn sent_writes(rig: &Rig) -> usize {
    rig.target.take_requests().len()
}

#[tokio::test(start_paused = true)]
async fn the_users_probe_runs_instead_of_a_write_and_revives_the_target() {
    let (rig, runs) = opened_with_probe(|| async { Ok(Verdict::completed()) }).await;
    pass(10 * MINUTE - secs(1)).await;
    assert_eq!((rig.refused(&write("crm")).await, runs.load(Ordering::SeqCst)), (Refusal::Open, 0));
    pass(secs(1)).await;
    sent_writes(&rig);
    assert!([Refusal::Probing, Refusal::Recovering].contains(&rig.refused(&write("crm")).await));
    assert_eq!((runs.load(Ordering::SeqCst), sent_writes(&rig)), (4, 0), "four probes, and never the write itself");
    assert_eq!(rig.state(&write("crm"), Circuit::Health), State::Recovering);
    pass(15 * MINUTE).await;
    assert_eq!(rig.of_a_hundred(&write("crm")).await, 100);
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    assert!(rig.alerts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_or_errs_or_hangs_opens_for_longer() {
    let failures: [fn() -> Result<Verdict, BoxError>; 3] = [
        || Ok(Reason::Failed.into()),
        || Ok(Reason::Timeout.into()),
        || Err("the synthetic record is not there".into()),
    ];
    for failure in failures {
        let (rig, runs) = opened_with_probe(move || async move { failure() }).await;
        pass(10 * MINUTE).await;
        assert_eq!((rig.refused(&write("crm")).await, runs.load(Ordering::SeqCst)), (Refusal::Open, 1));
        pass(20 * MINUTE - secs(1)).await;
        assert_eq!((rig.refused(&write("crm")).await, runs.load(Ordering::SeqCst)), (Refusal::Open, 1));
    }
    let (rig, runs) = opened_with_probe(std::future::pending).await;
    pass(10 * MINUTE).await;
    assert_eq!((rig.refused(&write("crm")).await, runs.load(Ordering::SeqCst)), (Refusal::Open, 1));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_says_nothing_of_the_target_runs_once_a_call() {
    for reason in [Reason::RateLimited, Reason::NotFound, Reason::PermissionDenied] {
        let (rig, runs) = opened_with_probe(move || async move { Ok(reason.into()) }).await;
        pass(10 * MINUTE).await;
        for run in 1..=3 {
            assert_eq!((rig.refused(&write("crm")).await, runs.load(Ordering::SeqCst)), (Refusal::Probing, run));
        }
        assert_eq!(rig.state(&write("crm"), Circuit::Health), State::HalfOpen);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_takes_its_probe_with_it_and_frees_the_slot() {
    let (rig, runs) = opened_with_probe(std::future::pending).await;
    pass(10 * MINUTE).await;
    for run in 1..=3 {
        assert!(tokio::time::timeout(secs(1), rig.send(&write("crm"), good())).await.is_err());
        assert_eq!(runs.load(Ordering::SeqCst), run);
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_probe_runs_other_writes_are_refused_and_reads_too() {
    let (rig, runs) = opened_with_probe(std::future::pending).await;
    pass(10 * MINUTE).await;
    let request = Request { call: write("crm"), verdict: good(), after: Duration::ZERO };
    let probing = tokio::spawn(rig.service.clone().oneshot(request));
    tokio::task::yield_now().await;
    assert_eq!(rig.refused(&write("crm")).await, Refusal::Probing);
    assert_eq!(rig.refused(&read("crm").operation("refund")).await, Refusal::Probing);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    probing.abort();
}

#[tokio::test(start_paused = true)]
async fn the_users_probe_revives_stopped_writes() {
    let rig = Rig::made_by(TripCard::default(), |layer| {
        layer.probe(service_fn(|_: Call| async { Ok::<_, BoxError>(Verdict::completed()) }))
    });
    rig.sends(2, &write("crm"), Reason::Timeout).await;
    pass(10 * MINUTE).await;
    let before = rig.target.calls();
    assert!(rig.send(&write("crm"), good()).await.is_err());
    assert_eq!((rig.target.calls(), rig.state(&write("crm"), Circuit::Writes)), (before, State::Recovering));
}

#[tokio::test(start_paused = true)]
async fn with_neither_probe_nor_live_probes_a_write_waits_and_one_alert_tells_it() {
    let rig = Rig::new(TripCard::default());
    rig.sends(5, &write("crm"), Reason::Overloaded).await;
    pass(10 * MINUTE).await;
    for _ in 0..20 {
        assert_eq!(rig.refused(&write("crm")).await, Refusal::AwaitingProbe);
        pass(MINUTE).await;
    }
    assert_eq!(rig.state(&write("crm"), Circuit::Health), State::AwaitingProbe);
    assert_eq!(rig.alerts(), [AlertKind::AwaitingProbe]);
    // A read of the same operation may be the probe.
    rig.sends(4, &write("crm").effect(Effect::ReadOnly), Verdict::completed()).await;
    assert_eq!(rig.state(&write("crm"), Circuit::Health), State::Recovering);
    assert!(rig.alerts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn live_probes_send_the_write_itself() {
    let rig = Rig::new(TripCard::default().live_probes(true));
    rig.sends(5, &write("crm"), Reason::Overloaded).await;
    rig.recovers(&write("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_would_probe_and_is_dropped_before_anybody_polls_it_gives_its_slot_back() {
    let (rig, runs) = opened_with_probe(|| async { Ok(Verdict::completed()) }).await;
    pass(10 * MINUTE).await;
    let request = Request { call: write("crm"), verdict: good(), after: Duration::ZERO };
    let mut service = rig.service.clone();
    drop(service.ready().await.expect("ready").call(request));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let _ = rig.send(&write("crm"), good()).await;
    assert_eq!(runs.load(Ordering::SeqCst), 4, "the slot is free");
}
