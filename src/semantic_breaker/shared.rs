//! What all services of one breaker share: which keys are not healthy, and who must be told.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tower::{BoxError, util::BoxCloneSyncService};

use super::{
    TripCard,
    plan::Plan,
    state::{Cell, Changes, Moment},
    tell::{Hooks, News, gauge},
    words::Circuit,
};
use crate::{
    call::{Call, KeyRef, Scope},
    config_error::ConfigError,
    error::{Error, Refusal, Rejected},
    keyed::{Keep, Kept, Keyed, Limits},
    lock::lock,
    verdict::Verdict,
};

pub(super) type ProbeService = BoxCloneSyncService<Call, Verdict, BoxError>;

/// A key that is not healthy keeps a cell; all others have none, and cost a counter or two to pass.
pub(super) struct Shared {
    /// What every call must know of the card, in one word.
    pub(super) plan: AtomicU64,
    /// Counts the phases of all circuits: a call is stamped with it, and a phase begins at a fresh number.
    pub(super) epoch: AtomicU64,
    pub(super) cells: [Keyed<Cell>; 4],
    pub(super) card: Mutex<Arc<TripCard>>,
    pub(super) invalid: Mutex<Option<ConfigError>>,
    pub(super) probe: Mutex<Option<ProbeService>>,
    pub(super) hooks: Mutex<Hooks>,
}

/// The caps of a circuit's map. A gateway's own fleet of targets is in the hundreds; only unhealthy keys count.
///
/// A key over them shares its tenant's state where that asks how a target is. It never does where somebody is to blame:
/// nobody is blocked for what another actor or credential did, and the target itself still refuses both.
const fn limits(circuit: Circuit) -> Limits {
    let shares = matches!(circuit, Circuit::Health | Circuit::Writes);
    Limits { per_tenant: 1_024, total: 65_536, idle: Duration::from_secs(600), shares }
}

impl Kept for Cell {
    type Rules = TripCard;

    fn keep(&self, now: Instant, card: &TripCard) -> Keep {
        if self.is_clean(now, card) {
            Keep::No
        } else if self.evictable(now) {
            Keep::WhileUsed
        } else {
            Keep::Always
        }
    }

    fn forgotten(&self) {
        gauge(self.circuit(), self.told_state(), -1.0);
    }
}

impl Shared {
    pub(super) fn new(card: TripCard) -> Self {
        let mut plan = Plan::of(&card);
        let invalid = card.validate().err();
        if let Some(error) = &invalid {
            plan = plan.invalid();
            tracing::error!(%error, "the semantic breaker refuses every call: its trip card is invalid");
        }
        Self {
            plan: AtomicU64::new(plan.bits()),
            epoch: AtomicU64::new(1),
            cells: Circuit::ALL.map(|circuit| Keyed::new(limits(circuit))),
            card: Mutex::new(Arc::new(card)),
            invalid: Mutex::new(invalid),
            probe: Mutex::default(),
            hooks: Mutex::default(),
        }
    }

    /// Whether every call is refused, whatever it is.
    #[inline]
    pub(super) fn refuses_all(&self) -> bool {
        self.plan().refuses_all()
    }

    pub(super) fn refusal_of_all(&self, call: &Call) -> Error {
        self.refuse(self.rejection_of_all(call, self.plan()))
    }

    pub(super) fn rejection_of_all(&self, call: &Call, plan: Plan) -> Rejected {
        let rejected = |refusal| Rejected::new(LAYER, refusal, Scope::GLOBAL, call);
        match lock(&self.invalid).clone() {
            Some(error) if !plan.is_killed() => rejected(Refusal::Misconfigured).with_source(error),
            _ if plan.is_killed() => rejected(Refusal::Killed),
            // Killed when it was asked whether it is ready, and revived since: the next call is asked anew.
            _ => rejected(Refusal::Killed).with_retry_at(Instant::now()),
        }
    }

    #[inline]
    pub(super) fn plan(&self) -> Plan {
        Plan::from_bits(self.plan.load(Ordering::Acquire))
    }

    pub(super) fn change_plan(&self, change: impl Fn(Plan) -> Plan) {
        let change = |bits| Some(change(Plan::from_bits(bits)).bits());
        // The closure always answers, so the update always succeeds.
        let _ = self.plan.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    pub(super) fn card(&self) -> Arc<TripCard> {
        lock(&self.card).clone()
    }

    pub(super) fn hooks(&self) -> Hooks {
        if self.plan().is_heard() { lock(&self.hooks).clone() } else { Hooks::default() }
    }

    pub(super) fn next_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(super) fn moment<'a>(&self, now: Instant, card: &'a TripCard, next: &'a mut dyn FnMut() -> u64) -> Moment<'a> {
        Moment { now, card, next }
    }

    pub(super) fn new_cell(&self, circuit: Circuit, now: Instant) -> Cell {
        Cell::new(circuit, RandomState::new().hash_one(self.epoch.load(Ordering::Relaxed)), now)
    }

    pub(super) fn refuse(&self, rejected: Rejected) -> Error {
        self.hooks().refused(&rejected);
        rejected.into()
    }

    pub(super) fn tell(&self, circuit: Circuit, call: &Call, plan: Plan, changes: &Changes) {
        if *changes == Changes::default() {
            return;
        }
        let scope = plan.scope(circuit, call);
        self.hooks().tell(&News { circuit, scope, key: KeyRef::new(call, scope).to_owned().to_string(), changes });
    }
}

/// The layer's name in refusals and metrics.
pub(super) const LAYER: &str = "semantic_breaker";
