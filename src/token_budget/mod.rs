//! Ends a run before it has spent more than it may.

mod account;
mod admit;
mod amount;
mod balance;
mod config;
mod estimate;
mod future;
mod handle;
mod layer;
mod ledger;
mod limits;
mod need;
mod price;
mod refuse;
mod service;
mod settle;
mod shared;
mod signal;
mod state;
#[cfg(test)]
mod tests;

pub use amount::{Amount, Dimension, Level};
pub use balance::Balance;
pub use config::{Budget, EstimateRules};
pub use estimate::{ByBody, Estimate, EstimateFn, Estimated, estimate_fn};
pub use future::ResponseFuture;
pub use handle::BudgetHandle;
pub use layer::TokenBudgetLayer;
pub use ledger::SubError;
pub use limits::Limits;
pub use price::{Price, PriceTable, Unpriced};
pub use refuse::Exhausted;
pub use service::TokenBudget;
pub use signal::{Signal, SignalKind};

/// The layer's name in refusals and metrics.
const LAYER: &str = "token_budget";
