//! What makes a breaker open, and how it recovers: [`TripCard`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    rows::{
        Cost, CredentialRule, Denials, FailureRate, Failures, Malformed, Quality, RateLimits, SlowCalls, UnknownWrites,
    },
    words::Circuit,
};
use crate::{call::Scope, config_error::ConfigError, reason::Reason};

/// What makes a breaker open, and how it recovers.
///
/// The defaults are those of the trip card this crate was designed after: initial controls, not universal
/// benchmarks. Each row can be switched off: `TripCard::default().denials(Denials::off())`. Fields are public, so that a
/// single one is set in place, and serde reads a card from a configuration, with [durations for people](crate::human):
///
/// ```
/// use std::time::Duration;
/// use tower_belay::{SemanticBreakerLayer, TripCard};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut card = TripCard::default().cool_down(Duration::from_secs(120));
/// card.failures.count = 3;
///
/// let read: TripCard = toml::from_str("cool_down = '2m'\nfailures = { count = 3 }")?;
/// assert_eq!(read, card);
///
/// // What is misspelt does not parse; what is impossible is refused by its name.
/// assert!(toml::from_str::<TripCard>("cooldown = '2m'").is_err());
/// card.failures.window = 2;
/// let error = SemanticBreakerLayer::try_new(card).unwrap_err();
/// assert_eq!(error.field(), "failures.count");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TripCard {
    /// Definite failures: 5 in the last 20 attempts.
    pub failures: Failures,
    /// Malformed answers: 5 in the last 20 attempts, counted apart.
    pub malformed: Malformed,
    /// Slow calls: off.
    pub slow_calls: SlowCalls,
    /// Quality score: off.
    pub quality: Quality,
    /// Cost: off.
    pub cost: Cost,
    /// Unknown writes: 2 not reconciled within 1 h.
    pub unknown_writes: UnknownWrites,
    /// Denials: 3 in 5 min.
    pub denials: Denials,
    /// Rate limits: 3 in 60 s pause; a single one gates.
    pub rate_limits: RateLimits,
    /// Credential: 1.
    pub credential: CredentialRule,
    /// What shares failures, malformed answers, slow calls, quality and cost. Default target and operation.
    pub health_scope: Scope,
    /// What shares unknown writes. Default target.
    pub writes_scope: Scope,
    /// Who is blocked for denials. Default actor.
    pub denials_scope: Scope,
    /// What shares rate limits and credential failures. Default target and credential.
    pub credential_scope: Scope,
    /// How long a circuit stays open the first time. Default 10 min.
    #[serde(with = "crate::human")]
    pub cool_down: Duration,
    /// The cap of the cool-down, which doubles on each failed recovery. Default 1 h.
    #[serde(with = "crate::human")]
    pub max_cool_down: Duration,
    /// How much of a grown cool-down is added to it at most, 0 to 1. Default 0.1.
    pub jitter: f64,
    /// How many consecutive verified successes end half-open. Default 4.
    pub probes: u32,
    /// How long a probe without a deadline holds its slot. Default 5 min.
    #[serde(with = "crate::human")]
    pub probe_lease: Duration,
    /// Whether calls above `ReadOnly` may be probes: real writes as diagnostic traffic. Default false.
    pub live_probes: bool,
    /// How long traffic is reduced after half-open; zero closes at once. Default 15 min.
    #[serde(with = "crate::human")]
    pub ramp: Duration,
    /// The share of calls admitted when the ramp begins, above 0 and at most 1. Default 0.1.
    pub start_share: f64,
    /// A call given up after this long without an answer is a failure; before, it says nothing. Default 60 s.
    #[serde(with = "crate::human")]
    pub hung_after: Duration,
}

