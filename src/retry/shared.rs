//! What all services of one retry layer share.

use std::{
    fmt,
    hash::BuildHasher,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::time::Instant;

use super::{
    GaveUp, RetryPolicy,
    budget::Budget,
    state::{Decision, Failed, decide},
};
use crate::{call::Call, verdict::Verdict};

type IsIdempotent = Arc<dyn Fn(&Call) -> bool + Send + Sync>;

pub(super) struct Shared {
    policy: RetryPolicy,
    budget: Budget,
    is_idempotent: Mutex<Option<IsIdempotent>>,
    seed: std::hash::RandomState,
    draws: AtomicU64,
    told_of_no_replay: AtomicBool,
}

impl Shared {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        let policy = match policy.validate() {
            Ok(()) => policy,
            Err(error) => {
                tracing::error!(%error, "nothing is repeated: the retry policy is invalid");
                RetryPolicy::off()
            }
        };
        Self {
            budget: Budget::full(&policy),
            policy,
            is_idempotent: Mutex::default(),
            seed: std::hash::RandomState::new(),
            draws: AtomicU64::new(0),
            told_of_no_replay: AtomicBool::new(false),
        }
    }

    /// Whether a request has to be kept for a second attempt.
    pub(super) fn may_repeat(&self) -> bool {
        self.policy.max_attempts > 1
    }

    /// A call was begun.
    #[inline]
    pub(super) fn begin(&self) {
        self.budget.earn(&self.policy);
    }

    pub(super) fn decide(&self, call: &Call, verdict: &Verdict, attempt: u32) -> Decision {
        let is_idempotent = call.action_id().is_some() && self.is_idempotent().is_some_and(|honours| honours(call));
        let failed = Failed {
            verdict,
            effect: call.effect_kind(),
            attempt,
            deadline: call.deadline_at(),
            is_idempotent,
            now: Instant::now(),
            draw: self.draw(),
        };
        decide(&self.policy, &failed)
    }

    /// Takes a retry out of the budget, if there is one.
    pub(super) fn spend(&self) -> bool {
        self.budget.spend()
    }

    pub(super) fn budget_left(&self) -> u32 {
        self.budget.left()
    }

    pub(super) fn set_idempotent(&self, is_idempotent: IsIdempotent) {
        *self.is_idempotent.lock().unwrap_or_else(PoisonError::into_inner) = Some(is_idempotent);
    }

    pub(super) fn repeats(&self, verdict: &Verdict, attempt: u32) {
        tracing::debug!(layer = "retry", reason = verdict.reason.code(), attempt, "attempt failed, another follows");
        metrics::counter!("belay_retries_total", "reason" => verdict.reason.code()).increment(1);
    }

    pub(super) fn gave_up(&self, verdict: &Verdict, why: GaveUp) {
        if why == GaveUp::NoReplay && !self.told_of_no_replay.swap(true, Ordering::Relaxed) {
            tracing::warn!(layer = "retry", "requests go once: their bodies are not in memory");
        }
        tracing::debug!(layer = "retry", reason = verdict.reason.code(), why = why.code(), "not attempted again");
        metrics::counter!("belay_retry_gave_up_total", "why" => why.code()).increment(1);
    }

    fn is_idempotent(&self) -> Option<IsIdempotent> {
        self.is_idempotent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A number in 0..1: no two callers of this process draw the same, nor two processes.
    fn draw(&self) -> f64 {
        let bits = self.seed.hash_one(self.draws.fetch_add(1, Ordering::Relaxed));
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("policy", &self.policy).finish_non_exhaustive()
    }
}
