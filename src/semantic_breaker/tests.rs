use std::time::Duration;

use tokio::time::Instant;

use super::{
    Alert, Circuit, Cost, CredentialRule, Denials, Failures, Malformed, Quality, RateLimits, Refusal, Signal,
    SlowCalls, State, TripCard, UnknownWrites,
    event::{Admit, Ask, Changes, LeaseId, Moment, Settled},
    evidence::needs_cell,
    state::Cell,
};
use crate::{
    call::{ActionId, Effect},
    reason::Reason,
    verdict::Verdict,
};

const READ: Effect = Effect::ReadOnly;
const WRITE: Effect = Effect::Consequential;
const MINUTE: Duration = Duration::from_secs(60);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One cell with a clock and an epoch of its own.
struct Rig {
    cell: Cell,
    card: TripCard,
    start: Instant,
    now: Instant,
    epoch: u64,
    has_probe: bool,
}

impl Rig {
    fn new(circuit: Circuit) -> Self {
        Self::with(circuit, TripCard::default())
    }

    fn with(circuit: Circuit, card: TripCard) -> Self {
        let now = Instant::now();
        Self { cell: Cell::new(circuit, 7, now), card, start: now, now, epoch: 0, has_probe: false }
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut Cell, &mut Moment<'_>) -> T) -> T {
        let epoch = &mut self.epoch;
        let mut next = || {
            *epoch += 1;
            *epoch
        };
        act(&mut self.cell, &mut Moment { now: self.now, card: &self.card, next: &mut next })
    }

    fn pass(&mut self, by: Duration) {
        self.now += by;
    }

    fn ask(&mut self, effect: Effect) -> (Admit, Changes) {
        self.ask_until(effect, None)
    }

    fn ask_until(&mut self, effect: Effect, deadline: Option<Instant>) -> (Admit, Changes) {
        let ask = Ask { effect, deadline, has_probe: self.has_probe };
        self.act(|cell, moment| cell.admit(&ask, moment))
    }

    fn settle(&mut self, settled: Settled<'_>) -> Changes {
        self.act(|cell, moment| cell.settle(&settled, moment))
    }

    fn end(&mut self, effect: Effect, verdict: impl Into<Verdict>) -> Changes {
        let verdict = verdict.into();
        self.settle(Settled::new(self.epoch, effect, &verdict))
    }

    fn end_probe(&mut self, lease: LeaseId, effect: Effect, verdict: impl Into<Verdict>) -> Changes {
        let verdict = verdict.into();
        self.settle(Settled { lease: Some(lease), ..Settled::new(self.epoch, effect, &verdict) })
    }

    fn unknown(&mut self, action: u128) -> Changes {
        let verdict = Verdict::new(Reason::Timeout);
        self.settle(Settled { action: Some(ActionId::from_key(action)), ..Settled::new(self.epoch, WRITE, &verdict) })
    }

    fn limited(&mut self, hint: Option<Duration>) -> Changes {
        let at = hint.map(|hint| self.now + hint);
        self.end(WRITE, Verdict::new(Reason::RateLimited).retry_at(at))
    }

    #[track_caller]
    fn probe(&mut self, effect: Effect) -> LeaseId {
        match self.ask(effect).0 {
            Admit::Probe(lease) | Admit::RunProbe(lease) => lease,
            other => panic!("expected a probe, got {other:?}"),
        }
    }

