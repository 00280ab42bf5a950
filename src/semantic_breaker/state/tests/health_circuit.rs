use super::*;

#[test]
fn five_failures_open_for_ten_minutes() {
    let mut rig = health();
    rig.fail(4);
    rig.passes(WRITE);
    let changes = rig.end(WRITE, Reason::ConnectFailed);
    let transition = changes.transition.expect("the fifth opens");
    assert_eq!((transition.from, transition.to), (State::Closed, State::Open));
    assert_eq!(transition.cause, Signal::Failures);
    assert_eq!(rig.until(), 10 * MINUTE);
    assert_eq!(rig.refused(READ), Refusal::Open);
    rig.pass(10 * MINUTE - secs(1));
    assert_eq!(rig.refused(READ), Refusal::Open);
}

#[test]
fn a_failure_older_than_twenty_attempts_does_not_count() {
    let mut rig = health();
    rig.fail(4);
    for _ in 0..16 {
        rig.end(READ, Verdict::completed());
    }
    rig.fail(1);
    assert_eq!(rig.state(), State::Closed);
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.failures, 4);
}

#[test]
fn after_100_000_healthy_calls_five_failures_open() {
    let mut rig = health();
    for _ in 0..100_000 {
        rig.end(READ, Verdict::completed());
    }
    rig.fail(4);
    assert_eq!(rig.state(), State::Closed);
    rig.fail(1);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_long_window_slides_too() {
    let mut rig = Rig::with(Circuit::Health, TripCard::default().failures(Failures::count(300, 1_000)));
    rig.fail(299);
    for _ in 0..701 {
        rig.end(READ, Verdict::completed());
    }
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.failures, 299);
    for _ in 0..299 {
        rig.end(READ, Verdict::completed());
    }
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.failures, 0);
    rig.fail(300);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn neutral_results_fill_the_window() {
    let mut rig = health();
    rig.fail(4);
    for _ in 0..16 {
        rig.end(READ, Reason::InvalidRequest);
    }
    rig.fail(1);
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn malformed_answers_are_counted_apart() {
    let mut rig = health();
    for _ in 0..4 {
        rig.end(READ, Reason::EmptyAnswer);
        rig.end(READ, Reason::Overloaded);
    }
    assert_eq!(rig.state(), State::Closed);
    let changes = rig.end(READ, Reason::SchemaViolation);
    assert_eq!(changes.transition.expect("opens").cause, Signal::Malformed);
}

#[test]
fn an_unknown_read_is_a_failure_and_an_unknown_write_is_not() {
    let mut rig = health();
    for _ in 0..20 {
        rig.end(WRITE, Reason::Timeout);
    }
    assert_eq!(rig.state(), State::Closed);
    for _ in 0..5 {
        rig.end(READ, Reason::Timeout);
    }
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_rate_needs_its_sample_and_forgets_with_time() {
    let card = TripCard::default().failures(Failures::rate(0.5, MINUTE, 10));
    let mut rig = Rig::with(Circuit::Health, card);
    rig.fail(9);
    assert_eq!(rig.state(), State::Closed);
    rig.pass(MINUTE);
    rig.fail(9);
    assert_eq!(rig.state(), State::Closed);
    for _ in 0..9 {
        rig.end(READ, Verdict::completed());
    }
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn slow_calls_open_only_if_asked_and_only_while_calls_queue() {
    let slow = |rig: &mut Rig, times, queued| {
        let verdict = Verdict::completed();
        for _ in 0..times {
            let latency = Some(secs(40));
            rig.settle(Settled { latency, queued, ..Settled::new(rig.epoch, READ, &verdict) });
        }
    };
    let mut rig = health();
    slow(&mut rig, 20, true);
    assert_eq!(rig.state(), State::Closed);
    let row = SlowCalls { only_while_queued: true, ..SlowCalls::at_least(secs(30)) };
    let mut rig = Rig::with(Circuit::Health, TripCard::default().slow_calls(row));
    slow(&mut rig, 20, false);
    assert_eq!(rig.state(), State::Closed);
    slow(&mut rig, 5, true);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_falling_score_and_a_rising_cost_open() {
    let verdict = Verdict::completed();
    let mut rig = Rig::with(Circuit::Health, TripCard::default().quality(Quality::below(0.7)));
    for score in [0.9; 20].into_iter().chain([f64::NAN; 20]).chain([0.1; 20]) {
        rig.settle(Settled { score: Some(score), ..Settled::new(rig.epoch, READ, &verdict) });
    }
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).cause, Some(Signal::Quality));
    let mut rig = Rig::with(Circuit::Health, TripCard::default().cost(Cost::above(3.0)));
    for cost in [1.0; 20].into_iter().chain([f64::MAX; 2]) {
        rig.settle(Settled { cost: Some(cost), ..Settled::new(rig.epoch, READ, &verdict) });
    }
    assert_eq!(rig.cell.snapshot(rig.now, &rig.card).cause, Some(Signal::Cost));
}
