//! Decides whether a call is attempted again: verdict in, decision out.

use std::time::Duration;

use tokio::time::Instant;

use super::{Jitter, RetryPolicy};
use crate::{
    call::Effect,
    reason::{Class, FIRST_HOLD, Retry},
    verdict::Verdict,
};

/// What is known when an attempt has failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failed<'a> {
    pub(super) verdict: &'a Verdict,
    pub(super) effect: Effect,
    /// Which attempt it was; the first is 1.
    pub(super) attempt: u32,
    pub(super) deadline: Option<Instant>,
    /// Whether the target takes two requests with one action id for one.
    pub(super) is_idempotent: bool,
    pub(super) now: Instant,
    /// A number in 0..1 that no other caller draws.
    pub(super) draw: f64,
}

/// What to do about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Send the same request again after this wait.
    Again(Duration),
    /// Send a changed request, after this wait.
    Amended(Duration),
    /// End the call.
    GiveUp(GaveUp),
}

/// Why a call is not attempted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GaveUp {
    /// The same request would meet the same answer.
    Never,
    /// It may have been applied: it must be looked up first.
    MayBeApplied,
    /// Every attempt was made.
    Attempts,
    /// The wait that was asked for is longer than the policy's cap.
    TooLong,
    /// The call's deadline comes first.
    Deadline,
    /// The retry budget is used up.
    Budget,
    /// The request cannot be sent twice: its body is not in memory.
    NoReplay,
    /// Nothing can change the request so that it fares better.
    NoAmendment,
}

impl GaveUp {
    /// The stable, documented code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::MayBeApplied => "may_be_applied",
            Self::Attempts => "attempts",
            Self::TooLong => "too_long",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::NoReplay => "no_replay",
            Self::NoAmendment => "no_amendment",
        }
    }
}

pub(super) fn decide(policy: &RetryPolicy, failed: &Failed<'_>) -> Decision {
    let Failed { verdict, effect, attempt, .. } = *failed;
    let amends = match said(verdict, effect) {
        Retry::Never => return Decision::GiveUp(GaveUp::Never),
        Retry::AfterReconciling if !failed.is_idempotent => return Decision::GiveUp(GaveUp::MayBeApplied),
        Retry::AfterAmending => true,
        Retry::AfterReconciling | Retry::Backoff | Retry::AtHint => false,
    };
    if attempt >= policy.max_attempts {
        return Decision::GiveUp(GaveUp::Attempts);
    }
    let hint = verdict.retry_at.map(|at| at.saturating_duration_since(failed.now));
    let wait = match hint.filter(|hint| !hint.is_zero()) {
        Some(hint) if hint > policy.cap => return Decision::GiveUp(GaveUp::TooLong),
        Some(hint) => after_hint(hint, failed.draw),
        // A changed request is another request: there is nothing to wait for.
        None if amends => Duration::ZERO,
        None if verdict.retry_at.is_none() && verdict.class() == Class::RateLimited => {
            hold(policy, attempt, failed.draw)
        }
        None => backoff(policy, attempt, failed.draw),
    };
    if failed.deadline.is_some_and(|deadline| failed.now.checked_add(wait).is_none_or(|at| at >= deadline)) {
        return Decision::GiveUp(GaveUp::Deadline);
    }
    if amends { Decision::Amended(wait) } else { Decision::Again(wait) }
}

/// What the reason says, unless the other side knows better. It is believed that the same request had better not come
/// again; that it may, only where nothing can be applied twice and nobody was denied. A changed request is another one.
fn said(verdict: &Verdict, effect: Effect) -> Retry {
    let by_reason = verdict.reason.retry(effect);
    match (verdict.should_retry(), by_reason) {
        (Some(false), Retry::Backoff | Retry::AtHint | Retry::AfterReconciling) => Retry::Never,
        (Some(true), Retry::Never) if effect == Effect::ReadOnly && verdict.class() == Class::Failed => Retry::Backoff,
        _ => by_reason,
    }
}

/// The other side's own word, rounded up to a millisecond; jitter only makes it longer, by a tenth at most.
fn after_hint(hint: Duration, draw: f64) -> Duration {
    let whole = Duration::from_millis(hint.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX));
    whole.saturating_add(whole.mul_f64(0.1 * draw.clamp(0.0, 1.0)))
}

/// Somebody is to be left alone, but nobody said for how long.
fn hold(policy: &RetryPolicy, attempt: u32, draw: f64) -> Duration {
    after_hint(doubled(FIRST_HOLD, attempt).min(policy.cap), draw)
}

fn doubled(wait: Duration, attempt: u32) -> Duration {
    wait.saturating_mul(1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX))
}

fn backoff(policy: &RetryPolicy, attempt: u32, draw: f64) -> Duration {
    let whole = doubled(policy.base, attempt).min(policy.cap);
    let draw = draw.clamp(0.0, 1.0);
    match policy.jitter {
        Jitter::Equal => whole / 2 + (whole / 2).mul_f64(draw),
        Jitter::Full => whole.mul_f64(draw),
    }
}
