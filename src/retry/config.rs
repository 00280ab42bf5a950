//! How often, and how long apart: [`RetryPolicy`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config_error::ConfigError;

/// How the waits between attempts are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Jitter {
    /// Half of the wait is fixed, half is drawn: no wait is short, and no two callers agree.
    #[default]
    Equal,
    /// All of the wait is drawn.
    Full,
}

/// How often a call is attempted, and how long apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// How often a call is attempted, the first time included. Default 3.
    pub max_attempts: u32,
    /// The wait before the second attempt; it doubles from there. Default 1 s.
    #[serde(with = "crate::human")]
    pub base: Duration,
    /// The longest wait. A hint of the other side that is longer ends the call, with `retry_at`. Default 30 s.
    #[serde(with = "crate::human")]
    pub cap: Duration,
    /// How waits without a hint are spread. Default equal.
    pub jitter: Jitter,
    /// How many retries a hundred calls may cause, over all calls of the layer. Default 20.
    pub budget_percent: u32,
    /// How many retries there are to begin with, and at most at any time. Default 10.
    pub budget_reserve: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(30),
            jitter: Jitter::Equal,
            budget_percent: 20,
            budget_reserve: 10,
        }
    }
}

macro_rules! setters {
    ($($field:ident: $type:ty, $doc:literal;)*) => {
        impl RetryPolicy {
            $(#[doc = $doc]
            #[must_use]
            pub const fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

setters! {
    max_attempts: u32, "Sets how often a call is attempted, the first time included.";
    base: Duration, "Sets the wait before the second attempt.";
    cap: Duration, "Sets the longest wait.";
    jitter: Jitter, "Sets how waits without a hint are spread.";
    budget_percent: u32, "Sets how many retries a hundred calls may cause.";
    budget_reserve: u32, "Sets how many retries there are to begin with, and at most.";
}

impl RetryPolicy {
    /// Every call goes once.
    pub fn off() -> Self {
        Self::default().max_attempts(1)
    }

    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.max_attempts == 0 {
            return Err(ConfigError::new("max_attempts", "must be at least 1: the first attempt counts"));
        }
        if self.base.is_zero() && self.max_attempts > 1 {
            return Err(ConfigError::new("base", "must be longer than zero"));
        }
        if self.cap < self.base {
            return Err(ConfigError::new("cap", "must not be shorter than `base`"));
        }
        if self.budget_percent > 1_000 {
            return Err(ConfigError::new("budget_percent", "must be at most 1000"));
        }
        Ok(())
    }
}
