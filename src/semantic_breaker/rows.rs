//! The rows of a [`TripCard`](super::TripCard): one signal each, with its threshold.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::reason::FIRST_HOLD;

macro_rules! off {
    ($($row:ident)*) => {$(
        impl $row {
            /// This row, switched off.
            pub fn off() -> Self {
                Self { enabled: false, ..Self::default() }
            }
        }
    )*};
}

off! { Failures UnknownWrites Denials RateLimits CredentialRule Malformed SlowCalls Quality Cost }

/// Definite failures: what certainly was not applied, and reads whose outcome is unknown.
///
/// Default: five in the last twenty attempts, the starter threshold of the trip card this crate was designed after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Failures {
    /// Whether the row is on.
    pub enabled: bool,
    /// How many failures open the circuit.
    pub count: u32,
    /// Among how many of the last attempts, at most 1,024.
    pub window: u32,
    /// A rate over a time window, in place of `count` in `window`. Off by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<FailureRate>,
}

impl Default for Failures {
    fn default() -> Self {
        Self { enabled: true, count: 5, window: 20, rate: None }
    }
}

impl Failures {
    /// Opens at `count` failures in the last `window` attempts.
    pub fn count(count: u32, window: u32) -> Self {
        Self { count, window, ..Self::default() }
    }

    /// Opens when at least `share` (0 to 1) of the attempts `within` the last time failed, and there were at least
    /// `min_sample` of them. With this rule healthy keys keep state too, since a rate needs its successes.
    pub fn rate(share: f64, within: Duration, min_sample: u32) -> Self {
        Self { rate: Some(FailureRate { share, within, min_sample }), ..Self::default() }
    }
}

/// A rate of failures over a time window. The window slides in sixteen steps: it covers between 15/16 of `within`
/// and all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FailureRate {
    /// The share of failures that opens, above 0 and at most 1. Default 0.5.
    pub share: f64,
    /// The time window. Default 60 s.
    #[serde(with = "crate::human")]
    pub within: Duration,
    /// Fewer attempts than this say nothing. Default 20.
    pub min_sample: u32,
}

impl Default for FailureRate {
    fn default() -> Self {
        Self { share: 0.5, within: Duration::from_secs(60), min_sample: 20 }
    }
}

/// Writes that may have been applied, and that nobody has reconciled yet.
///
/// Default: two within one hour; the trip card this crate was designed after opens writes at two timeouts after
/// submission. Attempts at the same [`action`](crate::Call::action) count as one write; a write without an action is one
/// by itself, and nobody can reconcile it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct UnknownWrites {
    /// Whether the row is on.
    pub enabled: bool,
    /// How many unknown writes open the circuit for writes; at most 256.
    pub count: u32,
    /// How long an unknown write counts if nobody reconciles it.
    #[serde(with = "crate::human")]
    pub within: Duration,
}

impl Default for UnknownWrites {
    fn default() -> Self {
        Self { enabled: true, count: 2, within: Duration::from_secs(3_600) }
    }
}

/// Denials of one actor: permission, another tenant's data, business policy.
///
/// Default: three in five minutes, as on the trip card this crate was designed after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Denials {
    /// Whether the row is on.
    pub enabled: bool,
    /// How many denials block the actor; at most 1,024.
    pub count: u32,
    /// Within what time.
    #[serde(with = "crate::human")]
    pub within: Duration,
}

impl Default for Denials {
    fn default() -> Self {
        Self { enabled: true, count: 3, within: Duration::from_secs(300) }
    }
}

/// Refusals by rate: each gates its credential, several pause it.
///
/// Default: three in 60 s pause until the provider's window, as on the trip card this crate was designed after. A
/// single one holds until its own hint, or without one for 5 s, doubling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RateLimits {
    /// Whether the row is on.
    pub enabled: bool,
    /// How many rate limits pause the credential; at most 1,024.
    pub count: u32,
    /// Within what time.
    #[serde(with = "crate::human")]
    pub within: Duration,
    /// The first hold without a hint; it doubles on each further one until a call succeeds. Default 5 s.
    #[serde(with = "crate::human")]
    pub first_hold: Duration,
    /// The pause when no limit carried a hint. Default 60 s.
    #[serde(with = "crate::human")]
    pub pause: Duration,
    /// The longest time without letting one call try, whatever the hints say. Default 10 min.
    #[serde(with = "crate::human")]
    pub max_hold: Duration,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            enabled: true,
            count: 3,
            within: Duration::from_secs(60),
            first_hold: FIRST_HOLD,
            pause: Duration::from_secs(60),
            max_hold: Duration::from_secs(600),
        }
    }
}

/// A credential that does not work: a single answer opens it, since the next one cannot differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CredentialRule {
    /// Whether the row is on.
    pub enabled: bool,
}

impl Default for CredentialRule {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Answers that cannot be used, counted apart from failures: semantic degradation. Default: five in twenty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Malformed {
    /// Whether the row is on.
    pub enabled: bool,
    /// How many malformed answers open the circuit.
    pub count: u32,
    /// Among how many of the last attempts, at most 1,024.
    pub window: u32,
}

impl Default for Malformed {
    fn default() -> Self {
        Self { enabled: true, count: 5, window: 20 }
    }
}

/// Calls slower than a threshold. Off by default: a long answer is often a good one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SlowCalls {
    /// Whether the row is on.
    pub enabled: bool,
    /// A call that takes at least this long is slow. Default 30 s.
    #[serde(with = "crate::human")]
    pub threshold: Duration,
    /// How many slow calls open the circuit.
    pub count: u32,
    /// Among how many of the last attempts, at most 1,024.
    pub window: u32,
    /// Counts a call as slow only if others queued meanwhile. Default false.
    pub only_while_queued: bool,
}

impl Default for SlowCalls {
    fn default() -> Self {
        Self { enabled: false, threshold: Duration::from_secs(30), count: 5, window: 20, only_while_queued: false }
    }
}

impl SlowCalls {
    /// Counts calls that take at least `threshold`.
    pub fn at_least(threshold: Duration) -> Self {
        Self { enabled: true, threshold, ..Self::default() }
    }
}

/// A quality score whose moving average falls too low. Off by default: nobody but the caller has a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Quality {
    /// Whether the row is on.
    pub enabled: bool,
    /// The lowest average that is still good, in the caller's own unit. Default 0.5.
    pub floor: f64,
    /// How many scores the exponential average spans. Default 20.
    pub span: u32,
    /// Fewer scores than this say nothing. Default 10.
    pub min_sample: u32,
}

impl Default for Quality {
    fn default() -> Self {
        Self { enabled: false, floor: 0.5, span: 20, min_sample: 10 }
    }
}

impl Quality {
    /// Opens when the average falls below `floor`.
    pub fn below(floor: f64) -> Self {
        Self { enabled: true, floor, ..Self::default() }
    }
}

/// A cost per call whose moving average rises too high. Off by default: there is no price that fits all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Cost {
    /// Whether the row is on.
    pub enabled: bool,
    /// The highest average that is still good, in the caller's own unit. Default 1.
    pub ceiling: f64,
    /// How many calls the exponential average spans. Default 20.
    pub span: u32,
    /// Fewer calls than this say nothing. Default 10.
    pub min_sample: u32,
}

impl Default for Cost {
    fn default() -> Self {
        Self { enabled: false, ceiling: 1.0, span: 20, min_sample: 10 }
    }
}

impl Cost {
    /// Opens when the average rises above `ceiling`.
    pub fn above(ceiling: f64) -> Self {
        Self { enabled: true, ceiling, ..Self::default() }
    }
}
