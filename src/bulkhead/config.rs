//! How many calls of a class may run and wait: [`BulkheadConfig`].

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{call::Scope, config_error::ConfigError};

/// How many calls of one agent class may run at a time, how many may wait, and for how long.
///
/// The defaults of the two counts are those of `@Bulkhead` in MicroProfile Fault Tolerance; that of the wait is the
/// `connectionTimeout` of the HikariCP pool. They are initial controls: a provider's own limits are the better source.
///
/// ```
/// # use std::time::Duration;
/// # use tower_belay::bulkhead::{BulkheadConfig, ClassLimits};
/// let config: BulkheadConfig = toml::from_str(r#"
///     max_concurrent = 8
///     max_wait = "20s"
///     [classes.summarizer]
///     max_concurrent = 2
/// "#).unwrap();
/// assert_eq!(config.max_queued, 10);
/// let same = BulkheadConfig::default().max_concurrent(8).max_wait(Duration::from_secs(20));
/// assert_eq!(config, same.class("summarizer", ClassLimits::default().max_concurrent(2)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BulkheadConfig {
    /// How many calls of a class may run at a time. Default 10.
    pub max_concurrent: u32,
    /// How many more may wait for one of them to end; 0 refuses at once. Default 10.
    pub max_queued: u32,
    /// How long a call may wait, if its deadline is not sooner. Default 30 s.
    #[serde(with = "crate::human")]
    pub max_wait: Duration,
    /// Which calls are of one class. Default agent: the classes of each tenant are its own.
    pub scope: Scope,
    /// What is different for the agent classes named here. Default none.
    pub classes: BTreeMap<String, ClassLimits>,
}

/// What is different for one agent class. What is not set is as for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ClassLimits {
    /// How many calls of this class may run at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// How many more may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u32>,
    /// How long a call may wait.
    #[serde(with = "crate::human::option", skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
}

/// The limits of one class, with nothing left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) max_concurrent: u32,
    pub(super) max_queued: u32,
    pub(super) max_wait: Duration,
}

impl Default for BulkheadConfig {
    fn default() -> Self {
        Self {
            max_concurrent: 10,
            max_queued: 10,
            max_wait: Duration::from_secs(30),
            scope: Scope::AGENT,
            classes: BTreeMap::new(),
        }
    }
}

impl BulkheadConfig {
    /// Limits nothing; calls are still counted.
    pub fn off() -> Self {
        Self { max_concurrent: u32::MAX, ..Self::default() }
    }

    /// Sets how many calls of a class may run at a time.
    #[must_use]
    pub const fn max_concurrent(mut self, calls: u32) -> Self {
        self.max_concurrent = calls;
        self
    }

    /// Sets how many more may wait for one of them to end.
    #[must_use]
    pub const fn max_queued(mut self, calls: u32) -> Self {
        self.max_queued = calls;
        self
    }

    /// Sets how long a call may wait.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Sets which calls are of one class.
    #[must_use]
    pub const fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets what is different for the agent class `name`.
    #[must_use]
    pub fn class(mut self, name: impl Into<String>, limits: ClassLimits) -> Self {
        self.classes.insert(name.into(), limits);
        self
    }

    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check("", self.limits(None))?;
        if !self.classes.is_empty() && !self.scope.contains(Scope::AGENT) {
            return Err(ConfigError::new("classes", "are named by agent, which is no part of `scope`"));
        }
        self.classes.keys().try_for_each(|name| check(&format!("classes.{name}."), self.limits(Some(name))))
    }

    pub(super) fn limits(&self, class: Option<&str>) -> Limits {
        let own = class.and_then(|class| self.classes.get(class)).copied().unwrap_or_default();
        Limits {
            max_concurrent: own.max_concurrent.unwrap_or(self.max_concurrent),
            max_queued: own.max_queued.unwrap_or(self.max_queued),
            max_wait: own.max_wait.unwrap_or(self.max_wait),
        }
    }
}

impl ClassLimits {
    /// Sets how many calls of this class may run at a time.
    #[must_use]
    pub const fn max_concurrent(mut self, calls: u32) -> Self {
        self.max_concurrent = Some(calls);
        self
    }

    /// Sets how many more may wait.
    #[must_use]
    pub const fn max_queued(mut self, calls: u32) -> Self {
        self.max_queued = Some(calls);
        self
    }

    /// Sets how long a call may wait.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Some(wait);
        self
    }
}

fn check(path: &str, limits: Limits) -> Result<(), ConfigError> {
    if limits.max_concurrent == 0 {
        return Err(ConfigError::new(format!("{path}max_concurrent"), "must be at least 1"));
    }
    if limits.max_wait.is_zero() && limits.max_queued > 0 {
        return Err(ConfigError::new(format!("{path}max_wait"), "must be longer than zero, or `max_queued` 0"));
    }
    Ok(())
}
