//! What all services of one layer share: the rate of every key.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    LAYER, Left, RateLimitConfig,
    limiter::{Entered, Limiter, Place, Share},
};
use crate::{
    call::{Call, KeyRef, Scope},
    config_error::ConfigError,
    coverage::Mode,
    error::{Error, Refusal, Rejected},
    keyed::{At, Claim, Keep, Kept, Keyed, Limits},
    lock::lock,
    teller::Teller,
};

/// The caps of the map. Only rates of which something is spent count.
const LIMITS: Limits = Limits { per_tenant: 1_024, total: 65_536, idle: Duration::from_secs(600), shares: true };
/// While keys share a rate for want of room, full ones are looked for not more often than this.
const TIDY_PAUSE: Duration = Duration::from_secs(1);

/// Bits of [`Shared::mode`].
const INVALID: u8 = 1;
const DRY_RUN: u8 = 2;

pub(super) struct Shared {
    limiters: Keyed<Slot>,
    config: Mutex<Arc<RateLimitConfig>>,
    /// The scope of the configuration, which every call must know.
    scope: AtomicU8,
    mode: AtomicU8,
    invalid: Mutex<Option<ConfigError>>,
    tidied: Mutex<Option<Instant>>,
    pub(super) teller: Teller,
}

/// A rate, once it was asked for.
#[derive(Default)]
struct Slot(Option<Arc<Limiter>>);

impl Kept for Slot {
    type Rules = ();

    fn keep(&self, now: Instant, (): &()) -> Keep {
        match &self.0 {
            // A limiter is cloned only under the map's lock, or from one that is in use.
            Some(limiter) if Arc::strong_count(limiter) > 1 => Keep::Always,
            // Forgotten earlier, it would be full at once.
            Some(limiter) if !limiter.is_full(now) => Keep::Always,
            _ => Keep::No,
        }
    }
}

