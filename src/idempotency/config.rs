//! How long writes are remembered: [`IdempotencyConfig`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config_error::ConfigError;

/// How long, and how many, writes are remembered.
///
/// ```
/// # use std::time::Duration;
/// # use tower_belay::idempotency::IdempotencyConfig;
/// let config: IdempotencyConfig = toml::from_str("lease = '30s'").unwrap();
/// assert_eq!(config, IdempotencyConfig::default().lease(Duration::from_secs(30)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct IdempotencyConfig {
    /// How long a write may run before it counts as one of which nobody knows. Default 5 min.
    #[serde(with = "crate::human")]
    pub lease: Duration,
    /// How long it is remembered that a write was applied, and its answer. Default 24 h, as Stripe keeps its keys.
    #[serde(with = "crate::human")]
    pub keep_for: Duration,
    /// How many writes of one run are remembered; one more is refused. Default 1,024.
    pub max_per_run: usize,
}

impl Default for IdempotencyConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(300), keep_for: Duration::from_secs(24 * 3_600), max_per_run: 1_024 }
    }
}

impl IdempotencyConfig {
    /// Sets how long a write may run before nobody knows what came of it.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long it is remembered that a write was applied.
    #[must_use]
    pub const fn keep_for(mut self, keep_for: Duration) -> Self {
        self.keep_for = keep_for;
        self
    }

    /// Sets how many writes of one run are remembered.
    #[must_use]
    pub const fn max_per_run(mut self, writes: usize) -> Self {
        self.max_per_run = writes;
        self
    }

    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match () {
            () if self.lease.is_zero() => Err(ConfigError::new("lease", "must be longer than zero")),
            () if self.keep_for.is_zero() => Err(ConfigError::new("keep_for", "must be longer than zero")),
            () if self.max_per_run == 0 => Err(ConfigError::new("max_per_run", "must be at least 1")),
            () => Ok(()),
        }
    }
}
