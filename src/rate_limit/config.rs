//! How much may be sent in a minute: [`RateLimitConfig`].

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{call::Scope, config_error::ConfigError};

/// How many requests and tokens may be sent in a minute. By default any number: only the account says how many it has.
///
/// ```
/// # use tower_belay::rate_limit::RateLimitConfig;
/// let config: RateLimitConfig = toml::from_str(r#"
///     requests_per_minute = 500
///     tokens_per_minute = 30_000
///     [models."gpt-5-mini"]
///     tokens_per_minute = 200_000
/// "#).unwrap();
/// assert_eq!(config.requests_per_minute, Some(500));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RateLimitConfig {
    /// How many requests may be sent in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// How many tokens, in and out, may be spent in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// How many tokens a call is taken for that has no [estimate](crate::Call::estimate), until its answer says how many
    /// it was. Default 1,000.
    pub default_estimate: u64,
    /// How long a call may wait, if its deadline is not sooner. Default 30 s, as a bulkhead's.
    #[serde(with = "crate::human")]
    pub max_wait: Duration,
    /// Which calls share a rate. Default target, operation and credential: a provider limits each model of each account.
    pub scope: Scope,
    /// What is different for the models, or other operations, named here.
    pub models: BTreeMap<String, Rates>,
}

/// What is different for one model. What is not set is as for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Rates {
    /// How many requests may be sent in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// How many tokens may be spent in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
}

/// The limits of one key, with nothing left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) requests: Option<u64>,
    pub(super) tokens: Option<u64>,
    pub(super) default_estimate: u64,
    pub(super) max_wait: Duration,
}

impl Default for RateLimitConfig {
    fn default() -> Self {
        Self {
            requests_per_minute: None,
            tokens_per_minute: None,
            default_estimate: 1_000,
            max_wait: Duration::from_secs(30),
            scope: Scope::TARGET | Scope::OPERATION | Scope::CREDENTIAL,
            models: BTreeMap::new(),
        }
    }
}

impl Rates {
    /// Sets how many requests may be sent in a minute.
    #[must_use]
    pub const fn requests_per_minute(mut self, requests: u64) -> Self {
        self.requests_per_minute = Some(requests);
        self
    }

    /// Sets how many tokens may be spent in a minute.
    #[must_use]
    pub const fn tokens_per_minute(mut self, tokens: u64) -> Self {
        self.tokens_per_minute = Some(tokens);
        self
    }
}

impl RateLimitConfig {
    /// Limits nothing of its own; what a provider says still holds.
    pub fn off() -> Self {
        Self::default()
    }

    /// Sets how many requests may be sent in a minute.
    #[must_use]
    pub const fn requests_per_minute(mut self, requests: u64) -> Self {
        self.requests_per_minute = Some(requests);
        self
    }

    /// Sets how many tokens may be spent in a minute.
    #[must_use]
    pub const fn tokens_per_minute(mut self, tokens: u64) -> Self {
        self.tokens_per_minute = Some(tokens);
        self
    }

    /// Sets how many tokens a call is taken for that has no estimate.
    #[must_use]
    pub const fn default_estimate(mut self, tokens: u64) -> Self {
        self.default_estimate = tokens;
        self
    }

    /// Sets how long a call may wait.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Sets which calls share a rate.
    #[must_use]
    pub const fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets what is different for `model`.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>, rates: Rates) -> Self {
        self.models.insert(model.into(), rates);
        self
    }

    pub(super) fn limits(&self, model: Option<&str>) -> Limits {
        let own = model.and_then(|model| self.models.get(model)).copied().unwrap_or_default();
        Limits {
            requests: own.requests_per_minute.or(self.requests_per_minute),
            tokens: own.tokens_per_minute.or(self.tokens_per_minute),
            default_estimate: self.default_estimate,
            max_wait: self.max_wait,
        }
    }

    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !self.models.is_empty() && !self.scope.contains(Scope::OPERATION) {
            return Err(ConfigError::new("models", "are named by operation, which is no part of `scope`"));
        }
        let own = Rates { requests_per_minute: self.requests_per_minute, tokens_per_minute: self.tokens_per_minute };
        let all = self.models.iter().map(|(name, rates)| (format!("models.{name}."), *rates));
        for (path, rates) in all.chain([(String::new(), own)]) {
            if rates.requests_per_minute == Some(0) {
                return Err(ConfigError::new(format!("{path}requests_per_minute"), "must be at least 1"));
            }
            if rates.tokens_per_minute == Some(0) {
                return Err(ConfigError::new(format!("{path}tokens_per_minute"), "must be at least 1"));
            }
        }
        Ok(())
    }
}
