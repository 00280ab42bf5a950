//! A budget of retries that truly bounds them, whatever happens at once.

use std::sync::atomic::{AtomicU64, Ordering};

use super::RetryPolicy;

/// Each call earns a share of a retry, each retry spends a whole one.
#[derive(Debug)]
pub(super) struct Budget {
    /// In hundredths of a retry.
    balance: AtomicU64,
}

const RETRY: u64 = 100;

impl Budget {
    pub(super) fn full(policy: &RetryPolicy) -> Self {
        Self { balance: AtomicU64::new(u64::from(policy.budget_reserve) * RETRY) }
    }

    /// A call was begun.
    #[inline]
    pub(super) fn earn(&self, policy: &RetryPolicy) {
        let most = u64::from(policy.budget_reserve) * RETRY;
        // A full budget is only read: healthy callers do not write to what they share.
        if self.balance.load(Ordering::Relaxed) < most {
            let add = |balance: u64| (balance < most).then(|| most.min(balance + u64::from(policy.budget_percent)));
            let _ = self.balance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }

    /// Takes a retry, if there is one.
    pub(super) fn spend(&self) -> bool {
        let take = |balance: u64| balance.checked_sub(RETRY);
        self.balance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// How many retries are left.
    pub(super) fn left(&self) -> u32 {
        (self.balance.load(Ordering::Relaxed) / RETRY) as u32
    }
}