impl Default for TripCard {
    fn default() -> Self {
        Self {
            failures: Failures::default(),
            malformed: Malformed::default(),
            slow_calls: SlowCalls::default(),
            quality: Quality::default(),
            cost: Cost::default(),
            unknown_writes: UnknownWrites::default(),
            denials: Denials::default(),
            rate_limits: RateLimits::default(),
            credential: CredentialRule::default(),
            health_scope: Scope::TARGET | Scope::OPERATION,
            writes_scope: Scope::TARGET,
            denials_scope: Scope::ACTOR,
            credential_scope: Scope::TARGET | Scope::CREDENTIAL,
            cool_down: Duration::from_secs(600),
            max_cool_down: Duration::from_secs(3_600),
            jitter: 0.1,
            probes: 4,
            probe_lease: Duration::from_secs(300),
            live_probes: false,
            ramp: Duration::from_secs(900),
            start_share: 0.1,
            hung_after: Duration::from_secs(60),
        }
    }
}

macro_rules! setters {
    ($($field:ident: $type:ty, $doc:literal;)*) => {
        impl TripCard {
            $(#[doc = $doc]
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

setters! {
    failures: Failures, "Sets the row of definite failures.";
    malformed: Malformed, "Sets the row of malformed answers.";
    slow_calls: SlowCalls, "Sets the row of slow calls.";
    quality: Quality, "Sets the row of the quality score.";
    cost: Cost, "Sets the row of the cost.";
    unknown_writes: UnknownWrites, "Sets the row of unknown writes.";
    denials: Denials, "Sets the row of denials.";
    rate_limits: RateLimits, "Sets the row of rate limits.";
    credential: CredentialRule, "Sets the row of credential failures.";
    health_scope: Scope, "Sets what shares failures, malformed answers, slow calls, quality and cost.";
    writes_scope: Scope, "Sets what shares unknown writes.";
    denials_scope: Scope, "Sets who is blocked for denials.";
    credential_scope: Scope, "Sets what shares rate limits and credential failures.";
    cool_down: Duration, "Sets how long a circuit stays open the first time.";
    max_cool_down: Duration, "Sets the cap of the growing cool-down.";
    jitter: f64, "Sets how much of a grown cool-down is added to it at most, 0 to 1.";
    probes: u32, "Sets how many consecutive verified successes end half-open.";
    probe_lease: Duration, "Sets how long a probe without a deadline holds its slot.";
    live_probes: bool, "Sets whether calls above `ReadOnly` may be probes.";
    ramp: Duration, "Sets how long traffic is reduced after half-open.";
    start_share: f64, "Sets the share of calls admitted when the ramp begins.";
    hung_after: Duration, "Sets after how long without an answer a call given up is a failure.";
}

const MAX_WINDOW: u32 = 1_024;
const MAX_UNKNOWN: u32 = 256;

impl TripCard {
    /// The scope of `circuit`.
    pub fn scope(&self, circuit: Circuit) -> Scope {
        match circuit {
            Circuit::Health => self.health_scope,
            Circuit::Writes => self.writes_scope,
            Circuit::Denials => self.denials_scope,
            Circuit::Credential => self.credential_scope,
        }
    }

    /// Why a call ended that its caller gave up after it had `waited` so long without an answer.
    pub(crate) fn abandoned(&self, waited: Duration) -> Reason {
        if waited >= self.hung_after { Reason::Hung } else { Reason::Abandoned }
    }

    /// No rule is in force; operators can still stop calls.
    pub fn off() -> Self {
        Self {
            failures: Failures::off(),
            malformed: Malformed::off(),
            slow_calls: SlowCalls::off(),
            quality: Quality::off(),
            cost: Cost::off(),
            unknown_writes: UnknownWrites::off(),
            denials: Denials::off(),
            rate_limits: RateLimits::off(),
            credential: CredentialRule::off(),
            ..Self::default()
        }
    }

    pub(super) const fn is_off(&self) -> bool {
        let health = self.failures.enabled || self.malformed.enabled || self.slow_calls.enabled;
        let averages = self.quality.enabled || self.cost.enabled;
        let others = self.unknown_writes.enabled || self.denials.enabled || self.rate_limits.enabled;
        !(health || averages || others || self.credential.enabled)
    }

    /// Says which setting is impossible, if one is. Rows that are off are not looked at.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let failures = &self.failures;
        match &failures.rate {
            Some(rate) if failures.enabled => check_rate(rate)?,
            None if failures.enabled => check_window("failures", failures.count, failures.window)?,
            _ => {}
        }
        if self.malformed.enabled {
            check_window("malformed", self.malformed.count, self.malformed.window)?;
        }
        if self.slow_calls.enabled {
            check_window("slow_calls", self.slow_calls.count, self.slow_calls.window)?;
            positive("slow_calls.threshold", self.slow_calls.threshold)?;
        }
        if self.quality.enabled {
            check_average("quality", "floor", self.quality.floor, self.quality.span, self.quality.min_sample)?;
        }
        if self.cost.enabled {
            check_average("cost", "ceiling", self.cost.ceiling, self.cost.span, self.cost.min_sample)?;
        }
        if self.unknown_writes.enabled {
            check_count("unknown_writes.count", self.unknown_writes.count, MAX_UNKNOWN)?;
            positive("unknown_writes.within", self.unknown_writes.within)?;
        }
        if self.denials.enabled {
            check_count("denials.count", self.denials.count, MAX_WINDOW)?;
            positive("denials.within", self.denials.within)?;
        }
        if self.rate_limits.enabled {
            self.check_rate_limits()?;
        }
        self.check_recovery()
    }

    fn check_rate_limits(&self) -> Result<(), ConfigError> {
        let row = &self.rate_limits;
        check_count("rate_limits.count", row.count, MAX_WINDOW)?;
        positive("rate_limits.within", row.within)?;
        positive("rate_limits.first_hold", row.first_hold)?;
        positive("rate_limits.pause", row.pause)?;
        if row.max_hold < row.first_hold {
            return Err(ConfigError::new("rate_limits.max_hold", "must not be shorter than `first_hold`"));
        }
        Ok(())
    }

    fn check_recovery(&self) -> Result<(), ConfigError> {
        positive("cool_down", self.cool_down)?;
        if self.max_cool_down < self.cool_down {
            return Err(ConfigError::new("max_cool_down", "must not be shorter than `cool_down`"));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(ConfigError::new("jitter", "must be between 0 and 1"));
        }
        check_count("probes", self.probes, u32::MAX)?;
        positive("probe_lease", self.probe_lease)?;
        // A share of one millionth is the smallest that the ramp can count.
        if !(0.000_001..=1.0).contains(&self.start_share) {
            return Err(ConfigError::new("start_share", "must be above 0 and at most 1"));
        }
        positive("hung_after", self.hung_after)
    }
}

fn check_rate(rate: &FailureRate) -> Result<(), ConfigError> {
    if !(rate.share > 0.0 && rate.share <= 1.0) {
        return Err(ConfigError::new("failures.rate.share", "must be above 0 and at most 1"));
    }
    positive("failures.rate.within", rate.within)?;
    check_count("failures.rate.min_sample", rate.min_sample, u32::MAX)
}

fn check_window(row: &str, count: u32, window: u32) -> Result<(), ConfigError> {
    check_count(format!("{row}.window"), window, MAX_WINDOW)?;
    check_count(format!("{row}.count"), count, u32::MAX)?;
    if count > window {
        return Err(ConfigError::new(
            format!("{row}.count"),
            "is more than the window holds, so it can never be reached",
        ));
    }
    Ok(())
}

fn check_average(row: &str, limit: &str, value: f64, span: u32, min_sample: u32) -> Result<(), ConfigError> {
    if !value.is_finite() {
        return Err(ConfigError::new(format!("{row}.{limit}"), "must be a finite number"));
    }
    check_count(format!("{row}.span"), span, u32::MAX)?;
    check_count(format!("{row}.min_sample"), min_sample, u32::MAX)
}

fn check_count(field: impl Into<std::borrow::Cow<'static, str>>, count: u32, max: u32) -> Result<(), ConfigError> {
    match count {
        0 => Err(ConfigError::new(field, "must be at least 1")),
        count if count > max => Err(ConfigError::new(field, format!("must be at most {max}"))),
        _ => Ok(()),
    }
}

fn positive(field: &'static str, duration: Duration) -> Result<(), ConfigError> {
    if duration.is_zero() { Err(ConfigError::new(field, "must be longer than zero")) } else { Ok(()) }
}
