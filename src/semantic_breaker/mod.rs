//! Stops calls to what is failing, by what came of them and not by their status alone.
//!
//! A [`SemanticBreaker`] refuses a call, and sends nothing, when its [`TripCard`] says so:
//!
//! | signal | default | what is refused | until |
//! |---|---|---|---|
//! | definite failures | 5 in the last 20 attempts | the target and operation | 10 min, then probes |
//! | malformed answers | 5 in the last 20, counted apart | the target and operation | 10 min, then probes |
//! | unknown writes | 2 within 1 h, not reconciled | writes to the target; reads pass | 10 min, or reconciled |
//! | denials | 3 for one actor in 5 min | that actor (or tenant); the target stays closed for others | 10 min |
//! | rate limits | 1 | the credential at the target | its own hint; none: 5 s, doubling |
//! | rate limits | 3 in 60 s | the credential at the target | the provider's window |
//! | credential (401, billing) | 1 | the credential at the target | 10 min, or it changes |
//! | slow calls, quality, cost | off | the target and operation | 10 min, then probes |
//!
//! After the cool-down one probe at a time may pass: only calls that are `ReadOnly`, or the user's own
//! [`probe`](SemanticBreakerLayer::probe); after denials and credential failures any call, since one that is denied again
//! changes nothing. Four consecutive verified successes begin a ramp that lets a growing share of the calls through over
//! 15 min; a signal on the way opens again, for longer.
//!
//! # What it counts
//!
//! The verdict at the *end* of an answer, drawn by the [classifier](crate::classify). A result belongs to the phase
//! that admitted it: late ones move no window, but a late unknown write is still listed for reconciliation, and a late
//! rate limit's hint still holds. A call given up by its caller counts as a failure only if its answer was awaited for
//! 60 s; earlier it says nothing. Refusals of other layers are no outcomes.
//!
//! # What it keeps
//!
//! Only keys that are not healthy keep state: at most 1,024 of a tenant and 65,536 in all, a circuit. Names that anybody
//! can make up, such as the model in a request, come into these numbers, and a call without a tenant belongs to the one
//! tenant that has no name: name tenants, so that nobody's inventions weigh on somebody else.
//!
//! - A key for which there is no room shares one state with all of its tenant that have none, and past the total with
//!   everybody that has none: five failures under five made-up models may then open every model of that tenant that has
//!   no state of its own. That holds for failures and unknown writes, which ask how a target is.
//! - Denials, rate limits and credentials are never shared: without room nothing is kept of them (counted as
//!   `belay_breaker_no_room_total`). The target still refuses each, and nobody is blocked for what another did.
//! - What an operator forces always has room.
//! - Open circuits are kept to the end of their cool-down, and longer until they have recovered. One that nobody asks for
//!   in a day is forgotten, but not that writes are stopped; a blocked actor or credential that may be tried again makes
//!   room after ten idle minutes if somebody needs it.
//!
//! # Where it belongs
//!
//! Inside retries, queues and budgets, so that each attempt is counted alone and a trip sends nothing that was
//! queued; outside the timeout and [`ProviderLayer`], so that it sees what they find.
//! State lives in the layer: every service made from it or from its clones shares it, however often a router applies
//! it. Inner services that reserve something in `poll_ready` (a tower `ConcurrencyLimit`) keep it for the next call
//! of the same clone when a call is refused; put them outside.
//!
//! # Errors
//!
//! A refusal is an [`Error`](crate::Error) with a [`Rejected`](crate::Rejected): code, scope, `retry_at`, what to do
//! instead. An error of the inner service comes out as a judged [`Failure`](crate::Failure) with its cause.
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_belay::{Call, Effect, Reason, Refusal, SemanticBreakerLayer, TripCard, classify_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! let search = classify_fn(|_: &&str| Call::to("search").effect(Effect::ReadOnly))
//!     .judge(|hits: &usize| if *hits > 0 { Reason::Completed } else { Reason::EmptyAnswer });
//! let mut service = ServiceBuilder::new()
//!     .layer(SemanticBreakerLayer::new(TripCard::default()).classifier(search))
//!     .service(service_fn(|query: &'static str| async move { Ok::<_, Infallible>(query.len()) }));
//!
//! assert_eq!(service.ready().await?.call("tower").await?, 5);
//! for _ in 0..5 {
//!     assert_eq!(service.ready().await?.call("").await?, 0);
//! }
//! let refused = service.ready().await?.call("tower").await.unwrap_err();
//! assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::Degraded));
//! assert!(refused.retry_at().is_some());
//! # Ok(())
//! # }
//! ```
//!
#![cfg_attr(feature = "wire", doc = "[`ProviderLayer`]: crate::provider::ProviderLayer")]
#![cfg_attr(not(feature = "wire"), doc = "[`ProviderLayer`]: crate#rooms-and-features")]

mod admission;
mod config;
mod decide;
mod future;
mod handle;
mod layer;
mod plan;
mod probing;
mod rows;
mod service;
mod shared;
mod state;
mod steering;
mod tell;
mod words;

pub use config::TripCard;
pub use future::ResponseFuture;
pub use handle::BreakerHandle;
pub use layer::SemanticBreakerLayer;
pub use rows::{
    Cost, CredentialRule, Denials, FailureRate, Failures, Malformed, Quality, RateLimits, SlowCalls, UnknownWrites,
};
pub use service::SemanticBreaker;
pub use words::{Circuit, Counts, Signal, Snapshot, State};
