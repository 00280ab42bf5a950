mod cool_down;
mod credential;
mod denials;
mod extremes;
mod half_open;
mod health_circuit;
mod operators;
mod recovering;
mod rows;
mod writes;

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Circuit, Cost, CredentialRule, Denials, Failures, Malformed, Notice, Quality, RateLimits, Refusal, Signal,
    SlowCalls, State, TripCard, UnknownWrites,
    cell::Cell,
    event::{Admit, Ask, Changes, LeaseId, Moment, Settled},
    evidence::needs_cell,
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

    fn act<T>(&mut self, act: impl FnOnce(&mut Cell, Moment<'_>) -> T) -> T {
        let epoch = &mut self.epoch;
        let mut next = || {
            *epoch += 1;
            *epoch
        };
        act(&mut self.cell, Moment { now: self.now, card: &self.card, next: &mut next })
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
        self.end(WRITE, Verdict::new(Reason::RateLimited).with_retry_at(at))
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