    #[track_caller]
    fn refused(&mut self, effect: Effect) -> Refusal {
        match self.ask(effect).0 {
            Admit::Refuse { refusal, .. } => refusal,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    #[track_caller]
    fn passes(&mut self, effect: Effect) {
        assert_eq!(self.ask(effect).0, Admit::Pass);
    }

    fn state(&self) -> State {
        self.cell.snapshot(self.now, &self.card).state
    }

    fn until(&self) -> Duration {
        self.cell.snapshot(self.now, &self.card).until.expect("a state that ends by itself") - self.now
    }

    fn fail(&mut self, times: u32) {
        for _ in 0..times {
            self.end(READ, Reason::Overloaded);
        }
    }

    /// Waits the cool-down out and lets four probes succeed.
    fn recover(&mut self) {
        let wait = self.until();
        self.pass(wait);
        for _ in 0..4 {
            let lease = self.probe(READ);
            self.end_probe(lease, READ, Verdict::completed());
        }
        assert_eq!(self.state(), State::Recovering);
    }
}

fn health() -> Rig {
    Rig::new(Circuit::Health)
}

fn opened() -> Rig {
    let mut rig = health();
    rig.fail(5);
    assert_eq!(rig.state(), State::Open);
    rig
}

fn half_open() -> Rig {
    let mut rig = opened();
    rig.pass(10 * MINUTE);
    rig
}

fn writes_open() -> Rig {
    let mut rig = Rig::new(Circuit::Writes);
    rig.unknown(1);
    rig.unknown(2);
    assert_eq!(rig.state(), State::Open);
    rig
}

mod health_circuit {
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
        let slow = |rig: &mut Rig, queued| {
            let verdict = Verdict::completed();
            let latency = Some(secs(40));
            rig.settle(Settled { latency, queued, ..Settled::new(rig.epoch, READ, &verdict) })
        };
        let mut rig = health();
        (0..20).for_each(|_| drop(slow(&mut rig, true)));
        assert_eq!(rig.state(), State::Closed);
        let row = SlowCalls { only_while_queued: true, ..SlowCalls::at_least(secs(30)) };
        let mut rig = Rig::with(Circuit::Health, TripCard::default().slow_calls(row));
        (0..20).for_each(|_| drop(slow(&mut rig, false)));
        assert_eq!(rig.state(), State::Closed);
        (0..5).for_each(|_| drop(slow(&mut rig, true)));
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
}

mod half_open {
    use super::*;

    #[test]
    fn one_probe_at_a_time() {
        let mut rig = half_open();
        let lease = rig.probe(READ);
        for _ in 0..100 {
            assert_eq!(rig.refused(READ), Refusal::Probing);
        }
        rig.end_probe(lease, READ, Verdict::completed());
        rig.probe(READ);
    }

    #[test]
    fn four_verified_successes_start_recovery() {
        let mut rig = half_open();
        for count in 0..4 {
            assert_eq!(rig.state(), State::HalfOpen, "{count}");
            let lease = rig.probe(READ);
            rig.end_probe(lease, READ, Verdict::completed());
        }
        assert_eq!(rig.state(), State::Recovering);
    }

    #[test]
    fn a_failed_probe_reopens() {
        let mut rig = half_open();
        for _ in 0..3 {
            let lease = rig.probe(READ);
            rig.end_probe(lease, READ, Verdict::completed());
        }
        let lease = rig.probe(READ);
        let changes = rig.end_probe(lease, READ, Reason::EmptyAnswer);
        assert_eq!(changes.transition.expect("reopens").cause, Signal::Malformed);
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn a_write_is_verified_by_its_receipt() {
        let mut rig = half_open();
        rig.card.live_probes = true;
        for _ in 0..10 {
            let lease = rig.probe(WRITE);
            rig.end_probe(lease, WRITE, Verdict::completed());
        }
        assert_eq!(rig.state(), State::HalfOpen);
        for _ in 0..4 {
            let lease = rig.probe(WRITE);
            rig.end_probe(lease, WRITE, Verdict::completed().receipt("id 1"));
        }
        assert_eq!(rig.state(), State::Recovering);
    }

    #[test]
    fn a_hung_probe_loses_its_slot_after_five_minutes() {
        let mut rig = half_open();
        let hung = rig.probe(READ);
        rig.pass(5 * MINUTE - secs(1));
        assert_eq!(rig.refused(READ), Refusal::Probing);
        rig.pass(secs(1));
        let second = rig.probe(READ);
        rig.end_probe(hung, READ, Reason::Timeout);
        rig.cell.release(hung);
        assert_eq!(rig.refused(READ), Refusal::Probing, "the slot is the second probe's");
        rig.end_probe(second, READ, Verdict::completed());
        assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.probe_successes, 1);
    }

    #[test]
    fn a_lease_ends_with_the_deadline_but_not_with_one_that_has_passed_or_never_comes() {
        for (deadline, lease) in [(secs(30), secs(30)), (secs(0), 5 * MINUTE), (secs(1 << 32), 60 * MINUTE)] {
            let mut rig = half_open();
            let deadline = rig.now + deadline;
            assert!(matches!(rig.ask_until(READ, Some(deadline)).0, Admit::Probe(_)));
            rig.pass(lease - secs(1));
            assert_eq!(rig.refused(READ), Refusal::Probing);
            rig.pass(secs(1));
            rig.probe(READ);
        }
    }

    #[test]
    fn a_failed_probe_counts_even_at_its_deadline() {
        let mut rig = half_open();
        let lease = rig.probe(READ);
        rig.pass(5 * MINUTE);
        rig.end_probe(lease, READ, Reason::Timeout);
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn a_dropped_or_neutral_probe_frees_the_slot_and_changes_nothing() {
        let mut rig = half_open();
        for reason in [Reason::InvalidRequest, Reason::Abandoned, Reason::RateLimited, Reason::PermissionDenied] {
            let lease = rig.probe(READ);
            rig.end_probe(lease, READ, reason);
            let lease = rig.probe(READ);
            rig.cell.release(lease);
        }
        assert_eq!(rig.state(), State::HalfOpen);
        assert_eq!(rig.cell.snapshot(rig.now, &rig.card).counts.probe_successes, 0);
    }

    #[test]
    fn an_unknown_write_reopens_at_once() {
        for circuit in [Circuit::Health, Circuit::Writes] {
            let mut rig = if circuit == Circuit::Health { opened() } else { writes_open() };
            rig.card.live_probes = true;
            rig.pass(10 * MINUTE);
            let lease = rig.probe(WRITE);
            let changes = rig.end_probe(lease, WRITE, Reason::Timeout);
            assert_eq!(changes.transition.expect("reopens").cause, Signal::UnknownWrites);
            assert!(rig.until() >= 20 * MINUTE, "{:?}", rig.until());
        }
    }

    #[test]
    fn a_late_result_changes_nothing() {
        let mut rig = health();
        let old = rig.epoch;
        rig.fail(5);
        let (good, bad) = (Verdict::completed(), Verdict::new(Reason::Overloaded));
        for _ in 0..20 {
            rig.settle(Settled::new(old, READ, &good));
        }
        assert_eq!(rig.state(), State::Open);
        rig.pass(10 * MINUTE);
        let lease = rig.probe(READ);
        rig.settle(Settled::new(old, READ, &good));
        rig.settle(Settled::new(old, READ, &bad));
        assert_eq!(rig.state(), State::HalfOpen);
        assert_eq!(rig.refused(READ), Refusal::Probing);
        rig.end_probe(lease, READ, Verdict::completed());
        for _ in 0..3 {
            let lease = rig.probe(READ);
            rig.end_probe(lease, READ, Verdict::completed());
        }
        for _ in 0..20 {
            rig.settle(Settled::new(old, READ, &bad));
        }
        assert_eq!(rig.state(), State::Recovering);
    }

    #[test]
    fn writes_await_a_probe_with_one_alert_until_a_read_comes() {
        let mut rig = half_open();
        let (admit, changes) = rig.ask(WRITE);
        assert!(matches!(admit, Admit::Refuse { refusal: Refusal::AwaitingProbe, .. }));
        assert_eq!(changes.alert, Some(Alert::AwaitingProbe));
        assert_eq!(changes.transition.expect("a state of its own").to, State::AwaitingProbe);
        for _ in 0..10 {
            assert_eq!(rig.ask(WRITE).1, Changes::default());
        }
        rig.pass(secs(86_400));
        assert_eq!(rig.refused(WRITE), Refusal::AwaitingProbe);
        for _ in 0..4 {
            let lease = rig.probe(READ);
            assert_eq!(rig.refused(WRITE), Refusal::Probing);
            rig.end_probe(lease, READ, Verdict::completed());
        }
        assert_eq!(rig.state(), State::Recovering);
    }

    #[test]
    fn the_users_probe_runs_in_place_of_a_write() {
        let mut rig = half_open();
        rig.has_probe = true;
        rig.card.live_probes = true;
        for _ in 0..4 {
            let Admit::RunProbe(lease) = rig.ask(WRITE).0 else { panic!("expected the probe to run") };
            rig.end_probe(lease, WRITE, Verdict::completed());
        }
        assert_eq!(rig.state(), State::Recovering);
    }
}

mod cool_down {
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
            rig.cell.cool = crate::semantic_breaker::cooldown::CoolDown::new(seed);
            let lease = rig.probe(READ);
            rig.end_probe(lease, READ, Reason::Overloaded);
            rig.until()
        };
        assert_eq!(wait(1), wait(1));
        assert_ne!(wait(1), wait(2));
    }
}

mod recovering {
    use super::*;

