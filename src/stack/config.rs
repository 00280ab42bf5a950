//! One configuration for a whole stack: [`LlmStackConfig`].

use serde::{Deserialize, Serialize};

use super::Setting;
use crate::{
    bulkhead::BulkheadConfig, config_error::ConfigError, provider::ProviderConfig, rate_limit::RateLimitConfig,
    retry::RetryPolicy, semantic_breaker::TripCard, semantic_validator::ValidatorConfig, timeout::TimeoutConfig,
};

/// How the parts of an [`LlmStack`](super::LlmStack) are set; each may be [`Off`](Setting::Off), but the one that reads
/// answers.
///
/// ```
/// # use tower_belay::stack::LlmStackConfig;
/// let config: LlmStackConfig = toml::from_str(r#"
///     bulkhead = "off"
///     [retry]
///     max_attempts = 2
///     [breaker.failures]
///     count = 3
///     [provider]
///     delivery = "whole"
/// "#).unwrap();
/// assert_eq!(config.validate(), Ok(()));
///
/// let wrong: LlmStackConfig = toml::from_str("retry = { max_attempts = 0 }").unwrap();
/// assert_eq!(wrong.validate().unwrap_err().field(), "retry.max_attempts");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LlmStackConfig {
    /// How often a call is attempted. Default: on.
    pub retry: Setting<RetryPolicy>,
    /// How much may be sent in a minute. Default: off, as only the account says how much that is.
    pub rate_limit: Setting<RateLimitConfig>,
    /// How many calls of a class run at a time. Default: on.
    pub bulkhead: Setting<BulkheadConfig>,
    /// What stops calls to what is failing. Default: on.
    pub breaker: Setting<TripCard>,
    /// What answers are held to. Tools come in by [`LlmStack::validate`](super::LlmStack::validate). Default: nothing.
    pub validator: ValidatorConfig,
    /// How long one attempt may take, to the end of its answer. Default: on.
    pub timeout: Setting<TimeoutConfig>,
    /// How answers are read.
    pub provider: ProviderConfig,
}

impl Default for LlmStackConfig {
    fn default() -> Self {
        Self {
            retry: Setting::default(),
            rate_limit: Setting::Off,
            bulkhead: Setting::default(),
            breaker: Setting::default(),
            validator: ValidatorConfig::default(),
            timeout: Setting::default(),
            provider: ProviderConfig::default(),
        }
    }
}

impl LlmStackConfig {
    /// Sets how often a call is attempted.
    #[must_use]
    pub fn retry(mut self, retry: impl Into<Setting<RetryPolicy>>) -> Self {
        self.retry = retry.into();
        self
    }

    /// Sets how much may be sent in a minute.
    #[must_use]
    pub fn rate_limit(mut self, rate_limit: impl Into<Setting<RateLimitConfig>>) -> Self {
        self.rate_limit = rate_limit.into();
        self
    }

    /// Sets how many calls of a class run at a time.
    #[must_use]
    pub fn bulkhead(mut self, bulkhead: impl Into<Setting<BulkheadConfig>>) -> Self {
        self.bulkhead = bulkhead.into();
        self
    }

    /// Sets what stops calls to what is failing.
    #[must_use]
    pub fn breaker(mut self, breaker: impl Into<Setting<TripCard>>) -> Self {
        self.breaker = breaker.into();
        self
    }

    /// Sets what answers are held to.
    #[must_use]
    pub fn validator(mut self, validator: ValidatorConfig) -> Self {
        self.validator = validator;
        self
    }

    /// Sets how long one attempt may take.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Setting<TimeoutConfig>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets how answers are read.
    #[must_use]
    pub fn provider(mut self, provider: ProviderConfig) -> Self {
        self.provider = provider;
        self
    }

    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything, such as `retry.max_attempts`.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("retry", self.retry.as_ref().map_or(Ok(()), RetryPolicy::validate))?;
        within("rate_limit", self.rate_limit.as_ref().map_or(Ok(()), RateLimitConfig::validate))?;
        within("bulkhead", self.bulkhead.as_ref().map_or(Ok(()), BulkheadConfig::validate))?;
        within("breaker", self.breaker.as_ref().map_or(Ok(()), TripCard::validate))?;
        within("validator", self.validator.validate())?;
        within("timeout", self.timeout.as_ref().map_or(Ok(()), TimeoutConfig::validate))?;
        within("provider", self.provider.validate())
    }
}

/// An error of a part, with the part's name before its field.
pub(super) fn within(part: &str, valid: Result<(), ConfigError>) -> Result<(), ConfigError> {
    valid.map_err(|error| ConfigError::new(format!("{part}.{}", error.field()), error.problem().to_owned()))
}
