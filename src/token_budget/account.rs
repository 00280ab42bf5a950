//! Accounts behind locks, and the reservation that a call holds in all of its own.
//!
//! A call reserves in its run, in the runs that this one was started by, in its agent class and in its tenant. It locks
//! them in this order, from the run upwards, and looks at all before it changes any: it has all of it or nothing. Runs
//! meet in no other lock than those of their common parents.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    amount::{Amount, Level},
    balance::Balance,
    limits::Limits,
    need::{Ask, Denied, Need, Settlement},
    shared::Till,
    state::{Rules, State},
};
use crate::{
    call::{Call, KeyBuf, KeyRef, Scope},
    lock::lock,
};

/// A run that is over, or was started by another, is known for so long after its last call.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// One account.
pub(super) struct Account {
    key: KeyBuf,
    level: Level,
    /// The run that started this one.
    parent: Option<Arc<Account>>,
    /// Its limits were given to it and are nobody else's.
    has_own_limits: bool,
    closed: AtomicBool,
    state: Mutex<State>,
}

/// The accounts of a call.
#[derive(Clone)]
pub(super) struct Path {
    pub(super) run: Arc<Account>,
    pub(super) agent: Arc<Account>,
    pub(super) tenant: Arc<Account>,
}

/// What a call asks of its accounts.
pub(super) struct Claim<'a> {
    pub(super) ask: Ask,
    pub(super) need: Need,
    pub(super) now: Instant,
    pub(super) rules: &'a Rules,
}

/// What is held for a call. Settled once; dropping it before says that the call may have been sent, and that nobody
/// knows what it used.
pub(super) struct Reservation {
    till: Arc<Till>,
    path: Path,
    pub(super) need: Need,
    amount: Amount,
    open: bool,
}

// === impl Account ===

impl Account {
    pub(super) fn new(key: &KeyRef<'_>, level: Level, limits: Limits, now: Instant) -> Self {
        let state = Mutex::new(State::new(limits, now));
        Self {
            key: (*key).to_owned(),
            level,
            parent: None,
            has_own_limits: false,
            closed: AtomicBool::new(false),
            state,
        }
    }

    /// The account of a run that another one started.
    pub(super) fn under(self, parent: Arc<Self>) -> Self {
        Self { parent: Some(parent), has_own_limits: true, ..self }
    }

    #[inline]
    pub(super) fn is_of(&self, key: &KeyRef<'_>) -> bool {
        self.key.is(key)
    }

    pub(super) const fn level(&self) -> Level {
        self.level
    }

    pub(super) const fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// How many runs are above this one.
    pub(super) fn depth(&self) -> usize {
        std::iter::successors(self.parent.as_deref(), |run| run.parent.as_deref()).count()
    }

    pub(super) fn name(&self) -> String {
        self.key.to_string()
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether it must be known still, although nobody uses it now.
    pub(super) fn must_stay(&self, now: Instant) -> bool {
        let state = lock(&self.state);
        match self.level {
            Level::Run => {
                let is_recent = now.saturating_duration_since(state.used()) < REMEMBERED;
                is_recent && (self.parent.is_some() || state.stopped(true, now).is_some())
            }
            Level::Agent | Level::Tenant => state.was_spent_from(),
        }
    }

    pub(super) fn configure(&self, limits: Limits) {
        if !self.has_own_limits {
            lock(&self.state).set_limits(limits);
        }
    }

    pub(super) fn set_limits(&self, limits: Limits) {
        lock(&self.state).set_limits(limits);
    }

    pub(super) fn balance(&self, now: Instant) -> Balance {
        lock(&self.state).balance(now)
    }

    pub(super) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut lock(&self.state))
    }
}

// === impl Path ===

impl Path {
    /// Whether these are the accounts of `call`.
    #[inline]
    pub(super) fn is_of(&self, call: &Call) -> bool {
        // Accounts that are shared for want of room are nobody's: the next call may find room.
        self.run.is_of(&KeyRef::new(call, Scope::RUN))
            && self.agent.is_of(&KeyRef::new(call, Scope::AGENT))
            && self.tenant.is_of(&KeyRef::new(call, Scope::TENANT))
            && !self.run.is_closed()
    }

    /// From the run upwards.
    fn levels(&self) -> impl Iterator<Item = &Account> {
        let runs = std::iter::successors(Some(&*self.run), |run| run.parent.as_deref());
        runs.chain([&*self.agent, &*self.tenant])
    }

    /// Reserves in all accounts, or says which of them denies it.
    pub(super) fn reserve(&self, till: &Arc<Till>, mut claim: Claim<'_>) -> Result<Reservation, (Denied, &Account)> {
        reserve_up(&mut self.levels(), &mut claim)?;
        Ok(self.reserved(till, claim.need))
    }

    /// Reserves in all accounts, whatever they say.
    pub(super) fn reserve_anyway(&self, till: &Arc<Till>, need: Need, now: Instant) -> Reservation {
        let amount = need.amount();
        self.levels().for_each(|account| account.with(|state| state.reserve(&amount, now)));
        self.reserved(till, need)
    }

    fn reserved(&self, till: &Arc<Till>, need: Need) -> Reservation {
        Reservation { till: till.clone(), path: self.clone(), need, amount: need.amount(), open: true }
    }
}

/// Every lock is held until those above have agreed, and no two calls take two of them in different orders.
fn reserve_up<'a>(
    levels: &mut impl Iterator<Item = &'a Account>,
    claim: &mut Claim<'_>,
) -> Result<(), (Denied, &'a Account)> {
    let Some(account) = levels.next() else { return Ok(()) };
    let mut state = lock(&account.state);
    state.admit(claim.ask, &mut claim.need, claim.now, claim.rules).map_err(|denied| (denied, account))?;
    reserve_up(levels, claim)?;
    // Those above may have shortened what this one agreed to.
    state.reserve(&claim.need.amount(), claim.now);
    Ok(())
}

// === impl Reservation ===

impl Reservation {
    pub(super) const fn amount(&self) -> &Amount {
        &self.amount
    }

    /// Books what came of the call.
    pub(super) fn settle(mut self, settlement: &Settlement) {
        self.till.settled(settlement);
        self.book(settlement);
    }

    /// Gives everything back: no call was made with it.
    pub(super) fn release(mut self) {
        self.book(&Settlement::NotSent);
    }

    fn book(&mut self, settlement: &Settlement) {
        self.open = false;
        let no_progress = self.till.no_progress_tokens();
        let mut burns = false;
        for account in self.path.levels() {
            account.with(|state| {
                state.settle(&self.amount, settlement);
                let is_own = std::ptr::eq(account, &*self.path.run);
                burns |= is_own && no_progress.is_some_and(|tokens| state.tell_no_progress(tokens));
            });
        }
        if burns {
            self.till.burns(&self.path.run);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.open {
            let all = Settlement::AtLeast(self.amount);
            self.till.settled(&all);
            self.book(&all);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("amount", &self.amount).finish_non_exhaustive()
    }
}
