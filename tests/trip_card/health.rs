//! Rows that open a target and operation.

use tower_belay::semantic_breaker::{Cost, FailureRate, Failures, Malformed, Quality, SlowCalls};

use super::*;

/// Open for `call`, and for nobody whose target, operation or tenant is another.
async fn only_this_target_and_operation(rig: &Rig, call: &Call, code: Refusal) {
    assert_eq!(rig.refused(call).await, code);
    assert_eq!(rig.refused(&call.clone().actor("bob").credential("key-2").run("r2")).await, code);
    let others =
        [call.clone().operation("something else"), call.clone().target("elsewhere"), call.clone().tenant("globex")];
    for other in others {
        rig.passes(&other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn five_failures_open_their_target_and_operation_alone() {
    for call in [read("crm"), write("crm")] {
        let rig = Rig::new(TripCard::default());
        rig.sends(4, &call, Reason::Overloaded).await;
        rig.passes(&call).await;
        rig.sends(1, &call, Reason::ConnectFailed).await;
        assert_eq!(rig.cause(&call, Circuit::Health), Some(Signal::Failures));
        only_this_target_and_operation(&rig, &call, Refusal::Open).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_left_the_last_twenty_attempts_is_forgotten() {
    let rig = Rig::new(TripCard::default());
    rig.sends(4, &read("crm"), Reason::Failed).await;
    rig.sends(16, &read("crm"), Reason::NotFound).await;
    rig.sends(4, &read("crm"), Reason::Failed).await;
    assert_eq!(rig.state(&read("crm"), Circuit::Health), State::Closed);
    rig.sends(1, &read("crm"), Reason::Failed).await;
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Open);
}

#[tokio::test(start_paused = true)]
async fn the_last_twenty_attempts_are_remembered_however_far_apart_and_whoever_else_fails() {
    let rig = Rig::new(TripCard::default());
    for _ in 0..5 {
        rig.sends(1, &read("crm"), Reason::Failed).await;
        pass(15 * MINUTE).await;
        rig.sends(1, &read("another"), Reason::Failed).await;
    }
    assert_eq!(rig.cause(&read("another"), Circuit::Health), Some(Signal::Failures));
    assert_eq!(rig.state(&read("crm"), Circuit::Health), State::HalfOpen, "it opened fifteen minutes ago");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_of_a_read_is_a_failure() {
    let rig = Rig::new(TripCard::default());
    rig.sends(5, &read("crm"), Reason::Timeout).await;
    assert_eq!(rig.refused(&read("crm")).await, Refusal::Open);
}

#[tokio::test(start_paused = true)]
async fn a_failure_rate_opens_from_its_minimum_sample_on() {
    let row = Failures::rate(0.5, MINUTE, 10);
    let rig = Rig::new(TripCard::default().failures(row));
    rig.sends(5, &read("crm"), good()).await;
    rig.sends(4, &read("crm"), Reason::Failed).await;
    assert_eq!(rig.state(&read("crm"), Circuit::Health), State::Closed);
    rig.sends(1, &read("crm"), Reason::Failed).await;
    assert_eq!(rig.cause(&read("crm"), Circuit::Health), Some(Signal::FailureRate));
    only_this_target_and_operation(&rig, &read("crm"), Refusal::Open).await;
    assert_eq!(FailureRate::default().min_sample, 20);
}

#[tokio::test(start_paused = true)]
async fn five_malformed_answers_open_as_degraded_and_are_counted_apart() {
    let rig = Rig::new(TripCard::default());
    rig.sends(4, &read("llm"), Reason::SchemaViolation).await;
    rig.sends(4, &read("llm"), Reason::Failed).await;
    assert_eq!(rig.state(&read("llm"), Circuit::Health), State::Closed);
    rig.sends(1, &read("llm"), Reason::EmptyAnswer).await;
    assert_eq!(rig.cause(&read("llm"), Circuit::Health), Some(Signal::Malformed));
    only_this_target_and_operation(&rig, &read("llm"), Refusal::Degraded).await;
    rig.recovers(&read("llm")).await;
}

fn slow(only_while_queued: bool) -> TripCard {
    let mut row = SlowCalls::at_least(secs(30));
    row.only_while_queued = only_while_queued;
    TripCard::default().slow_calls(row)
}

#[tokio::test(start_paused = true)]
async fn slow_calls_open_at_their_threshold() {
    let rig = Rig::new(slow(false));
    for _ in 0..5 {
        assert_eq!(rig.send_for(&read("llm"), good(), secs(30) - Duration::from_millis(1)).await, Ok(()));
    }
    for _ in 0..5 {
        assert_eq!(rig.state(&read("llm"), Circuit::Health), State::Closed);
        assert_eq!(rig.send_for(&read("llm"), good(), secs(30)).await, Ok(()));
    }
    assert_eq!(rig.cause(&read("llm"), Circuit::Health), Some(Signal::SlowCalls));
    only_this_target_and_operation(&rig, &read("llm"), Refusal::Open).await;
    rig.recovers(&read("llm")).await;
}

#[tokio::test(start_paused = true)]
async fn slow_calls_may_count_only_while_others_queue() {
    let rig = Rig::new(slow(true));
    for _ in 0..10 {
        assert_eq!(rig.send_for(&read("llm"), good(), secs(31)).await, Ok(()));
    }
    assert_eq!(rig.state(&read("llm"), Circuit::Health), State::Closed);
    for _ in 0..5 {
        assert_eq!(rig.send_for(&read("llm").queue(1), good(), secs(31)).await, Ok(()));
    }
    assert_eq!(rig.refused(&read("llm")).await, Refusal::Open);
}

#[tokio::test(start_paused = true)]
async fn by_default_slowness_quality_and_cost_open_nothing() {
    let rig = Rig::new(TripCard::default());
    for _ in 0..30 {
        let verdict = good().with_score(0.0).with_cost(1e9);
        assert_eq!(rig.send_for(&read("llm").queue(9), verdict, secs(300)).await, Ok(()));
    }
    assert_eq!(rig.handle.unhealthy(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_falling_quality_score_opens_as_degraded() {
    let rig = Rig::new(TripCard::default().quality(Quality::below(0.5)));
    rig.sends(9, &read("llm"), good().with_score(0.1)).await;
    assert_eq!(rig.state(&read("llm"), Circuit::Health), State::Closed, "fewer than ten say nothing");
    rig.sends(1, &read("llm"), good().with_score(0.1)).await;
    assert_eq!(rig.cause(&read("llm"), Circuit::Health), Some(Signal::Quality));
    only_this_target_and_operation(&rig, &read("llm"), Refusal::Degraded).await;
    rig.recovers(&read("llm")).await;
}

#[tokio::test(start_paused = true)]
async fn a_rising_cost_opens() {
    let rig = Rig::new(TripCard::default().cost(Cost::above(1.0)));
    rig.sends(10, &read("llm"), good().with_cost(0.9)).await;
    let mut dear = 0;
    while rig.send(&read("llm"), good().with_cost(3.0)).await.is_ok() {
        dear += 1;
    }
    assert_eq!(dear, 1, "0.9 and a tenth of 3.0 are above the ceiling");
    assert_eq!(rig.cause(&read("llm"), Circuit::Health), Some(Signal::Cost));
    only_this_target_and_operation(&rig, &read("llm"), Refusal::Open).await;
    rig.recovers(&read("llm")).await;
}

#[tokio::test(start_paused = true)]
async fn rows_that_are_off_open_nothing() {
    let rig = Rig::new(TripCard::default().failures(Failures::off()).malformed(Malformed::off()));
    rig.sends(30, &read("crm"), Reason::Failed).await;
    rig.sends(30, &read("crm"), Reason::Unparsable).await;
    assert_eq!(rig.handle.unhealthy(), 0);
}
