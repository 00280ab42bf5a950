//! Answers by something else, once, where a call came to nothing.
//!
//! A call may end in a refusal, in an error, or in an answer that is known to be bad. Then one other service answers in
//! its place: another stack with another model ([`FallbackLayer::to`]), or a few honest lines ([`FallbackLayer::new`]).
//! If that fails too, or its answer is known to be bad as well, the call's own error or answer is given; a listener hears
//! why the fallback failed.
//!
//! | the call ended | in its place |
//! |---|---|
//! | refused, for now or for this target | the fallback |
//! | failed, rate limited; a read without an answer, or with one that cannot be used | the fallback |
//! | a read with a credential that does not work | the fallback: it has another |
//! | denied, forbidden, filtered, refused by the model | its error: nobody else is asked for what was forbidden |
//! | refused for good (`stop`), or the request is wrong | its error |
//! | a write that may have been applied | the fallback is told so ([`Fallen::in_doubt`]): it can answer, with a [reference](Fallen::reference) that stays, and must not send. [`FallbackLayer::to`] gives the call's error |
//! | a write that is stopped because earlier ones are in doubt | the fallback, without the request: this one was not sent |
//!
//! A [`FallbackConfig`] says which of these fall. A write that has no action id gets one, so that its reference is the same
//! for every attempt: [`Fallen::reference`], [`Degraded::reference`], and [`Rejected::reference`](crate::Rejected::reference)
//! of a refusal that passes.
//!
//! An answer that is under way is not replaced: what was handed on cannot be taken back.
//!
//! # Where it belongs
//!
//! Outside of retries, or the first failed attempt would be answered for; only what names the call stands further out.
//! A fallback to another service is a stack of its own, and shares budgets with this one by their handles.
//!
//! An answer of the fallback has a [`Degraded`] in the extensions of its response. A request that cannot be copied is
//! not there for the fallback: for another service this is logged once and counted. Dropping the future drops both.
//!
//! # Example
//!
//! ```
//! use std::io;
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_belay::{Call, Effect, Reason, classify_fn, fallback::{Fallen, FallbackLayer}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! let named = classify_fn(|request: &&str| {
//!     let effect = if request.starts_with("get") { Effect::ReadOnly } else { Effect::Sensitive };
//!     Call::to("orders").effect(effect).action(tower_belay::ActionId::from_key(7))
//! });
//! let honest = service_fn(|fallen: Fallen<&'static str>| async move { Ok::<_, BoxError>(fallen.wording()) });
//! let mut orders = ServiceBuilder::new()
//!     .layer(FallbackLayer::new(honest).classifier(named.replay_clones()))
//!     .service(service_fn(|request: &'static str| async move {
//!         if request.ends_with('7') { Ok("shipped".to_owned()) } else { Err(io::Error::from(io::ErrorKind::TimedOut)) }
//!     }));
//!
//! assert_eq!(orders.ready().await?.call("get order 7").await?, "shipped");
//! let substitute = orders.ready().await?.call("get order 8").await?;
//! assert!(substitute.starts_with("The request was not answered in full; this is a substitute."));
//! // A refund that may have been paid: nobody claims that it was not.
//! let doubtful = orders.ready().await?.call("refund order 8").await?;
//! assert!(doubtful.starts_with("It is not known whether the request was carried out. Do not send it again."));
//! assert!(doubtful.ends_with("Reference: belay-000000000007."));
//! # Ok(())
//! # }
//! ```

mod config;
mod fallen;
mod future;
mod layer;
mod service;
mod state;
#[cfg(test)]
mod tests;
mod told;

pub use config::{FallbackConfig, FallbackOn};
pub use fallen::{Elsewhere, Fallen, Why, futures::ElsewhereFuture};
pub use future::ResponseFuture;
pub use layer::FallbackLayer;
pub use service::Fallback;
pub use told::{Fell, Outcome};

/// The layer's name in metrics.
const LAYER: &str = "fallback";

/// In the extensions of a response that is a substitute.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Degraded {
    /// The code of the refusal or of the reason for which there was no full answer.
    pub code: &'static str,
    /// What people may quote about the call, where it has an [action](crate::Call::action); a write always has.
    pub reference: Option<String>,
}
