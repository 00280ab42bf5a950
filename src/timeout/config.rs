//! How long a call may take: [`TimeoutConfig`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config_error::ConfigError;

/// How long a call may take, to the end of its answer.
///
/// ```
/// # use std::time::Duration;
/// # use tower_belay::TimeoutConfig;
/// let config: TimeoutConfig = toml::from_str("total = '90s'").unwrap();
/// assert_eq!(config, TimeoutConfig::default().total(Duration::from_secs(90)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TimeoutConfig {
    /// Whether there is a limit of the layer's own; the deadline of a call always holds. Default true.
    pub enabled: bool,
    /// The time from sending a call to the end of its answer, if its deadline is not sooner. Default 10 min.
    #[serde(with = "crate::human")]
    pub total: Duration,
}

impl Default for TimeoutConfig {
    fn default() -> Self {
        Self { enabled: true, total: Duration::from_secs(600) }
    }
}

impl TimeoutConfig {
    /// Only the deadlines that calls carry hold.
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// Sets the time from sending a call to the end of its answer.
    #[must_use]
    pub const fn total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.enabled && self.total.is_zero() {
            return Err(ConfigError::new("total", "must be longer than zero"));
        }
        Ok(())
    }
}