    fn recovering() -> Rig {
        let mut rig = opened();
        rig.recover();
        rig
    }

    fn admitted(rig: &mut Rig, calls: u32) -> u32 {
        (0..calls).filter(|_| rig.ask(WRITE).0 == Admit::Pass).count() as u32
    }

    #[test]
    fn the_share_is_exact() {
        let mut rig = recovering();
        assert_eq!(admitted(&mut rig, 1_000), 100);
        rig.pass(secs(450));
        assert_eq!(admitted(&mut rig, 1_000), 550);
        assert_eq!(rig.state(), State::Recovering);
        rig.pass(secs(450));
        assert_eq!(admitted(&mut rig, 1_000), 1_000);
        assert_eq!(rig.state(), State::Closed);
    }

    #[test]
    fn what_is_left_out_is_told_so() {
        let mut rig = recovering();
        assert_eq!(rig.refused(READ), Refusal::Recovering);
    }

    #[test]
    fn a_tripping_signal_reopens_and_one_failure_does_not() {
        let mut rig = recovering();
        rig.fail(4);
        assert_eq!(rig.state(), State::Recovering);
        rig.fail(1);
        assert_eq!(rig.state(), State::Open);
        assert!(rig.until() > 20 * MINUTE);
    }

    #[test]
    fn failures_of_the_ramp_still_count_after_it() {
        let mut rig = recovering();
        rig.fail(4);
        rig.pass(15 * MINUTE);
        rig.fail(1);
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn no_ramp_closes_at_once() {
        let mut rig = half_open();
        rig.card.ramp = Duration::ZERO;
        for _ in 0..4 {
            let lease = rig.probe(READ);
            rig.end_probe(lease, READ, Verdict::completed());
        }
        assert_eq!(rig.state(), State::Closed);
        rig.passes(WRITE);
    }
}

mod writes {
    use super::*;