/// When a call may be sent.
pub(super) enum Admit {
    Now(Share),
    Wait(Place),
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
            scope: AtomicU8::new(config.scope.bits()),
            mode: AtomicU8::new(if invalid.is_some() { INVALID } else { 0 }),
            config: Mutex::new(Arc::new(config)),
            invalid: Mutex::new(invalid),
            tidied: Mutex::default(),
            teller: Teller::new(LAYER),
        }
    }

    // === calls ===

    /// Whether every call is refused, whatever it is.
    #[inline]
    pub(super) fn refuses_all(&self) -> bool {
        self.mode.load(Ordering::Acquire) == INVALID
    }

    /// Takes what `call` is expected to use. `last` is the rate that the service used before: a call of the same key
    /// takes no lock that others share.
    #[inline]
    pub(super) fn admit(&self, call: &Call, last: &mut Option<Arc<Limiter>>) -> Admit {
        let mode = self.mode.load(Ordering::Acquire);
        let scope = self.scope();
        let key = KeyRef::new(call, scope);
        let limiter = match last {
            Some(limiter) if limiter.is_of(&key) => limiter,
            _ => last.insert(self.limiter(call, scope)),
        };
        if mode != 0 {
            return self.admit_oddly(mode, call, scope, limiter);
        }
        match limiter.enter(call) {
            Entered::Free(share) => Admit::Now(share),
            Entered::Queued(place) => {
                tracing::debug!(layer = LAYER, "call queued");
                metrics::counter!("belay_queued_total", "layer" => LAYER).increment(1);
                Admit::Wait(place)
            }
            Entered::TooLate(at) => {
                let rejected = Rejected::new(LAYER, Refusal::RateLimit, scope, call).with_retry_at(at);
                Admit::Refuse(self.teller.refuse(rejected))
            }
        }
    }

    #[cold]
    fn admit_oddly(&self, mode: u8, call: &Call, scope: Scope, limiter: &Arc<Limiter>) -> Admit {
        let invalid = lock(&self.invalid)
            .clone()
            .map(|error| Rejected::new(LAYER, Refusal::Misconfigured, scope, call).with_source(error));
        let (share, late) = match invalid {
            Some(rejected) if mode & DRY_RUN == 0 => return Admit::Refuse(self.teller.refuse(rejected)),
            Some(rejected) => {
                self.teller.would_refuse(&rejected);
                (limiter.enter_anyway(call).0, None)
            }
            None => limiter.enter_anyway(call),
        };
        if let Some(at) = late {
            self.teller.would_refuse(&Rejected::new(LAYER, Refusal::RateLimit, scope, call).with_retry_at(at));
        }
        Admit::Now(share)
    }

    /// A call has waited as long as it may.
    pub(super) fn waited_too_long(&self, call: &Call, place: &Place) -> Error {
        let rejected = Rejected::new(LAYER, Refusal::RateLimit, self.scope(), call);
        self.teller.refuse(rejected.with_retry_at(place.forecast()))
    }

    /// The rate of the call's key, made where there is none.
    fn limiter(&self, call: &Call, scope: Scope) -> Arc<Limiter> {
        let at = At { now: Instant::now(), rules: &() };
        let key = KeyRef::new(call, scope);
        let make = || {
            let made = self.limiters.make(call, scope, Claim::Call, &at, Slot::default, |slot| {
                // Read while the map holds the slot: an update comes either before, or visits the slot afterwards.
                let new = || Arc::new(Limiter::new(&key, call, &self.config(), at.now));
                slot.0.get_or_insert_with(new).clone()
            });
            made.expect("a key without room shares its parent's rate")
        };
        let mut limiter = make();
        if !limiter.is_of(&key) && self.may_tidy(at.now) {
            // Given up first: if nobody else uses it, it is among what goes.
            drop(limiter);
            self.limiters.visit(&at, |_, _| {});
            limiter = make();
        }
        if !limiter.is_of(&key) {
            limiter.become_shared(&self.config());
        }
        limiter
    }

    /// Whether it is time to look for rates of which nothing is spent, so that keys need not share one.
    fn may_tidy(&self, now: Instant) -> bool {
        let mut tidied = lock(&self.tidied);
        let may = tidied.is_none_or(|last| now.saturating_duration_since(last) >= TIDY_PAUSE);
        if may {
            *tidied = Some(now);
        }
        may
    }

    // === steering ===

    pub(super) fn set_dry_run(&self) {
        self.mode.fetch_or(DRY_RUN, Ordering::AcqRel);
    }

    pub(super) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::Enforcing,
            DRY_RUN => Mode::DryRun,
            _ => Mode::Misconfigured,
        }
    }

    pub(super) fn config(&self) -> Arc<RateLimitConfig> {
        lock(&self.config).clone()
    }

    pub(super) fn left(&self, call: &Call) -> Left {
        let (now, scope) = (Instant::now(), self.scope());
        let at = At { now, rules: &() };
        let known = self.limiters.look(call, scope, &at, |slot| slot.0.as_deref().map(|limiter| limiter.left(now)));
        known.unwrap_or_else(|| Limiter::new(&KeyRef::new(call, scope), call, &self.config(), now).left(now))
    }

    pub(super) fn all(&self) -> Vec<(String, Left)> {
        let now = Instant::now();
        let mut all = Vec::new();
        self.limiters.visit(&At { now, rules: &() }, |key, slot| {
            if let Some(limiter) = slot.0.as_deref().filter(|limiter| !limiter.is_full(now)) {
                all.push((key.to_string(), limiter.left(now)));
            }
        });
        all
    }

    pub(super) fn reset(&self, call: &Call) {
        let at = At { now: Instant::now(), rules: &() };
        // Whoever waits is woken outside of the map's lock.
        let limiter = self.limiters.look(call, self.scope(), &at, |slot| slot.0.clone());
        limiter.iter().for_each(|limiter| limiter.reset());
    }

    pub(super) fn update(&self, config: RateLimitConfig) -> Result<(), ConfigError> {
        config.validate()?;
        {
            // Scope and mode change with the configuration, or two updates at once could mix.
            let mut current = lock(&self.config);
            self.scope.store(config.scope.bits(), Ordering::Release);
            *current = Arc::new(config);
            *lock(&self.invalid) = None;
            self.mode.fetch_and(!INVALID, Ordering::AcqRel);
        }
        let mut limiters = Vec::new();
        self.limiters.visit(&At { now: Instant::now(), rules: &() }, |_, slot| limiters.extend(slot.0.clone()));
        // The newest there is, should another update have come in between.
        let config = self.config();
        limiters.iter().for_each(|limiter| limiter.configure(&config));
        Ok(())
    }

    fn scope(&self) -> Scope {
        Scope::from_bits(self.scope.load(Ordering::Acquire))
    }
}
