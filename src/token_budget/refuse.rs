//! Refusals, and the evidence that comes with them.

use std::{error::Error as StdError, fmt};

use tokio::time::Instant;

use super::{
    LAYER,
    account::Account,
    amount::{Dimension, Level},
    balance::Balance,
    need::Denied,
};
use crate::{
    call::Call,
    error::{Refusal, Rejected},
};

/// Whose budget is spent, and what of it: the source of a refusal, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exhausted {
    /// Whose budget it is.
    pub level: Level,
    /// What is spent, or not enough is left of.
    pub dimension: Dimension,
    /// How the account stood.
    pub balance: Balance,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, dimension, balance } = self;
        if *dimension == Dimension::WallTime {
            return write!(f, "the time of the {level} is over after {:.3} s", balance.elapsed.as_secs_f64());
        }
        let (spent, reserved) = (balance.spent.of(*dimension), balance.reserved.of(*dimension));
        write!(f, "{dimension} of the {level}: {spent} spent and {reserved} reserved")?;
        match balance.limits.of(*dimension) {
            Some(limit) => write!(f, " of {limit}"),
            None => Ok(()),
        }
    }
}

impl StdError for Exhausted {}

/// `None` where the call may still be a final answer.
pub(super) fn rejected(denied: Denied, account: &Account, call: &Call, now: Instant) -> Option<Rejected> {
    let level = account.level();
    let code = match denied {
        Denied::Finish => return None,
        Denied::Unpriced => Refusal::Unpriced,
        Denied::Spent(Dimension::Steps) => Refusal::StepsSpent,
        Denied::Spent(Dimension::WallTime) => Refusal::TimeSpent,
        Denied::Spent(_) => Refusal::BudgetSpent,
    };
    let rejected = Rejected::new(LAYER, code, level.scope(), call);
    Some(match denied {
        Denied::Spent(dimension) => rejected.with_source(Exhausted { level, dimension, balance: account.balance(now) }),
        Denied::Finish | Denied::Unpriced => rejected,
    })
}
