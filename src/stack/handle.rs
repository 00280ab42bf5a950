//! Reads and changes a stack from outside.

use super::{LlmStackConfig, Setting, config::within};
use crate::{
    bulkhead::BulkheadHandle, config_error::ConfigError, coverage::Coverage, rate_limit::RateLimitHandle,
    semantic_breaker::BreakerHandle,
};

/// Reads and changes what all services of one [`LlmStack`](super::LlmStack) share.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LlmHandle {
    pub(super) breaker: Option<BreakerHandle>,
    pub(super) rate_limit: Option<RateLimitHandle>,
    pub(super) bulkhead: Option<BulkheadHandle>,
    pub(super) coverage: Coverage,
}

impl LlmHandle {
    /// The breaker, if there is one.
    pub const fn breaker(&self) -> Option<&BreakerHandle> {
        self.breaker.as_ref()
    }

    /// The bulkhead, if there is one.
    pub const fn bulkhead(&self) -> Option<&BulkheadHandle> {
        self.bulkhead.as_ref()
    }

    /// The rate limit, if there is one.
    pub const fn rate_limit(&self) -> Option<&RateLimitHandle> {
        self.rate_limit.as_ref()
    }

    /// What guards the calls, as the stack was made.
    pub const fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Replaces the configuration of the breaker, the bulkhead and the rate limit, and keeps their state. The other
    /// parts stay as they are.
    ///
    /// # Errors
    /// Names a field with an impossible value, or a part that the stack was made with and is now off, or the other way
    /// round; nothing is changed then.
    pub fn update(&self, config: &LlmStackConfig) -> Result<(), ConfigError> {
        config.validate()?;
        stays("rate_limit", self.rate_limit.is_some(), &config.rate_limit)?;
        stays("bulkhead", self.bulkhead.is_some(), &config.bulkhead)?;
        stays("breaker", self.breaker.is_some(), &config.breaker)?;
        if let (Some(handle), Setting::On(config)) = (&self.rate_limit, &config.rate_limit) {
            within("rate_limit", handle.update(config.clone()))?;
        }
        if let (Some(handle), Setting::On(config)) = (&self.bulkhead, &config.bulkhead) {
            within("bulkhead", handle.update(config.clone()))?;
        }
        if let (Some(handle), Setting::On(card)) = (&self.breaker, &config.breaker) {
            within("breaker", handle.update(card.clone()))?;
        }
        Ok(())
    }
}

fn stays<T>(part: &'static str, is_there: bool, setting: &Setting<T>) -> Result<(), ConfigError> {
    match (is_there, setting.as_ref().is_some()) {
        (true, false) => Err(ConfigError::new(part, "cannot be taken out of a stack that is in use")),
        (false, true) => Err(ConfigError::new(part, "cannot be put into a stack that is in use")),
        _ => Ok(()),
    }
}
