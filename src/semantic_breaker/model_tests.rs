use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{
    Circuit, Denials, Failures, Malformed, RateLimits, State, TripCard, UnknownWrites,
    event::{Admit, Ask, LeaseId, Moment, Settled},
    model::{Answer, Model},
    state::Cell,
};
use crate::{
    call::{ActionId, Effect},
    reason::Reason,
    verdict::Verdict,
};

/// The settings that the model knows, in milliseconds.
pub(super) struct Settings {
    pub(super) unknown_within: i64,
    pub(super) denials_within: i64,
    pub(super) limits_within: i64,
    pub(super) first_hold: i64,
    pub(super) pause: i64,
    pub(super) max_hold: i64,
    pub(super) cool_down: i64,
    pub(super) max_cool_down: i64,
    pub(super) probes: u32,
    pub(super) lease: i64,
    pub(super) ramp: i64,
}

pub(super) const CARD: Settings = Settings {
    unknown_within: 60_000,
    denials_within: 30_000,
    limits_within: 20_000,
    first_hold: 2_000,
    pause: 15_000,
    max_hold: 20_000,
    cool_down: 30_000,
    max_cool_down: 100_000,
    probes: 2,
    lease: 10_000,
    ramp: 20_000,
};

fn millis(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

fn card(live_probes: bool) -> TripCard {
    TripCard::default()
        .failures(Failures::count(3, 5))
        .malformed(Malformed { count: 2, window: 4, ..Malformed::default() })
        .unknown_writes(UnknownWrites { within: millis(CARD.unknown_within), ..UnknownWrites::default() })
        .denials(Denials { within: millis(CARD.denials_within), ..Denials::default() })
        .rate_limits(RateLimits {
            within: millis(CARD.limits_within),
            first_hold: millis(CARD.first_hold),
            pause: millis(CARD.pause),
            max_hold: millis(CARD.max_hold),
            ..RateLimits::default()
        })
        .cool_down(millis(CARD.cool_down))
        .max_cool_down(millis(CARD.max_cool_down))
        .jitter(0.0)
        .probes(CARD.probes)
        .probe_lease(millis(CARD.lease))
        .ramp(millis(CARD.ramp))
        .start_share(0.25)
        .live_probes(live_probes)
}

/// What came of a call, as far as the model cares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Good,
    Failed,
    Lost,
    Malformed,
    Neutral,
    Denied,
    Limited,
    Unauthenticated,
}

const REASONS: [(Kind, Reason); 10] = [
    (Kind::Good, Reason::Completed),
    (Kind::Good, Reason::Paused),
    (Kind::Failed, Reason::ConnectFailed),
    (Kind::Lost, Reason::Timeout),
    (Kind::Malformed, Reason::EmptyAnswer),
    (Kind::Neutral, Reason::InvalidRequest),
    (Kind::Neutral, Reason::Abandoned),
    (Kind::Denied, Reason::PolicyDenied),
    (Kind::Limited, Reason::RateLimited),
    (Kind::Unauthenticated, Reason::QuotaExhausted),
];

/// Instants are relative to the real clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) write: bool,
    pub(super) deadline: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) admitted: usize,
    pub(super) lease: Option<usize>,
    pub(super) write: bool,
    pub(super) kind: Kind,
    pub(super) receipt: bool,
    pub(super) action: Option<u128>,
    pub(super) hint: Option<i64>,
}

#[derive(Debug, Clone)]
enum Event {
    Step(i64),
    Ask(Asked),
    /// Ends the newest call but `back`; it may end again.
    End {
        back: usize,
        reason: usize,
        receipt: bool,
        action: Option<u128>,
        hint: Option<i64>,
    },
    /// Asks and ends at once, so that windows fill.
    Call {
        write: bool,
        reason: usize,
        action: Option<u128>,
        hint: Option<i64>,
    },
    /// The same call, several times over.
    Burst {
        times: usize,
        write: bool,
        reason: usize,
    },
    /// Steps to where the state ends by itself, or just short of it.
    Wait {
        short: i64,
    },
    Drop {
        back: usize,
    },
    ForceOpen(Option<i64>),
    ForceClosed,
    Reset,
    Reconciled(u128),
}

