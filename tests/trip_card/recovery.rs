//! Half-open, the ramp, and what happens on the way.

use super::*;

async fn opened(card: TripCard) -> Rig {
    let rig = Rig::new(card);
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    rig
}

fn health(rig: &Rig) -> State {
    rig.state(&read("crm"), Circuit::Health)
}

#[tokio::test(start_paused = true)]
async fn failures_recover_by_four_probes_and_a_ramp() {
    let rig = opened(TripCard::default()).await;
    rig.recovers(&read("crm")).await;
    use State::{Closed, HalfOpen, Open, Recovering};
    let way = [(Closed, Open), (Open, HalfOpen), (HalfOpen, Recovering), (Recovering, Closed)];
    let told = rig.told();
    assert_eq!(told.transitions, way.map(|(from, to)| (Circuit::Health, from, to)));
}

#[tokio::test(start_paused = true)]
async fn one_probe_at_a_time() {
    let rig = opened(TripCard::default()).await;
    pass(10 * MINUTE).await;
    let probe = rig.begin(&read("crm"), good(), secs(30)).await;
    for _ in 0..10 {
        assert_eq!(rig.refused(&read("crm")).await, Refusal::Probing);
    }
    rig.passes(&read("crm").operation("other")).await;
    pass(secs(30)).await;
    probe.await.expect("an answer");
    rig.sends(3, &read("crm"), good()).await;
    assert_eq!(health(&rig), State::Recovering);
}

