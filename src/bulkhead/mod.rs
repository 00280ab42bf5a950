//! Limits how many calls of one agent class run at a time, and how many wait for them.
//!
//! A [`Bulkhead`] lets a call pass while fewer than `max_concurrent` calls of its class run. Then it queues, and goes
//! on in the order in which it came. It is refused, and nothing is sent, when
//!
//! - `max_queued` calls of its class wait already: `bulkhead_full`, with the time by which one of them is gone;
//! - it has waited for `max_wait`, or its own deadline has come: `bulkhead_wait`.
//!
//! Classes share nothing: one can never starve another. A class is the [`Call`](crate::Call)'s agent name within its
//! tenant, or whatever names the [`scope`](BulkheadConfig::scope) says; calls without one are a class of their own.
//! Beyond 1,024 classes of one tenant in use at a time, further ones share a bulkhead with each other.
//!
//! # Per call, not per run
//!
//! A permit is held from the moment a call is sent to the *end* of its answer: the stream's end, its trailers, or an
//! answer in memory at once. It is not held while an agent runs its tools or reads what it got. So a parent that waits
//! for the sub-agents it started holds nothing that they wait for, even if they are of its class. Put the layer around
//! the model or tool service, never around a whole run: a run that holds a permit while it makes further calls of its
//! class can wait for itself. A reader that neither reads an answer to its end nor drops it keeps its permit.
//!
//! # Where it belongs
//!
//! Inside retries, budgets and rate limits, so that each attempt queues anew and nobody holds a permit through a
//! backoff; outside the [semantic breaker](crate::semantic_breaker), so that a trip sends nothing that was queued. A
//! call that waited carries how many others still did, for the breaker's rule "only while calls queue", where the
//! classifier can attach it (`http` requests; best behind [`IdentifyLayer`](crate::IdentifyLayer)).
//!
//! A call that waits does so in its future. It never keeps the inner service's readiness from others: it asks for it
//! when its turn has come, and until `max_wait` is over.
//!
//! # Cancelling
//!
//! Dropping a future gives up its place in the queue, and the others keep theirs; dropping a future or a body of a call
//! that was sent frees its permit. A permit that comes free goes to the call that waited longest, at once.
//!
//! # Defaults
//!
//! | setting | default | as in |
//! |---|---|---|
//! | `max_concurrent` | 10 | MicroProfile Fault Tolerance, `@Bulkhead(value)` |
//! | `max_queued` | 10 | MicroProfile Fault Tolerance, `@Bulkhead(waitingTaskQueue)` |
//! | `max_wait` | 30 s | HikariCP, `connectionTimeout` |
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//! use tower::{Layer, Service, ServiceExt, service_fn};
//! use tower_belay::{BulkheadConfig, BulkheadLayer, Call, Refusal, classify_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! let by_class = classify_fn(|(class, _): &(&'static str, &'static str)| Call::to("llm").agent(class));
//! let layer = BulkheadLayer::new(BulkheadConfig::default().max_concurrent(1).max_queued(0)).classifier(by_class);
//! let mut model = layer.layer(service_fn(|(_, question): (&'static str, &'static str)| async move {
//!     tokio::task::yield_now().await;
//!     Ok::<_, Infallible>(question.len())
//! }));
//!
//! let running = model.ready().await?.call(("researcher", "tower"));
//! // The only place of its class is taken, and there is no queue.
//! let refused = model.ready().await?.call(("researcher", "belay")).await.unwrap_err();
//! assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::BulkheadFull));
//! // Another class has its own.
//! assert_eq!(model.ready().await?.call(("writer", "rope")).await?, 4);
//! assert_eq!(running.await?, 5);
//! assert_eq!(layer.handle().occupancy(&Call::new().agent("researcher")).in_flight, 0);
//! # Ok(())
//! # }
//! ```

mod config;
mod future;
mod gate;
mod handle;
mod layer;
mod service;
mod shared;
mod state;
#[cfg(test)]
mod tests;

pub use config::{BulkheadConfig, ClassLimits};
pub use future::ResponseFuture;
pub use handle::{BulkheadHandle, Occupancy};
pub use layer::BulkheadLayer;
pub use service::Bulkhead;
