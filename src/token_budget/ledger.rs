//! All accounts, by the names of calls.

use std::{
    fmt::{self, Display},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    LAYER,
    account::{Account, Path},
    amount::Level,
    config::Budget,
    limits::Limits,
};
use crate::{
    call::{Call, KeyRef, Name, Scope},
    keyed::{self, At, Claim, Keep, Kept, Keyed},
};

/// Runs are many and come to an end; agent classes and tenants are few and stay.
const RUNS: keyed::Limits = caps(65_536, 131_072);
const AGENTS: keyed::Limits = caps(4_096, 65_536);
/// A tenant has one account; a cap of one would be full for whoever comes while it is being made.
const TENANTS: keyed::Limits = caps(usize::MAX, 65_536);
/// No run is started by more runs than this, one by the other: each of them is a lock that a call takes.
const DEEPEST: usize = 16;

const fn caps(per_tenant: usize, total: usize) -> keyed::Limits {
    keyed::Limits { per_tenant, total, idle: Duration::from_secs(3_600), shares: true }
}

pub(super) struct Ledger {
    runs: Keyed<Slot>,
    agents: Keyed<Slot>,
    tenants: Keyed<Slot>,
}

#[derive(Default)]
struct Slot(Option<Arc<Account>>);

impl Kept for Slot {
    type Rules = ();

    fn keep(&self, now: Instant, (): &()) -> Keep {
        // An account is cloned only under the map's lock, or from one that is in use.
        match &self.0 {
            None => Keep::No,
            Some(account) if account.is_closed() => Keep::No,
            Some(account) if Arc::strong_count(account) > 1 || account.must_stay(now) => Keep::Always,
            Some(_) => Keep::WhileUsed,
        }
    }
}

/// Why a run cannot be put under another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubError {
    /// The run has an account already, and what it spent there is in no parent's.
    Begun,
    /// The two runs are of different tenants.
    OtherTenant,
    /// There are too many runs above it, each started by the next.
    TooDeep,
    /// There is no room for an account of the parent's own.
    NoRoom,
}

impl Display for SubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begun => "the run has begun already: put it under its parent before its first call",
            Self::OtherTenant => "the run and its parent are of different tenants",
            Self::TooDeep => "too many runs above this one",
            Self::NoRoom => "too many runs that nobody closed: the parent has no account of its own",
        })
    }
}

impl std::error::Error for SubError {}

// === impl Level ===

impl Level {
    /// The names that make up an account of this level.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Run => Scope::RUN,
            Self::Agent => Scope::AGENT,
            Self::Tenant => Scope::TENANT,
        }
    }
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn new() -> Self {
        Self { runs: Keyed::new(RUNS), agents: Keyed::new(AGENTS), tenants: Keyed::new(TENANTS) }
    }

    const fn map(&self, level: Level) -> &Keyed<Slot> {
        match level {
            Level::Run => &self.runs,
            Level::Agent => &self.agents,
            Level::Tenant => &self.tenants,
        }
    }

    /// The accounts of a call, made where there are none. `budget` is asked for while the map holds the slot, so that
    /// an update comes either before or visits the slot afterwards.
    pub(super) fn path(&self, call: &Call, budget: impl Fn() -> Arc<Budget>) -> Path {
        Path {
            run: self.account(Level::Run, call, &budget),
            agent: self.account(Level::Agent, call, &budget),
            tenant: self.account(Level::Tenant, call, &budget),
        }
    }

    pub(super) fn account(&self, level: Level, call: &Call, budget: &impl Fn() -> Arc<Budget>) -> Arc<Account> {
        let at = At { now: Instant::now(), rules: &() };
        let key = KeyRef::new(call, level.scope());
        let made = self.map(level).make(call, level.scope(), Claim::Call, &at, Slot::default, |slot| {
            let new = || Arc::new(Account::new(&key, level, budget().limits(level), at.now));
            slot.0.get_or_insert_with(new).clone()
        });
        let account = made.expect("a key without room shares its parent's account");
        if !account.is_of(&key) {
            tracing::debug!(layer = LAYER, level = level.code(), "no room for an account of its own");
            metrics::counter!("belay_budget_shared_total", "level" => level.code()).increment(1);
        }
        account
    }

    /// The account that is there, if it is nobody else's.
    pub(super) fn look(&self, level: Level, call: &Call) -> Option<Arc<Account>> {
        self.look_and(level, call, |_| {})
    }

    fn look_and(&self, level: Level, call: &Call, f: impl Fn(&Account)) -> Option<Arc<Account>> {
        let at = At { now: Instant::now(), rules: &() };
        let key = KeyRef::new(call, level.scope());
        self.map(level).look(call, level.scope(), &at, |slot| {
            let account = slot.0.as_ref().filter(|account| account.is_of(&key))?;
            f(account);
            Some(account.clone())
        })
    }

    /// Forgets a run. What it spent stays with its parents, and calls in progress are settled there.
    pub(super) fn close(&self, call: &Call) -> Option<Arc<Account>> {
        self.look_and(Level::Run, call, Account::close)
    }

    /// Makes the account of a run that another one starts.
    pub(super) fn sub(
        &self,
        parent: &Call,
        child: &Call,
        limits: Limits,
        budget: &impl Fn() -> Arc<Budget>,
    ) -> Result<(), SubError> {
        if parent.name(Name::Tenant) != child.name(Name::Tenant) {
            return Err(SubError::OtherTenant);
        }
        let above = self.account(Level::Run, parent, budget);
        if !above.is_of(&KeyRef::new(parent, Scope::RUN)) {
            return Err(SubError::NoRoom);
        }
        if above.depth() + 1 >= DEEPEST {
            return Err(SubError::TooDeep);
        }
        let at = At { now: Instant::now(), rules: &() };
        let key = KeyRef::new(child, Scope::RUN);
        let made = self.runs.make(child, Scope::RUN, Claim::Operator, &at, Slot::default, |slot| match &slot.0 {
            Some(run) if run.parent().is_some_and(|it| Arc::ptr_eq(it, &above)) => {
                run.set_limits(limits);
                Ok(())
            }
            Some(_) => Err(SubError::Begun),
            None => {
                slot.0 = Some(Arc::new(Account::new(&key, Level::Run, limits, at.now).under(above.clone())));
                Ok(())
            }
        });
        made.unwrap_or(Err(SubError::NoRoom))
    }

    /// Visits every account of a level.
    pub(super) fn visit(&self, level: Level, mut f: impl FnMut(&Account)) {
        let mut accounts = Vec::new();
        self.map(level).visit(&At { now: Instant::now(), rules: &() }, |_, slot| accounts.extend(slot.0.clone()));
        accounts.iter().for_each(|account| f(account));
    }
}