    #[test]
    fn the_worked_case_comes_out_exactly() {
        let mut health = Rig::new(Circuit::Health);
        let mut writes = Rig::new(Circuit::Writes);
        let attempts = [Reason::Completed; 16].into_iter().chain([Reason::SchemaViolation, Reason::InvalidRequest]);
        for reason in attempts.chain([Reason::ConnectFailed]) {
            health.end(WRITE, reason);
            writes.end(WRITE, reason);
            assert_eq!((health.state(), writes.state()), (State::Closed, State::Closed));
        }
        // The retry of attempt 19, with the same action, is lost after submission; its look-up is not an attempt.
        health.end(WRITE, Reason::Timeout);
        assert_eq!(writes.unknown(19), Changes::default());
        writes.passes(WRITE);
        health.end(WRITE, Reason::Timeout);
        let changes = writes.unknown(20);
        assert_eq!(changes.transition.expect("opens").cause, Signal::UnknownWrites);
        assert!(changes.reconcile);
        assert_eq!(writes.cell.pending_writes().count(), 2);
        for _ in 0..40 {
            assert_eq!(writes.refused(WRITE), Refusal::WritesOpen);
            writes.passes(READ);
        }
        assert_eq!(health.state(), State::Closed);
    }

    #[test]
    fn attempts_at_one_action_are_one_unknown_write() {
        let mut rig = Rig::new(Circuit::Writes);
        for _ in 0..5 {
            rig.unknown(1);
        }
        assert_eq!(rig.state(), State::Closed);
        rig.end(WRITE, Reason::Cut);
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn a_late_attempt_does_not_unmake_an_unknown_write() {
        let mut rig = Rig::new(Circuit::Writes);
        let old = rig.epoch;
        rig.act(|cell, moment| cell.reset(moment));
        rig.unknown(1);
        let verdict = Verdict::new(Reason::Timeout);
        rig.settle(Settled { action: Some(ActionId::from_key(1)), ..Settled::new(old, WRITE, &verdict) });
        rig.unknown(2);
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn an_hour_later_an_unknown_write_counts_no_more() {
        let mut rig = Rig::new(Circuit::Writes);
        rig.unknown(1);
        rig.pass(60 * MINUTE);
        rig.unknown(2);
        assert_eq!(rig.state(), State::Closed);
        rig.pass(60 * MINUTE - secs(1));
        rig.unknown(3);
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn a_write_given_up_early_says_nothing_and_a_hung_one_counts() {
        let mut rig = Rig::new(Circuit::Writes);
        for _ in 0..5 {
            let reason = rig.card.abandoned(secs(59));
            rig.end(WRITE, reason);
        }
        assert_eq!(rig.cell.pending_writes().count(), 0);
        for _ in 0..2 {
            let reason = rig.card.abandoned(secs(60));
            rig.end(WRITE, reason);
        }
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn findings_close() {
        let mut rig = writes_open();
        rig.act(|cell, moment| cell.reconciled(ActionId::from_key(99), moment));
        assert_eq!(rig.state(), State::Open);
        let changes = rig.act(|cell, moment| cell.reconciled(ActionId::from_key(1), moment));
        assert_eq!(changes.transition.expect("closes").to, State::Closed);
        rig.passes(WRITE);
        rig.unknown(3);
        assert_eq!(rig.state(), State::Open, "2 and 3 are not reconciled");
    }

    #[test]
    fn findings_do_not_close_what_a_probe_has_shown_to_fail() {
        let mut rig = writes_open();
        rig.card.live_probes = true;
        rig.pass(10 * MINUTE);
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Reason::ConnectFailed);
        for action in [1, 2] {
            rig.act(|cell, moment| cell.reconciled(ActionId::from_key(action), moment));
        }
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn a_late_unknown_write_is_listed_and_does_not_count() {
        let mut rig = writes_open();
        rig.act(|cell, moment| cell.reset(moment));
        let verdict = Verdict::new(Reason::Timeout);
        for action in [3, 4, 5] {
            let action = Some(ActionId::from_key(action));
            let changes = rig.settle(Settled { action, ..Settled::new(0, WRITE, &verdict) });
            assert!(changes.reconcile && changes.transition.is_none());
        }
        assert_eq!(rig.cell.pending_writes().count(), 5);
        assert_eq!(rig.state(), State::Closed);
    }

    #[test]
    fn reads_never_probe_for_writes() {
        let mut rig = writes_open();
        rig.pass(10 * MINUTE);
        rig.passes(READ);
        assert_eq!(rig.refused(WRITE), Refusal::AwaitingProbe);
        for _ in 0..10 {
            rig.passes(READ);
            rig.end(READ, Verdict::completed());
        }
        assert_eq!(rig.refused(WRITE), Refusal::AwaitingProbe);
    }

    #[test]
    fn more_unknown_writes_than_can_be_told_apart_never_close_by_findings() {
        let mut rig = Rig::new(Circuit::Writes);
        for action in 0..10_000 {
            rig.unknown(action);
        }
        assert_eq!(rig.cell.pending_writes().count(), 256);
        for action in 0..10_000 {
            rig.act(|cell, moment| cell.reconciled(ActionId::from_key(action), moment));
        }
        assert_ne!(rig.state(), State::Closed);
    }
}

mod denials {
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
        assert_eq!(changes.alert, Some(Alert::ActorBlocked));
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
        assert_eq!(rig.end_probe(lease, WRITE, Reason::CrossTenant).alert, Some(Alert::ActorBlocked));
        assert!(rig.until() > 20 * MINUTE);
    }
}

mod credential {
    use super::*;

    fn credential() -> Rig {
        Rig::new(Circuit::Credential)
    }

    #[test]
    fn one_limit_gates_until_its_hint_and_then_is_simply_closed() {
        let mut rig = credential();
        let changes = rig.limited(Some(secs(42)));
        assert_eq!(changes.transition.expect("gated").to, State::Gated);
        rig.pass(secs(41));
        assert_eq!(rig.refused(READ), Refusal::Gated);
        rig.pass(secs(1));
        let (admit, changes) = rig.ask(WRITE);
        assert_eq!(admit, Admit::Pass);
        assert_eq!(changes.transition.map(|it| (it.to, it.cause)), Some((State::Closed, Signal::RateLimits)));
    }

    #[test]
    fn without_hints_the_hold_doubles_until_a_success() {
        let mut rig = credential();
        for expected in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
            rig.limited(None);
            assert_eq!(rig.until(), secs(expected));
            rig.pass(secs(expected));
            rig.passes(READ);
            rig.pass(MINUTE);
        }
        rig.end(READ, Verdict::completed());
        rig.limited(None);
        assert_eq!(rig.until(), secs(5));
    }

    #[test]
    fn calls_sent_together_double_the_hold_once() {
        let mut rig = Rig::with(Circuit::Credential, {
            let row = RateLimits { count: 1_000, ..RateLimits::default() };
            TripCard::default().rate_limits(row)
        });
        let stamp = rig.epoch;
        let verdict = Verdict::new(Reason::RateLimited);
        for _ in 0..50 {
            rig.settle(Settled::new(stamp, READ, &verdict));
        }
        assert_eq!(rig.until(), secs(5));
    }

    #[test]
    fn a_late_hint_lengthens_a_hold_and_never_shortens_it() {
        let mut rig = credential();
        let stamp = rig.epoch;
        rig.limited(Some(secs(30)));
        for (hint, expected) in [(10, 30), (50, 50)] {
            let verdict = Verdict::new(Reason::RateLimited).retry_at(rig.now + secs(hint));
            rig.settle(Settled::new(stamp, READ, &verdict));
            assert_eq!(rig.until(), secs(expected));
        }
        let verdict = Verdict::completed();
        rig.settle(Settled::new(stamp, READ, &verdict));
        assert_eq!(rig.refused(READ), Refusal::Gated);
    }

    #[test]
    fn a_hint_that_has_passed_holds_nothing() {
        let mut rig = credential();
        rig.end(READ, Verdict::new(Reason::RateLimited).retry_at(rig.now));
        rig.passes(READ);
    }

    #[test]
    fn three_in_sixty_seconds_pause_until_the_latest_hint() {
        let mut rig = credential();
        rig.limited(Some(secs(50)));
        let verdict = Verdict::new(Reason::RateLimited);
        rig.settle(Settled::new(0, READ, &verdict));
        rig.settle(Settled::new(0, READ, &verdict));
        assert_eq!(rig.until(), secs(50));
    }

    #[test]
    fn three_in_sixty_seconds_without_a_hint_pause_for_a_minute() {
        let mut rig = credential();
        for wait in [5, 10] {
            rig.limited(None);
            rig.pass(secs(wait));
            rig.passes(READ);
        }
        rig.limited(None);
        assert_eq!(rig.until(), MINUTE);
    }

    #[test]
    fn limits_from_before_a_pause_do_not_pause_again() {
        let mut rig = credential();
        let verdict = Verdict::new(Reason::RateLimited);
        for _ in 0..3 {
            rig.settle(Settled::new(0, READ, &verdict));
        }
        assert_eq!(rig.until(), MINUTE);
        rig.pass(secs(30));
        for _ in 0..100 {
            rig.settle(Settled::new(0, READ, &verdict));
        }
        assert_eq!(rig.until(), secs(30));
    }

    #[test]
    fn late_hints_do_not_put_the_look_off() {
        let mut rig = credential();
        rig.limited(Some(60 * MINUTE));
        rig.pass(9 * MINUTE);
        let verdict = Verdict::new(Reason::RateLimited).retry_at(rig.now + 60 * MINUTE);
        rig.settle(Settled::new(0, READ, &verdict));
        rig.pass(MINUTE);
        rig.probe(READ);
    }

    #[test]
    fn a_long_hint_lets_one_call_try_every_ten_minutes() {
        let mut rig = credential();
        rig.limited(Some(60 * MINUTE));
        for _ in 0..3 {
            rig.pass(10 * MINUTE - secs(1));
            assert_eq!(rig.refused(READ), Refusal::Gated);
            rig.pass(secs(1));
            let lease = rig.probe(WRITE);
            assert_eq!(rig.refused(READ), Refusal::Gated);
            rig.end_probe(lease, WRITE, Reason::RateLimited);
            assert_eq!(rig.refused(READ), Refusal::Gated);
        }
        rig.pass(10 * MINUTE);
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Reason::ServerError);
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Verdict::completed());
        rig.passes(WRITE);
        assert_eq!(rig.state(), State::Closed);
    }