#[tokio::test(start_paused = true)]
async fn a_hung_probe_holds_its_slot_for_its_deadline_or_five_minutes() {
    for (deadline, lease) in [(None, secs(300)), (Some(secs(20)), secs(20))] {
        let rig = opened(TripCard::default()).await;
        pass(10 * MINUTE).await;
        let now = tokio::time::Instant::now();
        let call = read("crm").deadline(deadline.map(|deadline| now + deadline));
        let hung = rig.begin(&call, good(), secs(86_400)).await;
        pass(lease - secs(1)).await;
        assert_eq!(rig.refused(&read("crm")).await, Refusal::Probing);
        pass(secs(1)).await;
        rig.sends(4, &read("crm"), good()).await;
        assert_eq!(health(&rig), State::Recovering);
        hung.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_probe_frees_its_slot_at_once() {
    let rig = opened(TripCard::default()).await;
    pass(10 * MINUTE).await;
    for _ in 0..5 {
        let probe = rig.begin(&read("crm"), good(), secs(86_400)).await;
        assert_eq!(rig.refused(&read("crm")).await, Refusal::Probing);
        probe.abort();
        assert!(probe.await.expect_err("aborted").is_cancelled());
    }
    rig.passes(&read("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn the_successes_of_half_open_must_be_consecutive_to_the_last() {
    let rig = opened(TripCard::default()).await;
    pass(10 * MINUTE).await;
    rig.sends(3, &read("crm"), good()).await;
    // What says nothing of the target neither counts nor keeps the slot.
    rig.sends(3, &read("crm"), Reason::NotFound).await;
    assert_eq!(health(&rig), State::HalfOpen);
    rig.sends(1, &read("crm"), Reason::Failed).await;
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Open);
}

#[tokio::test(start_paused = true)]
async fn work_that_is_only_accepted_verifies_nothing() {
    let rig = opened(TripCard::default()).await;
    pass(10 * MINUTE).await;
    rig.sends(9, &read("crm"), Reason::Accepted).await;
    assert_eq!(health(&rig), State::HalfOpen);
}

#[tokio::test(start_paused = true)]
async fn each_failed_probe_lengthens_the_cool_down_to_its_cap() {
    let rig = opened(TripCard::default()).await;
    let mut lengths = Vec::new();
    for _ in 0..5 {
        let until = rig.circuit(&read("crm"), Circuit::Health).and_then(|it| it.until).expect("it is open");
        lengths.push(until - tokio::time::Instant::now());
        tokio::time::sleep_until(until).await;
        rig.sends(1, &read("crm"), Reason::Failed).await;
    }
    for (length, minutes) in lengths.into_iter().zip([10, 20, 40, 60, 60]) {
        // Grown ones take up to a tenth more, and never more than the cap.
        let least = minutes * MINUTE;
        assert!((least..=least + least / 10).contains(&length) && length <= 60 * MINUTE, "{length:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_recovery_the_cool_down_starts_anew() {
    let rig = opened(TripCard::default()).await;
    pass(10 * MINUTE).await;
    rig.sends(1, &read("crm"), Reason::Failed).await;
    pass(22 * MINUTE).await;
    rig.sends(4, &read("crm"), good()).await;
    pass(15 * MINUTE).await;
    rig.sends(5, &read("crm"), Reason::Failed).await;
    rig.recovers(&read("crm")).await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_during_the_ramp_opens_again_for_longer() {
    let rig = opened(TripCard::default()).await;
    pass(10 * MINUTE).await;
    rig.sends(4, &read("crm"), good()).await;
    pass(14 * MINUTE).await;
    let mut failed = 0;
    while health(&rig) == State::Recovering {
        failed += usize::from(rig.send(&read("crm"), Reason::Failed).await.is_ok());
    }
    assert_eq!((failed, rig.refused(&read("crm")).await), (5, Refusal::Open));
    pass(20 * MINUTE - secs(1)).await;
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Open);
}

#[tokio::test(start_paused = true)]
async fn the_ramp_begins_with_the_share_it_was_told() {
    let rig = opened(TripCard::default().start_share(0.25).ramp(MINUTE)).await;
    pass(10 * MINUTE).await;
    rig.sends(4, &read("crm"), good()).await;
    assert_eq!(rig.of_a_hundred(&read("crm")).await, 25);
    pass(secs(20)).await;
    assert_eq!(rig.of_a_hundred(&read("crm")).await, 50);
    pass(secs(40)).await;
    assert_eq!(rig.of_a_hundred(&read("crm")).await, 100);
}

#[tokio::test(start_paused = true)]
async fn late_results_of_calls_from_before_the_trip_change_nothing() {
    let rig = Rig::new(TripCard::default());
    let mut early = Vec::new();
    for n in 0..10 {
        early.push(rig.begin(&read("crm"), good(), secs(601 + n)).await);
        early.push(rig.begin(&read("crm"), Reason::Failed, secs(601 + n)).await);
    }
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    pass(10 * MINUTE).await;
    let probe = rig.begin(&read("crm"), good(), secs(60)).await;
    for call in early {
        call.await.expect("an answer");
        assert_eq!(health(&rig), State::HalfOpen);
        assert_eq!(rig.refused(&read("crm")).await, Refusal::Probing);
    }
    probe.await.expect("an answer");
    let successes = rig.circuit(&read("crm"), Circuit::Health).map(|it| it.counts.probe_successes);
    assert_eq!(successes, Some(1));
}

#[tokio::test(start_paused = true)]
async fn late_failures_of_calls_from_before_the_trip_do_not_end_a_recovery() {
    let rig = Rig::new(TripCard::default());
    let mut early = Vec::new();
    for _ in 0..10 {
        early.push(rig.begin(&read("crm"), Reason::Failed, secs(601)).await);
    }
    rig.sends(5, &read("crm"), Reason::Overloaded).await;
    pass(10 * MINUTE).await;
    rig.sends(4, &read("crm"), good()).await;
    for call in early {
        call.await.expect("an answer");
    }
    let snapshot = rig.circuit(&read("crm"), Circuit::Health).expect("it recovers");
    assert_eq!((snapshot.state, snapshot.counts.failures), (State::Recovering, 0));
}

#[tokio::test(start_paused = true)]
async fn clones_and_services_of_one_layer_share_state() {
    let rig = opened(TripCard::default()).await;
    let request = || Request { call: read("crm"), verdict: good(), after: Duration::ZERO };
    let mut others = [rig.layer.layer(rig.target.clone()), rig.layer.clone().layer(rig.target.clone())];
    for other in &mut others {
        let error = other.ready().await.expect("ready").call(request()).await.expect_err("a refusal");
        assert_eq!(error.rejected().map(|it| it.code()), Some(Refusal::Open));
    }
}
