//! What all services of one budget share.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::time::Instant;

use super::{
    LAYER,
    account::{Account, Path},
    amount::Level,
    config::Budget,
    ledger::Ledger,
    need::Settlement,
    signal::{Signal, SignalKind},
    state::State,
};
use crate::{
    call::{Call, Scope},
    config_error::ConfigError,
    coverage::Mode,
    error::{Refusal, Rejected},
    events::{Event, Listener},
    lock::lock,
    teller::Teller,
};

pub(super) struct Shared {
    pub(super) ledger: Ledger,
    budget: Mutex<Arc<Budget>>,
    /// Counts updates, so that a service knows when to read the budget anew.
    version: AtomicU64,
    /// `u64::MAX` where nobody asks for the signal.
    no_progress: AtomicU64,
    is_invalid: AtomicBool,
    invalid: Mutex<Option<ConfigError>>,
    pub(super) teller: Teller,
}

/// The shared part as one clone of a service counts its calls to it, on cache lines of its own: one count for all
/// clones would be written to by every call.
#[repr(align(128))]
pub(super) struct Till(pub(super) Arc<Shared>);

impl Shared {
    pub(super) fn new(budget: Budget) -> Self {
        let invalid = budget.validate().err();
        if let Some(error) = &invalid {
            tracing::error!(%error, "the token budget refuses every call: its configuration is invalid");
        }
        Self {
            ledger: Ledger::new(),
            version: AtomicU64::new(0),
            no_progress: AtomicU64::new(budget.no_progress_tokens.unwrap_or(u64::MAX)),
            budget: Mutex::new(Arc::new(budget)),
            is_invalid: AtomicBool::new(invalid.is_some()),
            invalid: Mutex::new(invalid),
            teller: Teller::new(LAYER),
        }
    }

    pub(super) fn budget(&self) -> Arc<Budget> {
        lock(&self.budget).clone()
    }

    /// Reads the budget anew if it has changed since `known`.
    #[inline]
    pub(super) fn refresh(&self, known: &mut (u64, Arc<Budget>)) {
        if self.version.load(Ordering::Acquire) != known.0 {
            let budget = lock(&self.budget);
            *known = (self.version.load(Ordering::Acquire), budget.clone());
        }
    }

    pub(super) fn known(&self) -> (u64, Arc<Budget>) {
        let budget = lock(&self.budget);
        (self.version.load(Ordering::Acquire), budget.clone())
    }

    #[inline]
    pub(super) fn is_invalid(&self) -> bool {
        self.is_invalid.load(Ordering::Acquire)
    }

    pub(super) fn misconfigured(&self, call: &Call) -> Rejected {
        let rejected = Rejected::new(LAYER, Refusal::Misconfigured, Scope::RUN, call);
        match lock(&self.invalid).clone() {
            Some(error) => rejected.with_source(error),
            None => rejected,
        }
    }

    /// `last` are the accounts that the service used before: another call of the same run takes no lock of a map.
    #[inline]
    pub(super) fn path<'a>(&self, call: &Call, last: &'a mut Option<Path>) -> &'a Path {
        if last.as_ref().is_some_and(|path| path.is_of(call)) {
            return last.as_ref().expect("it was just looked at");
        }
        last.insert(self.ledger.path(call, || self.budget()))
    }

    pub(super) fn update(&self, budget: Budget) -> Result<(), ConfigError> {
        budget.validate()?;
        let budget = Arc::new(budget);
        {
            // All change together, or two updates at once could mix.
            let mut current = lock(&self.budget);
            *current = budget.clone();
            self.no_progress.store(budget.no_progress_tokens.unwrap_or(u64::MAX), Ordering::Release);
            self.version.fetch_add(1, Ordering::AcqRel);
            *lock(&self.invalid) = None;
            self.is_invalid.store(false, Ordering::Release);
        }
        for level in [Level::Run, Level::Agent, Level::Tenant] {
            // The newest there is, should another update have come in between.
            self.ledger.visit(level, |account| account.configure(self.budget().limits(level)));
        }
        Ok(())
    }

    pub(super) fn listen(&self, listener: impl Listener) {
        self.teller.listen(listener);
    }

    /// A run has to finish, for the sake of `account`. Told once of each; the run stays told.
    pub(super) fn soft_stop(&self, account: &Account, run: &Account) {
        let is_first = account.with(State::tell_finish);
        let is_own = std::ptr::eq(account, run);
        let is_run_first = run.with(|state| {
            state.finish();
            !is_own && state.tell_finish()
        });
        for (account, is_first) in [(account, is_first), (run, is_run_first)] {
            if is_first {
                self.signal(SignalKind::SoftStop, account);
            }
        }
    }

    pub(super) fn signal(&self, kind: SignalKind, account: &Account) {
        let (code, level) = (kind.code(), account.level().code());
        tracing::info!(layer = LAYER, kind = code, level, "budget signal");
        metrics::counter!("belay_budget_signals_total", "kind" => code, "level" => level).increment(1);
        self.teller.hear(&Event::Budget(&signal(kind, account)));
    }

    pub(super) fn mode(&self, is_dry_run: bool) -> Mode {
        let budget = self.budget();
        match () {
            () if self.is_invalid() => Mode::Misconfigured,
            () if is_dry_run => Mode::DryRun,
            () if [budget.run, budget.agent, budget.tenant].iter().all(|limits| *limits == Default::default()) => {
                Mode::Off
            }
            () => Mode::Enforcing,
        }
    }
}

pub(super) fn signal(kind: SignalKind, account: &Account) -> Signal {
    Signal { kind, level: account.level(), key: account.name(), balance: account.balance(Instant::now()) }
}

// === impl Till ===

impl Till {
    pub(super) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self(shared.clone()))
    }

    pub(super) fn no_progress_tokens(&self) -> Option<u64> {
        Some(self.0.no_progress.load(Ordering::Acquire)).filter(|tokens| *tokens != u64::MAX)
    }

    pub(super) fn burns(&self, run: &Account) {
        self.0.signal(SignalKind::NoProgress, run);
    }

    pub(super) fn settled(&self, settlement: &Settlement) {
        metrics::with_recorder(|recorder| {
            recorder.register_counter(settlement.counter(), &METADATA).increment(1);
        });
    }
}

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new(module_path!(), metrics::Level::INFO, Some(module_path!()));

impl Settlement {
    /// Made once, so that counting allocates nothing.
    fn counter(&self) -> &'static metrics::Key {
        macro_rules! key {
            ($how:literal) => {{
                static LABELS: [metrics::Label; 1] = [metrics::Label::from_static_parts("how", $how)];
                static KEY: metrics::Key = metrics::Key::from_static_parts("belay_budget_settlements_total", &LABELS);
                &KEY
            }};
        }
        match self {
            Self::Exact(_) => key!("exact"),
            Self::AtLeast(_) => key!("at_least"),
            Self::NotSent => key!("not_sent"),
        }
    }
}