    #[test]
    fn one_bad_credential_opens_and_a_write_may_show_that_it_works_again() {
        let mut rig = credential();
        rig.end(WRITE, Reason::QuotaExhausted);
        assert_eq!(rig.refused(READ), Refusal::CredentialOpen);
        assert_eq!(rig.until(), 10 * MINUTE);
        rig.pass(10 * MINUTE);
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Reason::Unauthenticated);
        assert!(rig.until() > 20 * MINUTE);
        let wait = rig.until();
        rig.pass(wait);
        for _ in 0..4 {
            let lease = rig.probe(WRITE);
            rig.end_probe(lease, WRITE, Verdict::completed());
        }
        assert_eq!(rig.state(), State::Recovering);
    }

    #[test]
    fn a_limited_probe_is_held_and_half_open_goes_on_after_it() {
        let mut rig = credential();
        rig.end(WRITE, Reason::Unauthenticated);
        rig.pass(10 * MINUTE);
        let lease = rig.probe(WRITE);
        rig.end_probe(lease, WRITE, Verdict::new(Reason::RateLimited).retry_at(rig.now + MINUTE));
        assert_eq!(rig.state(), State::Gated);
        assert_eq!(rig.refused(WRITE), Refusal::Gated);
        rig.pass(MINUTE);
        rig.probe(WRITE);
    }
}

mod operators {
    use super::*;

