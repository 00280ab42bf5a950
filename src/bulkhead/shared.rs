//! What all services of one bulkhead share.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    BulkheadConfig, Occupancy,
    gate::{Entered, Gate, Permit, Place},
};
use crate::{
    call::{Call, KeyRef, Scope},
    config_error::ConfigError,
    coverage::Mode,
    error::{Error, Refusal, Rejected},
    events::Listener,
    keyed::{At, Claim, Keep, Kept, Keyed, Limits},
    lock::lock,
    teller::Teller,
};

/// The layer's name in refusals and metrics.
const LAYER: &str = "bulkhead";

/// The caps of the map. Only classes with calls in progress count.
const LIMITS: Limits = Limits { per_tenant: 1_024, total: 65_536, idle: Duration::from_secs(600), shares: true };
/// While classes share a gate for want of room, idle ones are looked for not more often than this.
const TIDY_PAUSE: Duration = Duration::from_secs(1);

/// Bits of [`Shared::mode`].
const INVALID: u8 = 1;
const DRY_RUN: u8 = 2;

pub(super) struct Shared {
    gates: Keyed<Slot>,
    config: Mutex<Arc<BulkheadConfig>>,
    /// The scope of the configuration, which every call must know.
    scope: AtomicU8,
    mode: AtomicU8,
    invalid: Mutex<Option<ConfigError>>,
    tidied: Mutex<Option<Instant>>,
    teller: Teller,
}

/// A gate while it is in use: by a call that runs or waits, or by a service that remembers it.
#[derive(Default)]
struct Slot(Option<Arc<Gate>>);

impl Kept for Slot {
    type Rules = ();

    fn keep(&self, _: Instant, (): &()) -> Keep {
        // A gate is cloned only under the map's lock, or from one that is in use.
        match &self.0 {
            Some(gate) if Arc::strong_count(gate) > 1 => Keep::Always,
            _ => Keep::No,
        }
    }
}

/// What becomes of a call.
pub(super) enum Admit {
    Pass(Permit),
    Wait(Place),
    Refuse(Error),
}

