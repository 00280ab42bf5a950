//! The words a breaker answers in: which circuit, in which state, for which signal.

use std::fmt;

use serde::Serialize;
use tokio::time::Instant;

macro_rules! words {
    ($(#[$outer:meta])* $name:ident { $($(#[doc = $doc:literal])* $variant:ident $code:literal,)* }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum $name { $($(#[doc = $doc])* $variant,)* }

        impl $name {
            /// The stable, documented code.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.code())
            }
        }
    };
}

/// The independent circuits of a breaker, each with a scope of its own.
///
/// This enum is exhaustive on purpose: every circuit needs a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Circuit {
    /// Failures, malformed answers, slow calls, quality and cost.
    Health,
    /// Unknown writes. Reads always pass.
    Writes,
    /// Denials of one actor.
    Denials,
    /// Rate limits and credentials that do not work.
    Credential,
}

impl Circuit {
    /// Every circuit.
    pub const ALL: [Self; 4] = [Self::Health, Self::Writes, Self::Denials, Self::Credential];

    /// The stable, documented code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Writes => "writes",
            Self::Denials => "denials",
            Self::Credential => "credential",
        }
    }
}

impl fmt::Display for Circuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

words! {
    /// Why a circuit is not closed.
    Signal {
        /// Too many definite failures, or a probe that failed.
        Failures "failures",
        /// Too high a rate of failures.
        FailureRate "failure_rate",
        /// Writes that may have been applied.
        UnknownWrites "unknown_writes",
        /// Too many denials.
        Denials "denials",
        /// Rate limits.
        RateLimits "rate_limits",
        /// A credential that does not work.
        Credential "credential",
        /// Too many malformed answers: semantic degradation.
        Malformed "malformed",
        /// Too many slow calls.
        SlowCalls "slow_calls",
        /// The quality score fell too low.
        Quality "quality",
        /// The cost rose too high.
        Cost "cost",
        /// An operator forced it.
        Operator "operator",
    }
}

words! {
    /// The state of one circuit for one key.
    State {
        /// Calls pass.
        Closed "closed",
        /// Calls are refused until the cool-down is over.
        Open "open",
        /// One probe at a time may pass.
        HalfOpen "half_open",
        /// A growing share of the calls passes.
        Recovering "recovering",
        /// The cool-down is over, but no call came that may probe and there is no other probe.
        AwaitingProbe "awaiting_probe",
        /// Held back by rate until the other side's window has passed.
        Gated "gated",
    }
}

/// What somebody should be told at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// An actor was blocked: tell security.
    ActorBlocked,
    /// Nothing can probe the target: an operator must look, or a read must come.
    AwaitingProbe,
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Which circuit.
    pub(crate) circuit: Circuit,
    /// Its state before.
    pub(crate) from: State,
    /// Its state now.
    pub(crate) to: State,
    /// The signal that opened it, also where it closes again.
    pub(crate) cause: Signal,
    /// When it will change by itself, if it will.
    pub(crate) until: Option<Instant>,
}

/// One circuit of one key, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Which circuit.
    pub circuit: Circuit,
    /// Its state.
    pub state: State,
    /// Why it is not simply closed.
    pub cause: Option<Signal>,
    /// When it will change by itself, if it will.
    pub until: Option<Instant>,
    /// What its windows hold.
    pub counts: Counts,
}

/// What the windows of one circuit hold. What a circuit does not count is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Definite failures.
    pub failures: u32,
    /// Malformed answers.
    pub malformed: u32,
    /// Slow calls.
    pub slow: u32,
    /// Writes that may have been applied and are not reconciled.
    pub unknown_writes: u32,
    /// Denials.
    pub denials: u32,
    /// Rate limits.
    pub rate_limits: u32,
    /// Consecutive verified successes of half-open.
    pub probe_successes: u32,
    /// How often the cool-down has grown.
    pub failed_recoveries: u32,
}
