//! Ends a run before it has spent more than it may.

mod amount;
mod balance;
mod config;
mod limits;
mod need;
mod price;
mod state;

pub use amount::{Amount, Dimension, Level};
pub use balance::Balance;
pub use config::{Budget, EstimateRules};
pub use limits::Limits;
pub use price::{Price, PriceTable, Unpriced};