    #[test]
    fn forced_open_refuses_until_its_end_and_then_the_phase_before_goes_on() {
        let mut rig = health();
        rig.fail(4);
        let until = Some(rig.now + MINUTE);
        rig.act(|cell, moment| cell.force_open(until, moment));
        assert_eq!(rig.refused(READ), Refusal::ForcedOpen);
        assert_eq!(rig.cell.snapshot(rig.now, &rig.card).cause, Some(Signal::Operator));
        rig.pass(MINUTE);
        rig.passes(READ);
        rig.fail(1);
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn forced_closed_lets_everything_pass_until_reset() {
        let mut rig = opened();
        rig.act(|cell, moment| cell.force_closed(moment));
        rig.fail(100);
        rig.passes(WRITE);
        assert!(!rig.cell.evictable(rig.now));
        rig.act(|cell, moment| cell.reset(moment));
        rig.fail(5);
        assert_eq!(rig.state(), State::Open);
    }

    #[test]
    fn results_from_before_a_reset_are_late() {
        let mut rig = opened();
        let old = rig.epoch;
        rig.act(|cell, moment| cell.reset(moment));
        let verdict = Verdict::new(Reason::Overloaded);
        for _ in 0..20 {
            rig.settle(Settled::new(old, READ, &verdict));
        }
        assert_eq!(rig.state(), State::Closed);
        let mut rig = Rig::new(Circuit::Credential);
        rig.limited(None);
        rig.act(|cell, moment| cell.reset(moment));
        let verdict = Verdict::new(Reason::RateLimited).retry_at(rig.now + MINUTE);
        rig.settle(Settled::new(0, READ, &verdict));
        rig.passes(READ);
    }

    #[test]
    fn a_cell_is_clean_when_it_says_no_more_than_none_would() {
        let mut rig = health();
        assert!(rig.cell.is_clean(rig.now, &rig.card));
        rig.fail(1);
        assert!(!rig.cell.is_clean(rig.now, &rig.card));
        for _ in 0..20 {
            rig.end(READ, Verdict::completed());
        }
        assert!(rig.cell.is_clean(rig.now, &rig.card));
        let mut rig = opened();
        assert!(!rig.cell.evictable(rig.now));
        rig.recover();
        rig.pass(15 * MINUTE);
        rig.passes(READ);
        assert!(!rig.cell.is_clean(rig.now, &rig.card), "it still knows what is late");
        assert!(rig.cell.evictable(rig.now));
        rig.pass(60 * MINUTE);
        assert!(rig.cell.is_clean(rig.now, &rig.card));
    }

    #[test]
    fn an_unknown_write_keeps_its_cell() {
        let mut rig = Rig::new(Circuit::Writes);
        rig.end(WRITE, Reason::Timeout);
        assert!(!rig.cell.evictable(rig.now));
        rig.pass(60 * MINUTE);
        assert!(rig.cell.is_clean(rig.now, &rig.card));
    }
}

mod rows {
    use super::*;

