//! Keeps calls to a rate: so many requests and so many tokens in a minute.
//!
//! A call takes one request and the tokens that it is expected to use ([`Call::estimate`](crate::Call::estimate)). When
//! its answer is over, what it really used counts instead, where the provider states it: what was too much comes back,
//! and what was too little is owed by those who come next. A call that was not sent gives all of it back. One whose
//! answer nobody read to its end is taken to have used what was expected, and one that broke off to have used no less.
//!
//! A full bucket holds a minute's worth; a call that is expected to use more goes when it is full, and the rest is owed.
//! Where a bucket is empty a call waits for its turn, first come, first served: what comes back goes to the first of those
//! who wait. It is refused with `rate_limit`, and the time at which it could go, when it has waited for `max_wait` or its
//! deadline has come; and at once, if it could not go before that even if all calls under way had used nothing.
//!
//! What a provider says only makes the rate stricter. A remainder in the headers of an answer that is smaller than ours
//! counts, and what was taken before it was said does not come back. Where nothing remains, and after a rate-limit answer
//! with a hint, nothing goes before the time it names, for 10 min at most. `x-ratelimit-*`, `anthropic-ratelimit-*` and
//! `ratelimit` are read where the response has the body of a layer that watches answers, such as
//! [`ProviderLayer`](crate::provider).
//!
//! # Where it belongs
//!
//! Inside of retries, so that each attempt counts; outside of the [bulkhead](crate::bulkhead) and the
//! [breaker](crate::semantic_breaker), so that a call that waits for its turn takes no place from others and is not sent
//! after a trip. All it keeps is in memory: two processes with one account need half of the rate each.
//!
//! # Cancelling
//!
//! A future that is dropped while it waits gives up its place; those behind it move up. Later, what was taken stays
//! taken: the call may have been sent.
//!
//! # Defaults
//!
//! No rate is set: only an account knows its own. `max_wait` is 30 s, as a bulkhead's.
//!
//! # Example
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use tokio::time::Instant;
//! use tower::{Layer, Service, ServiceExt, service_fn};
//! use tower_belay::{Call, RateLimitConfig, RateLimitLayer, Refusal, classify_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! let config = RateLimitConfig::default().requests_per_minute(60).max_wait(Duration::from_secs(2));
//! let layer = RateLimitLayer::new(config).classifier(classify_fn(|_: &u32| Call::to("llm")));
//! let mut model = layer.layer(service_fn(|n: u32| async move { Ok::<_, Infallible>(n) }));
//!
//! let began = Instant::now();
//! for n in 0..62 {
//!     model.ready().await?.call(n).await?;
//! }
//! // A minute's worth went at once, and two more in turn.
//! assert_eq!(began.elapsed().as_secs(), 2);
//!
//! let waiting: Vec<_> = (0..2).map(|n| model.clone().oneshot(n)).map(tokio::spawn).collect();
//! tokio::task::yield_now().await;
//! let refused = model.ready().await?.call(99).await.unwrap_err();
//! let refused = refused.rejected().unwrap();
//! assert_eq!((refused.code(), refused.retry_after()), (Refusal::RateLimit, Some(Duration::from_secs(3))));
//! # for call in waiting { call.await.unwrap()?; }
//! # Ok(())
//! # }
//! ```

mod bucket;
mod config;
mod future;
mod headers;
mod layer;
mod limiter;
mod service;
mod shared;
mod state;
#[cfg(test)]
mod tests;

pub use config::{RateLimitConfig, Rates};
pub use future::ResponseFuture;
pub use layer::{RateLimitHandle, RateLimitLayer};
pub use limiter::Left;
pub use service::RateLimit;

/// The layer's name in refusals and metrics.
const LAYER: &str = "rate_limit";
