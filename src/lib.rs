//! Tower layers that keep an LLM agent inside hard limits.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapt;
pub mod body;
mod call;
pub mod classify;
mod config_error;
mod error;
pub mod events;
pub mod human;
pub mod identify;
mod keyed;
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub mod provider;
pub mod reason;
pub mod respond;
pub mod semantic_breaker;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
mod verdict;
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub mod wire;

pub use body::WatchedBody;
pub use call::{ActionId, Call, Effect, Name, Scope};
pub use classify::{Auto, classify_fn, classify_http};
pub use config_error::ConfigError;
pub use error::{Advice, Error, Failure, Refusal, Rejected};
pub use identify::IdentifyLayer;
pub use reason::{Class, Impact, Reason, Retry};
pub use respond::RespondLayer;
pub use semantic_breaker::{SemanticBreakerLayer, TripCard};
pub use verdict::{Usage, Verdict};