    #[test]
    fn each_row_can_be_switched_off() {
        let off = TripCard::default()
            .failures(Failures::off())
            .malformed(Malformed::off())
            .unknown_writes(UnknownWrites::off())
            .denials(Denials::off())
            .rate_limits(RateLimits::off())
            .credential(CredentialRule::off());
        for circuit in Circuit::ALL {
            let mut rig = Rig::with(circuit, off.clone());
            for reason in Reason::ALL {
                for effect in [READ, WRITE] {
                    let verdict = Verdict::new(*reason);
                    let settled = Settled::new(0, effect, &verdict);
                    assert!(!needs_cell(circuit, &settled, &off), "{circuit} {reason}");
                    (0..20).for_each(|_| drop(rig.settle(settled)));
                }
            }
            assert_eq!(rig.state(), State::Closed, "{circuit}");
        }
    }

    #[test]
    fn a_healthy_result_needs_no_cell() {
        let card = TripCard::default();
        for reason in [Reason::Completed, Reason::InvalidRequest, Reason::Refused, Reason::Abandoned] {
            for circuit in Circuit::ALL {
                let verdict = Verdict::new(reason);
                assert!(!needs_cell(circuit, &Settled::new(0, WRITE, &verdict), &card));
            }
        }
        let rate = TripCard::default().failures(Failures::rate(0.5, MINUTE, 10));
        let verdict = Verdict::completed();
        assert!(needs_cell(Circuit::Health, &Settled::new(0, READ, &verdict), &rate));
    }

    #[test]
    fn impossible_values_name_their_field() {
        let card = TripCard::default;
        let cases = [
            (card().failures(Failures::count(0, 20)), "failures.count"),
            (card().failures(Failures::count(21, 20)), "failures.count"),
            (card().failures(Failures::count(1, 0)), "failures.window"),
            (card().failures(Failures::count(1, 1_025)), "failures.window"),
            (card().failures(Failures::rate(f64::NAN, MINUTE, 1)), "failures.rate.share"),
            (card().failures(Failures::rate(1.1, MINUTE, 1)), "failures.rate.share"),
            (card().failures(Failures::rate(0.5, Duration::ZERO, 1)), "failures.rate.within"),
            (card().failures(Failures::rate(0.5, MINUTE, 0)), "failures.rate.min_sample"),
            (card().malformed(Malformed { window: 4, ..Malformed::default() }), "malformed.count"),
            (card().slow_calls(SlowCalls::at_least(Duration::ZERO)), "slow_calls.threshold"),
            (card().quality(Quality::below(f64::NAN)), "quality.floor"),
            (card().cost(Cost { span: 0, ..Cost::above(1.0) }), "cost.span"),
            (card().unknown_writes(UnknownWrites { count: 257, ..Default::default() }), "unknown_writes.count"),
            (card().denials(Denials { within: Duration::ZERO, ..Default::default() }), "denials.within"),
            (card().rate_limits(RateLimits { max_hold: secs(1), ..Default::default() }), "rate_limits.max_hold"),
            (card().cool_down(Duration::ZERO), "cool_down"),
            (card().max_cool_down(secs(1)), "max_cool_down"),
            (card().jitter(-0.1), "jitter"),
            (card().probes(0), "probes"),
            (card().probe_lease(Duration::ZERO), "probe_lease"),
            (card().start_share(0.0), "start_share"),
            (card().start_share(f64::NAN), "start_share"),
            (card().hung_after(Duration::ZERO), "hung_after"),
        ];
        for (card, field) in cases {
            assert_eq!(card.validate().expect_err(field).field(), field);
        }
        assert_eq!(card().validate(), Ok(()));
        assert_eq!(card().failures(Failures { count: 0, ..Failures::off() }).validate(), Ok(()));
    }

