use proptest::prelude::*;
use tokio::time::Instant;

use super::{
    Circuit, State, TripCard,
    cell::Cell,
    event::{Admit, Ask, LeaseId, Moment, Settled},
    model::{Answer, Model},
    model_events::{Asked, CARD, Ended, Event, REASONS, card, events, millis},
};
use crate::{
    call::{ActionId, Effect},
    verdict::Verdict,
};

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
    fn act<T>(&mut self, act: impl FnOnce(&mut Cell, Moment<'_>) -> T) -> T {
        let epoch = &mut self.epoch;
        let mut next = || {
            *epoch += 1;
            *epoch
        };
        act(&mut self.cell, Moment { now: self.real, card: &self.card, next: &mut next })
    }

    fn at(&self, relative: i64) -> Instant {
        if relative < 0 { self.real - millis(relative) } else { self.real + millis(relative) }
    }

    fn ask(&mut self, asked: Asked) -> Result<bool, TestCaseError> {
        let effect = if asked.write { Effect::Sensitive } else { Effect::ReadOnly };
        let ask = Ask { effect, deadline: asked.deadline.map(|at| self.at(at)), has_probe: self.has_probe };
        let (before, epoch) = (self.model.lease, self.epoch);
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
                stamp: epoch.max(self.cell.since()),
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
        let mut verdict = Verdict::new(reason).with_retry_at(hint.map(|at| self.at(at)));
        if receipt {
            verdict = verdict.with_receipt("done");
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
                    flight.lease.map(|lease| self.cell.release(lease));
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
            self.compare_keeping(seen.state, ahead)?;
        }
        let snapshot = self.cell.snapshot(self.cell.seen, &self.card);
        let unknown = self.model.unknown.iter().filter(|it| self.model.now - it.1 < CARD.unknown_within).count();
        prop_assert_eq!(snapshot.counts.unknown_writes as usize, unknown);
        prop_assert!(!self.model.is_overdue(), "closed over a threshold");
        Ok(())
    }

    /// What is not closed may go only where it waits for no more than one call that tries.
    fn compare_keeping(&self, state: State, ahead: i64) -> Result<(), TestCaseError> {
        const DAY: i64 = 86_400_000;
        let later = self.cell.seen + millis(ahead);
        let waits = match state {
            State::Closed => return Ok(()),
            State::HalfOpen | State::AwaitingProbe => true,
            _ => self.model.may_try(self.model.now + ahead) && state == State::Gated,
        };
        let blames = matches!(self.cell.circuit(), Circuit::Denials | Circuit::Credential);
        prop_assert!(!self.cell.evictable(later) || (waits && blames));
        let forgotten = waits && ahead >= DAY && self.cell.circuit() != Circuit::Writes;
        prop_assert!(!self.cell.is_clean(later, &self.card) || forgotten);
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
