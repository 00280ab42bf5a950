//! What all services of one layer share: the rate of every key.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    LAYER, Left, RateLimitConfig,
    limiter::{Limiter, Share},
};
use crate::{
    call::{Call, Name},
    config_error::ConfigError,
    coverage::Mode,
    error::{Error, Refusal, Rejected},
    keyed::{At, Claim, Keep, Kept, Keyed, Limits},
    lock::lock,
    teller::Teller,
};

const LIMITS: Limits = Limits { per_tenant: 1_024, total: 65_536, idle: Duration::from_secs(600), shares: true };

pub(super) struct Shared {
    limiters: Keyed<Slot>,
    config: Mutex<Arc<RateLimitConfig>>,
    invalid: Mutex<Option<ConfigError>>,
    dry_run: AtomicBool,
    pub(super) teller: Teller,
}

/// A rate, and the model that it is of.
struct Slot(Arc<Limiter>, Option<Box<str>>);

impl Kept for Slot {
    type Rules = ();

    fn keep(&self, now: Instant, (): &()) -> Keep {
        match () {
            // A limiter is cloned only under the map's lock, or from one that is in use.
            () if Arc::strong_count(&self.0) > 1 => Keep::Always,
            () if self.0.is_full(now) => Keep::No,
            () => Keep::Always,
        }
    }
}

/// When a call may be sent.
pub(super) enum Admit {
    Now(Share),
    At(Share, Instant),
    Refuse(Error),
}

impl Shared {
    pub(super) fn new(config: RateLimitConfig) -> Self {
        let invalid = config.validate().err();
        if let Some(error) = &invalid {
            tracing::error!(%error, "every call is refused: the rate limit's configuration is invalid");
        }
        Self {
            limiters: Keyed::new(LIMITS),
            config: Mutex::new(Arc::new(config)),
            invalid: Mutex::new(invalid),
            dry_run: AtomicBool::new(false),
            teller: Teller::new(LAYER),
        }
    }

    pub(super) fn set_dry_run(&self) {
        self.dry_run.store(true, Ordering::Release);
    }

    pub(super) fn config(&self) -> Arc<RateLimitConfig> {
        lock(&self.config).clone()
    }

    pub(super) fn mode(&self) -> Mode {
        match () {
            () if lock(&self.invalid).is_some() => Mode::Misconfigured,
            () if self.dry_run.load(Ordering::Acquire) => Mode::DryRun,
            () => Mode::Enforcing,
        }
    }

    pub(super) fn is_invalid(&self) -> bool {
        lock(&self.invalid).is_some()
    }

    /// Takes what `call` is expected to use.
    pub(super) fn admit(&self, call: &Call) -> Admit {
        let config = self.config();
        if let Some(invalid) = lock(&self.invalid).clone() {
            let rejected = Rejected::new(LAYER, Refusal::Misconfigured, config.scope, call).with_source(invalid);
            return Admit::Refuse(self.teller.refuse(rejected));
        }
        let now = Instant::now();
        let limiter = self.limiter(call, &config, now);
        let (share, at) = limiter.take(call.estimated_tokens().unwrap_or(config.default_estimate), now);
        if at <= now {
            return Admit::Now(share);
        }
        if at <= latest(call, &config, now) {
            return if self.dry_run.load(Ordering::Acquire) { Admit::Now(share) } else { Admit::At(share, at) };
        }
        let rejected = Rejected::new(LAYER, Refusal::RateLimit, config.scope, call).with_retry_at(at);
        if self.dry_run.load(Ordering::Acquire) {
            self.teller.would_refuse(&rejected);
            return Admit::Now(share);
        }
        // Its place is free for those who wait for less.
        share.give_back();
        Admit::Refuse(self.teller.refuse(rejected))
    }

    /// A call that has waited for its turn: whether the other side asked for more patience meanwhile.
    pub(super) fn again(&self, call: &Call, since: Instant, share: Share) -> Admit {
        let now = Instant::now();
        let Some(gate) = share.limiter().gate(now) else { return Admit::Now(share) };
        let config = self.config();
        if gate <= latest(call, &config, since) {
            return Admit::At(share, gate);
        }
        share.give_back();
        let rejected = Rejected::new(LAYER, Refusal::RateLimit, config.scope, call).with_retry_at(gate);
        Admit::Refuse(self.teller.refuse(rejected))
    }

    fn limiter(&self, call: &Call, config: &RateLimitConfig, now: Instant) -> Arc<Limiter> {
        let at = At { now, rules: &() };
        let model = call.name(Name::Operation);
        let new = || Slot(Arc::new(Limiter::new(config.rates(model), now)), model.map(Into::into));
        let made = self.limiters.make(call, config.scope, Claim::Call, &at, new, |slot| slot.0.clone());
        made.unwrap_or_else(|| Arc::new(Limiter::new(config.rates(None), now)))
    }

    pub(super) fn left(&self, call: &Call) -> Left {
        let (config, now) = (self.config(), Instant::now());
        let at = At { now, rules: &() };
        let known = self.limiters.look(call, config.scope, &at, |slot| Some(slot.0.left(now)));
        known.unwrap_or_else(|| Limiter::new(config.rates(call.name(Name::Operation)), now).left(now))
    }

    pub(super) fn update(&self, config: RateLimitConfig) -> Result<(), ConfigError> {
        config.validate()?;
        let config = Arc::new(config);
        *lock(&self.config) = config.clone();
        *lock(&self.invalid) = None;
        let now = Instant::now();
        self.limiters.visit(&At { now, rules: &() }, |_, slot| slot.0.configure(config.rates(slot.1.as_deref()), now));
        Ok(())
    }
}

/// Until when a call may wait that came at `since`.
fn latest(call: &Call, config: &RateLimitConfig, since: Instant) -> Instant {
    let own = since.checked_add(config.max_wait).unwrap_or(since);
    call.deadline_at().map_or(own, |deadline| deadline.min(own))
}
