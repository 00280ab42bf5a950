//! How an account stands: [`Balance`].

use std::time::Duration;

use super::{
    amount::{Amount, Dimension},
    limits::Limits,
};

/// How an account stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Balance {
    /// What was spent. It may be more than the limit: a debt stays.
    pub spent: Amount,
    /// What calls in progress have reserved.
    pub reserved: Amount,
    /// The part of `spent` that nobody stated: answers that were given up, cut, or did not say what they used.
    pub uncertain: Amount,
    /// The limits in force, with what was granted.
    pub limits: Limits,
    /// How long ago the first call was.
    pub elapsed: Duration,
    /// Tokens since the last progress.
    pub since_progress: u64,
    /// Whether it was told to finish.
    pub finishing: bool,
}

impl Balance {
    /// What is left of a limit, reservations counted as spent; negative is a debt, and `None` means no limit.
    pub fn remaining(&self, dimension: Dimension) -> Option<i128> {
        let used = i128::from(self.spent.of(dimension)) + i128::from(self.reserved.of(dimension));
        self.limits.of(dimension).map(|limit| i128::from(limit) - used)
    }
}
