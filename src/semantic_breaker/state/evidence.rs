//! What each circuit counts, and what a single result means to it.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    config::TripCard,
    event::{Moment, Settled},
    gate::Gate,
    health::{self, Health},
    pending::Pending,
    window::Times,
    words::{Circuit, Counts, Signal},
};
use crate::{
    call::Effect,
    reason::{Class, Impact, Reason},
};

/// What one circuit counts for one key.
#[derive(Debug)]
pub(super) enum Evidence {
    Health(Health),
    Writes(Pending),
    Denials(Times),
    Credential(Box<Gate>),
}

/// What one result means to a half-open circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A verified success.
    Good,
    /// Nothing that this circuit is about: the slot comes free.
    Nothing,
    Bad(Signal),
}

/// Who vouches for a probe's success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voucher {
    /// A call: a write needs a receipt.
    Call,
    /// The user's own probe, which knows what it tests.
    Probe,
}

impl Settled<'_> {
    pub(super) fn impact(&self) -> Impact {
        self.verdict.reason.impact(self.effect)
    }

    /// A write that may have been applied. One that its caller gave up early says nothing to a breaker.
    pub(super) fn is_unknown_write(&self) -> bool {
        let reason = self.verdict.reason;
        self.effect > Effect::ReadOnly && reason.class() == Class::Unknown && reason != Reason::Abandoned
    }
}

/// Whether `settled` must be counted by `circuit` although no state exists for its key.
pub(crate) fn needs_cell(circuit: Circuit, settled: &Settled<'_>, card: &TripCard) -> bool {
    match circuit {
        Circuit::Health => health::matters(settled, card),
        Circuit::Writes => card.unknown_writes.enabled && settled.is_unknown_write(),
        Circuit::Denials => card.denials.enabled && settled.impact() == Impact::Denial,
        Circuit::Credential => match settled.impact() {
            Impact::Gate => card.rate_limits.enabled,
            Impact::Credential => card.credential.enabled,
            _ => false,
        },
    }
}

/// What `settled` means to a half-open `circuit`.
///
/// A row that is off still counts here: whether a target is well again is one question, not nine.
pub(super) fn meaning(circuit: Circuit, settled: &Settled<'_>, voucher: Voucher, card: &TripCard) -> Meaning {
    let success = settled.verdict.is_success();
    let bad = |impact: Impact| match impact {
        Impact::Trip => Some(Signal::Failures),
        Impact::Malformed => Some(Signal::Malformed),
        _ => None,
    };
    let signal = match (circuit, settled.impact()) {
        (Circuit::Health | Circuit::Writes, _) if settled.is_unknown_write() => Some(Signal::UnknownWrites),
        (Circuit::Health, _) if health::is_slow(settled, card) => Some(Signal::SlowCalls),
        (Circuit::Health, _) if settled.score.is_some_and(|it| card.quality.enabled && it < card.quality.floor) => {
            Some(Signal::Quality)
        }
        (Circuit::Health, _) if settled.cost.is_some_and(|it| card.cost.enabled && it > card.cost.ceiling) => {
            Some(Signal::Cost)
        }
        (Circuit::Health | Circuit::Writes, impact) => bad(impact),
        (Circuit::Denials, Impact::Denial) => Some(Signal::Denials),
        (Circuit::Credential, Impact::Credential) => Some(Signal::Credential),
        (Circuit::Denials | Circuit::Credential, _) => None,
    };
    // Who may do what is answered by any success; what a write or a background job came to, only by its receipt.
    let verified = match circuit {
        Circuit::Denials | Circuit::Credential => true,
        Circuit::Health | Circuit::Writes => {
            let answered = settled.effect == Effect::ReadOnly && settled.verdict.reason != Reason::Accepted;
            voucher == Voucher::Probe || answered || settled.verdict.receipt().is_some()
        }
    };
    match signal {
        Some(signal) => Meaning::Bad(signal),
        None if success && verified => Meaning::Good,
        None => Meaning::Nothing,
    }
}

impl Evidence {
    pub(super) fn new(circuit: Circuit) -> Self {
        match circuit {
            Circuit::Health => Self::Health(Health::default()),
            Circuit::Writes => Self::Writes(Pending::default()),
            Circuit::Denials => Self::Denials(Times::default()),
            Circuit::Credential => Self::Credential(Box::default()),
        }
    }

    /// Counts a result of a closed or recovering circuit; says which threshold is reached, if one is.
    pub(super) fn count(&mut self, settled: &Settled<'_>, moment: &Moment<'_>) -> Option<Signal> {
        let Moment { now, card, .. } = *moment;
        match self {
            Self::Health(health) => health.push(settled, now, card),
            Self::Writes(pending) => {
                let row = &card.unknown_writes;
                (row.enabled && pending.counting(now, row.within) >= row.count.max(1)).then_some(Signal::UnknownWrites)
            }
            Self::Denials(times) => {
                let row = &card.denials;
                let counts = row.enabled && settled.impact() == Impact::Denial;
                (counts && times.push(now, row.count, row.within)).then_some(Signal::Denials)
            }
            Self::Credential(_) => {
                let broken = card.credential.enabled && settled.impact() == Impact::Credential;
                broken.then_some(Signal::Credential)
            }
        }
    }

    /// Starts the windows anew after a trip. Unknown writes and holds by rate are facts and stay.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Health(health) => *health = Health::default(),
            Self::Writes(pending) => pending.spend(),
            Self::Denials(times) => times.clear(),
            Self::Credential(_) => {}
        }
    }

    pub(super) fn gate(&self) -> Option<&Gate> {
        match self {
            Self::Credential(gate) => Some(gate),
            _ => None,
        }
    }

    pub(super) fn counts(&self, now: Instant, card: &TripCard) -> Counts {
        let mut counts = Counts::default();
        match self {
            Self::Health(health) => health.fill(&mut counts, now, card),
            Self::Writes(pending) => counts.unknown_writes = pending.remaining(now, card.unknown_writes.within),
            Self::Denials(times) => counts.denials = times.count(now, card.denials.within),
            Self::Credential(gate) => counts.rate_limits = gate.count(now, &card.rate_limits),
        }
        counts
    }

    pub(super) fn is_clear(&self, now: Instant, card: &TripCard) -> bool {
        match self {
            Self::Health(health) => health.is_clear(now, card),
            Self::Writes(pending) => pending.remaining(now, card.unknown_writes.within) == 0,
            Self::Denials(times) => times.count(now, card.denials.within) == 0,
            Self::Credential(gate) => gate.is_clear(now, &card.rate_limits),
        }
    }

    pub(super) fn rewind(&mut self, by: Duration) {
        match self {
            Self::Health(health) => health.rewind(by),
            Self::Writes(pending) => pending.rewind(by),
            Self::Denials(times) => times.rewind(by),
            Self::Credential(gate) => gate.rewind(by),
        }
    }
}
