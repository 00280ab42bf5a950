//! Reads a budget and steers it from outside.

use std::{fmt, sync::Arc};

use tokio::time::Instant;

use super::{
    amount::{Amount, Level},
    balance::Balance,
    config::Budget,
    ledger::SubError,
    limits::Limits,
    shared::Shared,
};
use crate::{call::Call, config_error::ConfigError};

/// The accounts of one budget. Make one first and give it to all layers that spend the same: around models, and around
/// tools.
///
/// An account is named by a [`Call`] with the same names: `handle.run(&Call::new().run("7"))`.
///
/// ```
/// use tower_belay::{Call, token_budget::{Budget, BudgetHandle, Limits, TokenBudgetLayer}};
/// let handle = BudgetHandle::new(Budget::default().run(Limits::default().tokens(50_000).steps(8)));
/// let model = TokenBudgetLayer::with_handle(&handle);
/// let tools = TokenBudgetLayer::with_handle(&handle).counts_steps();
/// // What a sub-agent spends its parent spends too.
/// let (parent, child) = (Call::new().run("7"), Call::new().run("7.1"));
/// assert!(handle.sub(&parent, &child, Limits::default().tokens(5_000)).is_ok());
/// # let _ = (model, tools);
/// ```
#[derive(Clone)]
pub struct BudgetHandle {
    pub(super) shared: Arc<Shared>,
}

impl BudgetHandle {
    /// The accounts of `budget`.
    ///
    /// An impossible value makes a budget that refuses every call, with the code `misconfigured`: use
    /// [`try_new`](BudgetHandle::try_new) to hear of it at once.
    pub fn new(budget: Budget) -> Self {
        Self { shared: Arc::new(Shared::new(budget)) }
    }

    /// The accounts of `budget`.
    ///
    /// # Errors
    /// Names the field of `budget` that has an impossible value.
    pub fn try_new(budget: Budget) -> Result<Self, ConfigError> {
        budget.validate()?;
        Ok(Self::new(budget))
    }

    /// How the account of the run of `call` stands; `None` where it has made no call.
    pub fn run(&self, call: &Call) -> Option<Balance> {
        self.balance(Level::Run, call)
    }

    /// How the account of the agent class of `call` stands.
    pub fn agent(&self, call: &Call) -> Option<Balance> {
        self.balance(Level::Agent, call)
    }

    /// How the account of the tenant of `call` stands.
    pub fn tenant(&self, call: &Call) -> Option<Balance> {
        self.balance(Level::Tenant, call)
    }

    fn balance(&self, level: Level, call: &Call) -> Option<Balance> {
        Some(self.shared.ledger.look(level, call)?.balance(Instant::now()))
    }

    /// Every account of a level, by names such as `tenant=acme run=7`.
    pub fn all(&self, level: Level) -> Vec<(String, Balance)> {
        let mut all = Vec::new();
        let now = Instant::now();
        self.shared.ledger.visit(level, |account| all.push((account.name(), account.balance(now))));
        all
    }

    /// Adds to what an account may spend, and lets a run go on that was told to finish. What is overdrawn is paid
    /// first; what is not limited stays so. A run has also its agent's and its tenant's limits.
    pub fn grant(&self, level: Level, call: &Call, amount: Amount) {
        let account = self.shared.ledger.account(level, call, &|| self.shared.budget());
        account.with(|state| state.grant(&amount));
    }

    /// Ends a run: its account is forgotten, and what it spent stays with its agent, its tenant and the run that started
    /// it. Calls in progress are still settled there. The name may then be used for another run: one that is under
    /// another has to be put there again.
    ///
    /// A run that nobody closes is forgotten for want of room, when it has made no call for an hour.
    pub fn close(&self, call: &Call) -> Option<Balance> {
        Some(self.shared.ledger.close(call)?.balance(Instant::now()))
    }

    /// Puts the run of `child` under that of `parent`, with limits of its own: what it spends both spend, and neither
    /// may spend more than its own limits. Say so before its first call.
    ///
    /// # Errors
    /// Says why it is not under its parent. It then has the limits of any run, and its parent pays nothing.
    pub fn sub(&self, parent: &Call, child: &Call, limits: Limits) -> Result<(), SubError> {
        self.shared.ledger.sub(parent, child, limits, &|| self.shared.budget())
    }

    /// The run of `call` has made progress: its tokens without any count from zero again.
    pub fn progressed(&self, call: &Call) {
        if let Some(run) = self.shared.ledger.look(Level::Run, call) {
            run.with(super::state::State::progressed);
        }
    }

    /// The budget in force.
    pub fn budget(&self) -> Budget {
        (*self.shared.budget()).clone()
    }

    /// Replaces the budget. What was spent stays spent, and limits given by [`sub`](BudgetHandle::sub) stay.
    ///
    /// # Errors
    /// Names the field that has an impossible value; the old budget stays.
    pub fn update(&self, budget: Budget) -> Result<(), ConfigError> {
        self.shared.update(budget)
    }
}

impl fmt::Debug for BudgetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetHandle").finish_non_exhaustive()
    }
}
