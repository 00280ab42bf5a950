//! What every call must know of a breaker's card, in one word.

use super::{TripCard, words::Circuit};
use crate::call::{Call, Name, Scope};

/// The scopes of the four circuits in the low half, switches in the high half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan(u64);

const KILLED: u64 = 1 << 32;
const INVALID: u64 = 1 << 33;
const DRY_RUN: u64 = 1 << 34;
const TIMED: u64 = 1 << 35;
const COUNTS_SUCCESSES: u64 = 1 << 36;
const HAS_PROBE: u64 = 1 << 37;
const IS_HEARD: u64 = 1 << 38;

impl Plan {
    pub(super) fn of(card: &TripCard) -> Self {
        let mut bits = 0;
        for circuit in Circuit::ALL {
            bits |= u64::from(card.scope(circuit).bits()) << (circuit as u64 * 8);
        }
        let failure_rate = card.failures.enabled && card.failures.rate.is_some();
        let averages = card.quality.enabled || card.cost.enabled || failure_rate;
        for (on, flag) in [(card.slow_calls.enabled, TIMED | COUNTS_SUCCESSES), (averages, COUNTS_SUCCESSES)] {
            if on {
                bits |= flag;
            }
        }
        Self(bits)
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// The names by which `call` is looked up in `circuit`.
    ///
    /// A denial without an actor is the tenant's; without either it is nobody's in particular, and must not stop
    /// more than its target.
    #[inline]
    pub(super) fn scope(self, circuit: Circuit, call: &Call) -> Scope {
        let scope = self.widest(circuit);
        if circuit != Circuit::Denials || scope != Scope::ACTOR || call.name(Name::Actor).is_some() {
            return scope;
        }
        if call.name(Name::Tenant).is_some() { Scope::TENANT } else { Scope::TARGET }
    }

    /// The scope of `circuit` as the card says it.
    #[inline]
    fn widest(self, circuit: Circuit) -> Scope {
        Scope::from_bits((self.0 >> (circuit as u64 * 8)) as u8)
    }

    /// The kill switch is for emergencies: it does not ask whether the breaker only watches.
    pub(super) const fn refuses_all(self) -> bool {
        self.is_killed() || (self.is_off() && !self.is_dry_run())
    }

    /// Whether every call is refused, or would be but for the dry run.
    pub(super) const fn is_off(self) -> bool {
        self.0 & (KILLED | INVALID) != 0
    }

    pub(super) const fn is_killed(self) -> bool {
        self.0 & KILLED != 0
    }

    pub(super) const fn is_dry_run(self) -> bool {
        self.0 & DRY_RUN != 0
    }

    /// Whether calls are timed.
    pub(super) const fn is_timed(self) -> bool {
        self.0 & TIMED != 0
    }

    /// Whether healthy keys keep state too, because a rule needs their successes.
    pub(super) const fn counts_successes(self) -> bool {
        self.0 & COUNTS_SUCCESSES != 0
    }

    /// Whether the user configured a probe.
    pub(super) const fn has_probe(self) -> bool {
        self.0 & HAS_PROBE != 0
    }

    /// Whether there is a listener or an alert sink.
    pub(super) const fn is_heard(self) -> bool {
        self.0 & IS_HEARD != 0
    }

    /// The card has an impossible value: every call is refused.
    pub(super) const fn invalid(self) -> Self {
        Self(self.0 | INVALID)
    }

    pub(super) const fn with_probe(self) -> Self {
        Self(self.0 | HAS_PROBE)
    }

    pub(super) const fn heard(self) -> Self {
        Self(self.0 | IS_HEARD)
    }

    pub(super) const fn dry_run(self) -> Self {
        Self(self.0 | DRY_RUN)
    }

    pub(super) const fn killed(self, killed: bool) -> Self {
        Self(if killed { self.0 | KILLED } else { self.0 & !KILLED })
    }

    /// What was switched on beside the card stays when the card changes.
    pub(super) const fn with_switches_of(self, other: Self) -> Self {
        Self(self.0 | (other.0 & (KILLED | DRY_RUN | HAS_PROBE | IS_HEARD)))
    }
}
