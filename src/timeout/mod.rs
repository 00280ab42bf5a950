//! Ends a call whose answer takes too long, head and body together.
//!
//! - A call gets `total` time from being sent to the *end* of its answer, or less if its deadline is sooner. When that
//!   is over the call is given up: with a [`Failure`](crate::Failure) of the reason `timeout` if there is no head yet,
//!   else its body ends in that error, and every layer that listens to the body hears that verdict. It is *unknown*:
//!   a write may have been applied.
//! - A call whose deadline has passed is refused, and nothing is sent: `deadline_passed`.
//! - The [`Call`](crate::Call) handed on carries the new deadline where the classifier can attach it (`http`
//!   requests; without allocating behind [`IdentifyLayer`](crate::IdentifyLayer)).
//!
//! No timer is set while nobody has to wait: an answer that is there at once touches none. Nothing runs in the
//! background either: a body that nobody polls does not time out, and a part of it that has come is not withheld.
//!
//! # Where it belongs
//!
//! Inside the [semantic breaker](crate::semantic_breaker), which counts timeouts, and outside the layer that reads the
//! provider's answer, whose own timers are about silence. Retries and queues are outside: each attempt has its own
//! time, and the deadline of the call bounds them all. Inner services that reserve something in `poll_ready` keep it
//! for the next call of the same clone when a call is refused; put them outside.
//!
//! A classifier of your own that watches bodies without a [`WatchedBody`](crate::WatchedBody) limits them by asking
//! [`Completion::due`](crate::classify::Completion::due).
//!
//! # Cancelling
//!
//! Dropping the future or the body drops the call and its timer; it holds nothing else.
//!
//! # Defaults
//!
//! `total` is 10 min, as in the SDKs of OpenAI and Anthropic.
//!
//! # Example
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use tokio::time::{Instant, sleep};
//! use tower::{Layer, Service, ServiceExt, service_fn};
//! use tower_belay::{Call, Reason, Refusal, TimeoutConfig, TimeoutLayer, classify_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! struct Ask { takes: Duration, deadline: Option<Instant> }
//!
//! let by_deadline = classify_fn(|ask: &Ask| Call::to("search").deadline(ask.deadline));
//! let mut search = TimeoutLayer::new(TimeoutConfig::default().total(Duration::from_secs(5)))
//!     .classifier(by_deadline)
//!     .layer(service_fn(|ask: Ask| async move {
//!         sleep(ask.takes).await;
//!         Ok::<_, Infallible>("found")
//!     }));
//!
//! let quick = Ask { takes: Duration::from_secs(4), deadline: None };
//! assert_eq!(search.ready().await?.call(quick).await?, "found");
//!
//! let slow = Ask { takes: Duration::from_secs(6), deadline: None };
//! let failed = search.ready().await?.call(slow).await.unwrap_err();
//! assert_eq!(failed.failure().map(|failure| failure.reason()), Some(Reason::Timeout));
//!
//! let late = Ask { takes: Duration::ZERO, deadline: Some(Instant::now()) };
//! let refused = search.ready().await?.call(late).await.unwrap_err();
//! assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::DeadlinePassed));
//! # Ok(())
//! # }
//! ```

mod config;
mod future;
mod layer;
mod service;
#[cfg(test)]
mod tests;

pub use config::TimeoutConfig;
pub use future::ResponseFuture;
pub use layer::TimeoutLayer;
pub use service::Timeout;

/// The layer's name in refusals and metrics.
const LAYER: &str = "timeout";
