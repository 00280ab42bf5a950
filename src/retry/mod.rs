//! Attempts a failed call again, where that can help and can do no harm.
//!
//! What came of an attempt decides, by its [`Reason`](crate::Reason):
//!
//! - **never** is never repeated: denials, wrong requests, a quota that is used up.
//! - **backoff** waits 1 s, then 2 s, and so on to 30 s; half of each wait is drawn.
//! - **at hint** waits as long as the other side said, and never less. Past the cap or the call's deadline the call
//!   ends at once, with `retry_at`. Without a word it waits 5 s, then 10 s, as the semantic breaker holds such calls back.
//! - **after amending** is sent again only changed, by an [`Amend`](crate::amend::Amend); without one, or where it has
//!   no answer, the call ends. A changed request gets an action id of its own.
//! - **after reconciling**: a read is simply sent again. A write that may have been applied is not, unless its target
//!   is [`idempotent`](RetryLayer::idempotent).
//!
//! A server's `x-should-retry: false` ends the call, unless the request can be amended; its `true` has a wrong request or
//! a missing model tried again, if the call is `ReadOnly`.
//!
//! Nothing is sent again once its answer was handed on. A refusal by another layer is final; it carries the verdict of
//! the attempt before. The requests of all services of a layer share one *budget*: a hundred calls may cause twenty
//! retries, so an outage is not answered with three times the load. Of nested retries only the outermost acts.
//!
//! # Where it belongs
//!
//! Outside budgets, queues and the breaker, so that each attempt is reserved, queued and counted alone. Answers are
//! known early only behind `ProviderLayer`, or where they lie in memory: a live stream is handed on.
//!
//! A request is repeated only if it can be copied: an `http` request whose body lies in memory. Others go once, which
//! is logged once and counted.
//!
//! # Errors
//!
//! The last attempt's own answer or error. Dropping the future ends the call at any point.
//!
//! # Example
//!
//! ```
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! use tower_belay::{Call, Effect, Reason, classify_fn, retry::{RetryLayer, RetryPolicy}};
//! use tower_belay::testing::{Scripted, Step};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! let named = classify_fn(|request: &&str| {
//!     Call::to("orders").effect(if request.starts_with("get") { Effect::ReadOnly } else { Effect::Consequential })
//! });
//! let orders = Scripted::new([Step::answer(Reason::Timeout), Step::answer(Reason::Completed), Step::answer(Reason::Timeout)]);
//! let mut service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(RetryPolicy::default()).classifier(named.replay_clones().judge(|reason: &Reason| *reason)))
//!     .service(orders.clone());
//!
//! assert_eq!(service.ready().await?.call("get order 7").await?, Reason::Completed);
//! // The same answer to a write: it may have been applied, so it is not sent again.
//! assert_eq!(service.ready().await?.call("refund order 7").await?, Reason::Timeout);
//! assert_eq!(orders.take_requests(), ["get order 7", "get order 7", "refund order 7"]);
//! # Ok(())
//! # }
//! ```

mod budget;
mod config;
mod future;
mod layer;
mod service;
mod shared;
mod state;
#[cfg(test)]
mod tests;

pub use config::{Jitter, RetryPolicy};
pub use future::ResponseFuture;
pub use layer::RetryLayer;
pub use service::Retry;
pub use state::GaveUp;