impl Shared {
    pub(super) fn new(config: BulkheadConfig) -> Self {
        let invalid = config.validate().err();
        if let Some(error) = &invalid {
            tracing::error!(%error, "the bulkhead refuses every call: its configuration is invalid");
        }
        Self {
            gates: Keyed::new(LIMITS),
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

    /// `last` is the gate that the service used before: a call of the same class takes no lock that others share.
    #[inline]
    pub(super) fn admit(&self, call: &Call, last: &mut Option<Arc<Gate>>) -> Admit {
        let mode = self.mode.load(Ordering::Acquire);
        let scope = self.scope();
        let key = KeyRef::new(call, scope);
        let gate = match last {
            Some(gate) if gate.is_of(&key) => {
                if mode == 0
                    && let Some(permit) = gate.pass()
                {
                    return Admit::Pass(permit);
                }
                gate
            }
            _ => last.insert(self.gate(call, scope)),
        };
        self.admit_slowly(mode, call, scope, gate)
    }

    /// Where the class is not that of the call before, or the call may not pass at once.
    #[cold]
    fn admit_slowly(&self, mode: u8, call: &Call, scope: Scope, gate: &Arc<Gate>) -> Admit {
        if mode != 0 {
            return self.admit_oddly(mode, call, scope, gate);
        }
        match gate.enter(call.deadline_at()) {
            Entered::Free(permit) => Admit::Pass(permit),
            Entered::Queued(place) => {
                tracing::debug!(layer = LAYER, "call queued");
                metrics::counter!("belay_queued_total", "layer" => LAYER).increment(1);
                Admit::Wait(place)
            }
            Entered::Full(hint) => {
                let rejected = Rejected::new(LAYER, Refusal::BulkheadFull, scope, call).with_retry_at(hint);
                Admit::Refuse(self.teller.refuse(rejected))
            }
        }
    }

    fn admit_oddly(&self, mode: u8, call: &Call, scope: Scope, gate: &Arc<Gate>) -> Admit {
        let invalid = lock(&self.invalid)
            .clone()
            .map(|error| Rejected::new(LAYER, Refusal::Misconfigured, scope, call).with_source(error));
        match invalid {
            Some(rejected) if mode & DRY_RUN == 0 => return Admit::Refuse(self.teller.refuse(rejected)),
            Some(rejected) => {
                self.teller.would_refuse(&rejected);
                return Admit::Pass(gate.enter_anyway().0);
            }
            None => {}
        }
        let (permit, would_refuse) = gate.enter_anyway();
        if would_refuse {
            self.teller.would_refuse(&Rejected::new(LAYER, Refusal::BulkheadFull, scope, call));
        }
        Admit::Pass(permit)
    }

    pub(super) fn waited_too_long(&self, call: &Call) -> Error {
        self.teller.refuse(Rejected::new(LAYER, Refusal::BulkheadWait, self.scope(), call))
    }

    /// The gate of the call's class, made where there is none.
    #[cold]
    fn gate(&self, call: &Call, scope: Scope) -> Arc<Gate> {
        let at = At { now: Instant::now(), rules: &() };
        let key = KeyRef::new(call, scope);
        let make = || {
            let made = self.gates.make(call, scope, Claim::Call, &at, Slot::default, |slot| {
                // Read while the map holds the slot: an update comes either before, or visits the slot afterwards.
                let new = || Arc::new(Gate::new(&key, call, &self.config()));
                slot.0.get_or_insert_with(new).clone()
            });
            made.expect("a class without room shares its parent's gate")
        };
        let mut gate = make();
        if !gate.is_of(&key) && self.may_tidy(at.now) {
            // Given up first: if nobody else uses it, it is among what goes.
            drop(gate);
            self.gates.visit(&at, |_, _| {});
            gate = make();
        }
        if !gate.is_of(&key) {
            gate.share(&self.config());
        }
        gate
    }

    /// Whether it is time to look for gates that nobody uses, so that classes need not share one.
    fn may_tidy(&self, now: Instant) -> bool {
        let mut tidied = lock(&self.tidied);
        let may = tidied.is_none_or(|last| now.saturating_duration_since(last) >= TIDY_PAUSE);
        if may {
            *tidied = Some(now);
        }
        may
    }

    // === steering ===

    pub(super) fn config(&self) -> Arc<BulkheadConfig> {
        lock(&self.config).clone()
    }

    pub(super) fn update(&self, config: BulkheadConfig) -> Result<(), ConfigError> {
        config.validate()?;
        let config = Arc::new(config);
        {
            // Scope and mode change with the configuration, or two updates at once could mix.
            let mut current = lock(&self.config);
            *current = config.clone();
            self.scope.store(config.scope.bits(), Ordering::Release);
            *lock(&self.invalid) = None;
            self.mode.fetch_and(!INVALID, Ordering::AcqRel);
        }
        let mut gates = Vec::new();
        let at = At { now: Instant::now(), rules: &() };
        self.gates.visit(&at, |_, slot| gates.extend(slot.0.clone()));
        // The newest there is, should another update have come in between.
        let config = self.config();
        gates.iter().for_each(|gate| gate.configure(&config));
        Ok(())
    }

    pub(super) fn set_dry_run(&self) {
        self.mode.fetch_or(DRY_RUN, Ordering::AcqRel);
    }

    pub(super) fn listen(&self, listener: impl Listener) {
        self.teller.listen(listener);
    }

    pub(super) fn occupancy(&self, call: &Call) -> Occupancy {
        let at = At { now: Instant::now(), rules: &() };
        let gate = self.gates.look(call, self.scope(), &at, |slot| slot.0.clone());
        gate.map(|gate| Occupancy::of(&gate)).unwrap_or_default()
    }

    pub(super) fn all(&self) -> Vec<(String, Occupancy)> {
        let at = At { now: Instant::now(), rules: &() };
        let mut all = Vec::new();
        self.gates.visit(&at, |key, slot| {
            let occupancy = slot.0.as_deref().map(Occupancy::of).unwrap_or_default();
            if occupancy != Occupancy::default() {
                all.push((key.to_string(), occupancy));
            }
        });
        all
    }

    pub(super) fn mode(&self) -> Mode {
        let bits = self.mode.load(Ordering::Acquire);
        match () {
            () if bits & INVALID != 0 => Mode::Misconfigured,
            () if bits & DRY_RUN != 0 => Mode::DryRun,
            () if *self.config() == BulkheadConfig::off() => Mode::Off,
            () => Mode::Enforcing,
        }
    }

    #[inline]
    fn scope(&self) -> Scope {
        Scope::from_bits(self.scope.load(Ordering::Acquire))
    }
}
