//! Ends a run before it has spent more than it may.
//!
//! A [`TokenBudget`] reserves what a call may cost before it is sent, and books what it did cost when its answer is over.
//! It counts tokens (of input, of output, in all), money, calls of tools and time, for a run, for its agent class and for
//! its tenant; a call needs room in all three, or is in none. It is refused, and nothing is sent, when
//!
//! - tokens or money are spent, or not so much is left as the call may use: `budget_spent`;
//! - a run has called as many tools as it may: `steps_spent`;
//! - its time is over: `time_spent`;
//! - money is limited, and nobody said what the model costs: `unpriced`.
//!
//! What is not limited is counted, and 0 is 0: it refuses everything. A limit on `steps` refuses tools and nothing else,
//! so that the model can still say what came of them.
//!
//! # The soft stop
//!
//! At 80 % of a limit, spent and reserved, the run is told to finish; so it is when a call would use what is kept back
//! for its last answer: a tenth, or as much as the same request would need once more. Its requests are changed from then on, by [`amend`](TokenBudgetLayer::amend): they say how much is
//! left, ask for a summary, offer no tools, and ask for no longer an answer than there is room for. A request that cannot
//! be changed is sent as it is while it fits. Either way a [`Signal`] goes to the listener, once for an account, and into
//! the extensions of requests that went out unchanged. A run stays told, until it is [granted](BudgetHandle::grant) more.
//!
//! # What is booked
//!
//! | how a call ended | booked |
//! |---|---|
//! | the answer is whole and states its usage | that, exactly |
//! | it is whole and states none, or not all: absent is not zero | what was reserved, as *at least* |
//! | it was cut, or timed out | the input as stated, and all the output that was reserved, as at least |
//! | its reader went away, or the caller before its head came | what was reserved, as at least |
//! | refused by a layer further in, or no connection was made | nothing |
//! | an error before anything was answered: 4xx, 429, a 5xx to a call that changes nothing | nothing |
//!
//! An answer that uses more than was reserved leaves a debt, which is kept and not forgiven. So a limit is as hard as the
//! requests say: state a limit on the output in them, or set
//! [`output_tokens`](EstimateRules::output_tokens) as high as the model goes.
//!
//! # Runs, and runs that they start
//!
//! Accounts go by the names of a [`Call`](crate::Call), within its tenant. Calls without a run's name are one run. Model
//! and tools share one [`BudgetHandle`], see there; [`sub`](BudgetHandle::sub) puts a sub-agent's run under the one that
//! started it, and what it spends both spend. [Close](BudgetHandle::close) a run that is over: its parents keep what it
//! spent. Of one tenant 65,536 runs have accounts of their own at a time; further ones share one. A run that nobody
//! closes goes for want of room, an hour after its last call; a day after it, if it is spent or was started by another.
//!
//! # Where it belongs
//!
//! Inside retries, so that each attempt is booked; outside rate limits, queues and the
//! [semantic breaker](crate::semantic_breaker), so that what it refuses takes no place in them, and what they refuse
//! costs nothing. Usage is stated where an answer is read: with HTTP, put a `ProviderLayer` innermost. Of a call that
//! waits further in and is given up there nobody knows that it was not sent: it is booked in full.
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//! use tower::{Layer, Service, ServiceExt, service_fn};
//! use tower_belay::{Budget, Call, Refusal, TokenBudgetLayer, Usage, Verdict, classify_fn};
//! use tower_belay::token_budget::{Dimension, Estimated, Limits, estimate_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! // A model whose answer is how many tokens it used.
//! let usage = |used: &u64| {
//!     let mut usage = Usage::default();
//!     (usage.input_tokens, usage.output_tokens) = (Some(20), Some(*used));
//!     Verdict::completed().with_usage(usage)
//! };
//! let layer = TokenBudgetLayer::new(Budget::default().run(Limits::default().tokens(1_000)))
//!     .classifier(classify_fn(|_: &u64| Call::to("llm").run("7")).judge(usage))
//!     .estimate(estimate_fn(|_: &u64| Estimated::new(20, 500)));
//! let handle = layer.handle();
//! let mut model = layer.layer(service_fn(|used: u64| async move { Ok::<_, Infallible>(used) }));
//!
//! // Up to 520 are reserved, 320 are booked.
//! assert_eq!(model.ready().await?.call(300).await?, 300);
//! assert_eq!(model.ready().await?.call(300).await?, 300);
//! let run = handle.run(&Call::new().run("7")).ok_or("no account").map_err(tower_belay::Error::new)?;
//! assert_eq!((run.spent.tokens, run.remaining(Dimension::Tokens)), (640, Some(360)));
//! // What is left is less than another call may use.
//! let refused = model.ready().await?.call(300).await.unwrap_err();
//! assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::BudgetSpent));
//! # Ok(())
//! # }
//! ```

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