    #[test]
    fn a_card_is_read_from_a_file_and_unknown_fields_are_refused() {
        let card: TripCard = toml::from_str(
            "cool_down = '1h30m'\nhealth_scope = 'target'\n[failures]\ncount = 3\n[denials]\nenabled = false\n",
        )
        .unwrap();
        assert_eq!(card.cool_down, 90 * MINUTE);
        assert_eq!(card.failures, Failures::count(3, 20));
        assert_eq!(card.denials, Denials::off());
        assert_eq!(toml::from_str::<TripCard>(&toml::to_string(&card).unwrap()).unwrap(), card);
        assert!(toml::from_str::<TripCard>("cooldown = '10m'").is_err());
        assert!(toml::from_str::<TripCard>("[failures]\nwindows = 3").is_err());
    }
}

mod extremes {
    use super::*;

    #[test]
    fn a_clock_that_goes_back_keeps_every_distance() {
        for jump in [secs(2), secs(3_600), secs(86_400 * 365)] {
            let mut rig = opened();
            rig.pass(5 * MINUTE);
            assert_eq!(rig.refused(READ), Refusal::Open);
            rig.now = rig.now.checked_sub(jump).unwrap_or(rig.start);
            rig.refused(READ);
            assert_eq!(rig.until(), 5 * MINUTE);
            rig.pass(5 * MINUTE);
            rig.probe(READ);
        }
    }

    #[test]
    fn a_little_disorder_between_threads_moves_nothing() {
        let mut rig = opened();
        rig.pass(secs(1));
        rig.refused(READ);
        rig.now -= Duration::from_millis(900);
        rig.refused(READ);
        rig.pass(10 * MINUTE - Duration::from_millis(101));
        assert_eq!(rig.refused(READ), Refusal::Open);
        rig.pass(Duration::from_millis(1));
        rig.probe(READ);
    }

    #[test]
    fn the_far_future_does_not_wedge() {
        for circuit in Circuit::ALL {
            let mut rig = Rig::new(circuit);
            for _ in 0..6 {
                let verdict = Verdict::new(Reason::Timeout);
                rig.settle(Settled::new(rig.epoch, READ, &verdict));
                rig.settle(Settled::new(rig.epoch, WRITE, &verdict));
                rig.end(READ, Reason::PermissionDenied);
                rig.limited(Some(secs(1 << 33)));
                rig.end(READ, Reason::Unauthenticated);
            }
            let before = rig.now;
            rig.pass(secs(1 << 33));
            rig.ask(WRITE);
            rig.now = before;
            rig.ask(WRITE);
            rig.pass(60 * MINUTE);
            assert_ne!(rig.state(), State::Open, "{circuit}");
        }
    }

    #[test]
    fn huge_settings_do_not_panic() {
        let card = TripCard::default()
            .cool_down(Duration::MAX)
            .max_cool_down(Duration::MAX)
            .probe_lease(Duration::MAX)
            .ramp(Duration::MAX)
            .jitter(1.0)
            .live_probes(true);
        let card = card
            .failures(Failures::rate(1.0, Duration::MAX, 1))
            .denials(Denials { count: 1, within: Duration::MAX, ..Default::default() })
            .unknown_writes(UnknownWrites { count: 1, within: Duration::MAX, ..Default::default() })
            .rate_limits(RateLimits {
                first_hold: Duration::MAX,
                max_hold: Duration::MAX,
                within: Duration::MAX,
                pause: Duration::MAX,
                ..Default::default()
            });
        for circuit in Circuit::ALL {
            let mut rig = Rig::with(circuit, card.clone());
            for round in 0..50_u64 {
                for reason in [Reason::Timeout, Reason::PermissionDenied, Reason::RateLimited, Reason::Unauthenticated]
                {
                    rig.end(READ, reason);
                    rig.end(WRITE, reason);
                }
                rig.pass(secs(round << 28));
                if let Admit::Probe(lease) = rig.ask(WRITE).0 {
                    rig.end_probe(lease, READ, if round % 3 == 0 { Reason::Overloaded } else { Reason::Completed });
                }
            }
        }
    }

    #[test]
    fn a_cell_stays_small() {
        assert!(size_of::<Cell>() <= 256, "{}", size_of::<Cell>());
    }
}