fn steps() -> impl Strategy<Value = i64> {
    let fixed = [0, 1, 500, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 100_000, 4_000_000_000];
    prop_oneof![
        6 => prop::sample::select(fixed.to_vec()),
        2 => 0..40_000_i64,
        1 => prop::sample::select(vec![-1, -500, -1_000, -1_001, -5_000, -100_000_000]),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    let soon = || prop::option::weighted(0.5, prop::sample::select(vec![-5_000, 0, 1_000, 8_000, 30_000, 8_000_000]));
    let action = || prop::option::weighted(0.8, 0..4_u128);
    let reason = || prop_oneof![1 => Just(0_usize), 2 => 0..REASONS.len()];
    prop_oneof![
        6 => steps().prop_map(Event::Step),
        8 => (any::<bool>(), soon()).prop_map(|(write, deadline)| Event::Ask(Asked { write, deadline })),
        8 => (0..4_usize, reason(), any::<bool>(), action(), soon())
            .prop_map(|(back, reason, receipt, action, hint)| Event::End { back, reason, receipt, action, hint }),
        12 => (any::<bool>(), reason(), action(), soon())
            .prop_map(|(write, reason, action, hint)| Event::Call { write, reason, action, hint }),
        6 => (1..6_usize, any::<bool>(), reason())
            .prop_map(|(times, write, reason)| Event::Burst { times, write, reason }),
        6 => prop::sample::select(vec![0, 0, 1]).prop_map(|short| Event::Wait { short }),
        2 => (0..3_usize).prop_map(|back| Event::Drop { back }),
        1 => prop_oneof![soon().prop_map(Event::ForceOpen), Just(Event::ForceClosed), Just(Event::Reset), Just(Event::Reset)],
        2 => (0..4_u128).prop_map(Event::Reconciled),
    ]
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    stamp: u64,
    lease: Option<LeaseId>,
    admitted: usize,
    probes: bool,
    write: bool,
}

/// The machine and the model, side by side.
struct Pair {
    cell: Cell,
    card: TripCard,
    has_probe: bool,
    model: Model,
    real: Instant,
    epoch: u64,
    flights: Vec<Flight>,
}

impl Pair {
    fn act<T>(&mut self, act: impl FnOnce(&mut Cell, &mut Moment<'_>) -> T) -> T {
        let epoch = &mut self.epoch;
        let mut next = || {
            *epoch += 1;
            *epoch
        };
        act(&mut self.cell, &mut Moment { now: self.real, card: &self.card, next: &mut next })
    }

    fn at(&self, relative: i64) -> Instant {
        if relative < 0 { self.real - millis(relative) } else { self.real + millis(relative) }
    }

    fn ask(&mut self, asked: Asked) -> Result<bool, TestCaseError> {
        let effect = if asked.write { Effect::Sensitive } else { Effect::ReadOnly };
        let ask = Ask { effect, deadline: asked.deadline.map(|at| self.at(at)), has_probe: self.has_probe };
        let before = self.model.lease;
        let (admit, _) = self.act(|cell, moment| cell.admit(&ask, moment));
        let expected = self.model.ask(&asked);
        let (seen, lease) = match admit {
            Admit::Pass => (Answer::Pass, None),
            Admit::Probe(lease) => (Answer::Probe, Some(lease)),
            Admit::RunProbe(lease) => (Answer::RunProbe, Some(lease)),
            Admit::Refuse { refusal, cause, retry_at } => {
                (Answer::Refuse(refusal, cause, retry_at.map(|at| self.relative(at))), None)
            }
        };
        prop_assert_eq!(seen, expected);
        if lease.is_some() {
            prop_assert!(before.is_none_or(|(_, expires, _)| self.model.now >= expires), "two live probes");
        }
        let passed = !matches!(seen, Answer::Refuse(..));
        if passed {
            self.flights.push(Flight {
                stamp: self.epoch,
                lease,
                admitted: self.model.event,
                probes: lease.is_some(),
                write: asked.write,
            });
        }
        Ok(passed)
    }

    fn end(&mut self, flight: Flight, reason: usize, receipt: bool, action: Option<u128>, hint: Option<i64>) {
        let (kind, reason) = REASONS[reason];
        let mut verdict = Verdict::new(reason).retry_at(hint.map(|at| self.at(at)));
        if receipt {
            verdict = verdict.receipt("done");
        }
        let effect = if flight.write { Effect::Reversible } else { Effect::ReadOnly };
        let settled = Settled {
            lease: flight.lease,
            action: action.map(ActionId::from_key),
            ..Settled::new(flight.stamp, effect, &verdict)
        };
        self.act(|cell, moment| cell.settle(&settled, moment));
        let lease = flight.probes.then_some(flight.admitted);
        let (admitted, write) = (flight.admitted, flight.write);
        self.model.end(&Ended { admitted, lease, write, kind, receipt, action, hint });
    }

    fn call(
        &mut self,
        write: bool,
        reason: usize,
        action: Option<u128>,
        hint: Option<i64>,
    ) -> Result<(), TestCaseError> {
        if self.ask(Asked { write, deadline: None })? {
            self.model.event += 2;
            let (_, flight) = self.flight(0).expect("just admitted");
            self.end(flight, reason, true, action, hint);
        }
        Ok(())
    }

    /// An instant of the machine in the model's time.
    fn relative(&self, at: Instant) -> i64 {
        let seen = self.cell.seen;
        let ahead = at.saturating_duration_since(seen).as_millis() as i64;
        self.model.now + ahead - seen.saturating_duration_since(at).as_millis() as i64
    }

    fn flight(&self, back: usize) -> Option<(usize, Flight)> {
        let index = self.flights.len().checked_sub(back + 1)?;
        Some((index, self.flights[index]))
    }

    fn apply(&mut self, event: Event) -> Result<(), TestCaseError> {
        self.model.event += 2;
        match event {
            Event::Step(step) => {
                self.real = self.at(step);
                self.model.ahead += step;
            }
            Event::Ask(asked) => drop(self.ask(asked)?),
            Event::Call { write, reason, action, hint } => self.call(write, reason, action, hint)?,
            Event::Burst { times, write, reason } => {
                for _ in 0..times {
                    self.model.event += 2;
                    self.call(write, reason, None, None)?;
                }
            }
            Event::Wait { short } => {
                let until = self.cell.snapshot(self.real, &self.card).until;
                let wait = until.map_or(0, |until| until.saturating_duration_since(self.real).as_millis() as i64);
                self.real = self.at((wait - short).max(0));
                self.model.ahead += (wait - short).max(0);
            }
            Event::End { back, reason, receipt, action, hint } => {
                if let Some((_, flight)) = self.flight(back) {
                    self.end(flight, reason, receipt, action, hint);
                }
            }
            Event::Drop { back } => {
                if let Some((index, flight)) = self.flight(back) {
                    self.flights.remove(index);
                    flight.lease.into_iter().for_each(|lease| self.cell.release(lease));
                    self.model.release(flight.admitted);
                }
            }
            Event::ForceOpen(until) => {
                let end = until.map(|at| self.at(at));
                self.act(|cell, moment| cell.force_open(end, moment));
                self.model.force_open(until);
            }
            Event::ForceClosed => {
                self.act(|cell, moment| cell.force_closed(moment));
                self.model.start_over(true);
            }
            Event::Reset => {
                self.act(|cell, moment| cell.reset(moment));
                self.model.start_over(false);
            }
            Event::Reconciled(action) => {
                self.act(|cell, moment| cell.reconciled(ActionId::from_key(action), moment));
                self.model.reconciled(action);
            }
        }
        self.compare()
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        for ahead in [0, 1, 9_999, 10_000, 29_999, 30_000, 1 << 40] {
            let seen = self.cell.snapshot(self.cell.seen + millis(ahead), &self.card);
            prop_assert_eq!(seen.state, self.model.state(self.model.now + ahead), "{} ms on", ahead);
            if seen.state != State::Closed {
                let later = self.cell.seen + millis(ahead);
                prop_assert!(!self.cell.evictable(later) && !self.cell.is_clean(later, &self.card));
            }
        }
        let snapshot = self.cell.snapshot(self.cell.seen, &self.card);
        let unknown = self.model.unknown.iter().filter(|it| self.model.now - it.1 < CARD.unknown_within).count();
        prop_assert_eq!(snapshot.counts.unknown_writes as usize, unknown);
        prop_assert!(!self.model.is_overdue(), "closed over a threshold");
        Ok(())
    }
}

proptest! {
    #[test]
    fn state_matches_a_naive_reference_model(
        circuit in prop::sample::select(Circuit::ALL.to_vec()),
        live_probes in any::<bool>(),
        has_probe in any::<bool>(),
        events in prop::collection::vec(events(), 1..150),
    ) {
        let real = Instant::now();
        let mut pair = Pair {
            cell: Cell::new(circuit, 0, real),
            card: card(live_probes),
            has_probe,
            model: Model::new(circuit, live_probes, has_probe),
            real,
            epoch: 0,
            flights: Vec::new(),
        };
        for event in events {
            pair.apply(event)?;
        }
    }
}
