//! Sends each write once: a repeated one gets the first answer, or is refused.
//!
//! Two requests are one write if they have the same [`action`](crate::Call::action) in the same run of the same tenant.
//! Around tools that is the id of the tool call: a run that is resumed, or a retry further out, brings it again. What
//! comes then depends on what came of the first:
//!
//! - **It was applied:** the same answer is given again, where it could be kept; else `already_done`.
//! - **It is under way:** `in_progress`, until its lease is over.
//! - **It was not applied** (it failed, was denied or limited, or was never sent): it is sent again.
//! - **It may have been applied** (no answer, one that cannot be used, a caller that went away): it is
//!   [looked up](IdempotencyLayer::look_up) first where that is possible; else `in_doubt`, until somebody says what came
//!   of it: [`IdempotencyHandle::reconciled`].
//! - **It is another request** under the same id, by the call's [`fingerprint`](crate::Call::fingerprint): `action_conflict`.
//!
//! Reads pass and are never given an old answer. A write without an action id is given a fresh one, so that its outcome
//! can be asked for; it is never taken for another.
//!
//! # Where it belongs
//!
//! Outside of retries, which send a write again under the same id because they know that it was not applied; inside of
//! whatever decides that a call may be made at all. What is known lies in memory: it ends with the process.
//!
//! # Cancelling
//!
//! A future that is dropped before it was sent leaves nothing behind; later, the write is in doubt.
//!
//! # Example
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_belay::{ActionId, Call, Effect, IdempotencyConfig, IdempotencyLayer, Reason, Refusal, classify_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! /// The id that the model gave to its tool call, and the amount.
//! type Refund = (u128, u64);
//! let named = classify_fn(|(id, amount): &Refund| {
//!     Call::to("crm").run("run 7").effect(Effect::Sensitive).action(ActionId::from_key(*id)).fingerprint(*amount)
//! });
//! let layer = IdempotencyLayer::new(IdempotencyConfig::default())
//!     .classifier(named.judge(|answer: &&str| if *answer == "lost" { Reason::Timeout } else { Reason::Completed }));
//! let handle = layer.handle();
//! let mut sent = 0;
//! let mut crm = ServiceBuilder::new().layer(layer).service(service_fn(move |(_, amount): Refund| {
//!     sent += 1;
//!     let answer = if amount == 13 { "lost" } else if sent == 1 { "receipt 1" } else { "receipt 2" };
//!     std::future::ready(Ok::<_, Infallible>(answer))
//! }));
//!
//! // A run that is repeated gets the answer that it got before, and pays once.
//! assert_eq!(crm.ready().await?.call((1, 50)).await?, "receipt 1");
//! assert_eq!(crm.ready().await?.call((1, 50)).await?, "receipt 1");
//! // Another intent is another write, though it looks the same.
//! assert_eq!(crm.ready().await?.call((2, 50)).await?, "receipt 2");
//!
//! // Nobody knows what came of this one, so it is not sent again until somebody looked.
//! assert_eq!(crm.ready().await?.call((3, 13)).await?, "lost");
//! let refused = crm.ready().await?.call((3, 13)).await.unwrap_err();
//! assert_eq!(refused.rejected().map(|refused| refused.code()), Some(Refusal::InDoubt));
//! assert!(handle.reconciled(&Call::new().run("run 7"), ActionId::from_key(3), false));
//! assert_eq!(crm.ready().await?.call((3, 13)).await?, "lost");
//! # Ok(())
//! # }
//! ```

mod config;
mod future;
mod layer;
mod remember;
mod service;
mod shared;
mod state;
#[cfg(test)]
mod tests;

pub use config::IdempotencyConfig;
pub use future::ResponseFuture;
pub use layer::{IdempotencyHandle, IdempotencyLayer};
pub use remember::{Clones, HttpAnswers, Remember};
pub use service::Idempotency;

/// The layer's name in refusals and metrics.
const LAYER: &str = "idempotency";

/// What a look-up found out about a write that may have been applied.
///
/// "Not found" is [`NotApplied`](Found::NotApplied) only once the write would show: not before the target's own delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Found {
    /// It was applied.
    Applied,
    /// It was not, and will not be.
    NotApplied,
    /// That cannot be told.
    Unknown,
}
