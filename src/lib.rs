//! Tower layers that keep an LLM agent inside hard limits.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapt;
pub mod body;
mod call;
pub mod classify;
mod error;
pub mod identify;
mod keyed;
pub mod reason;
pub mod respond;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
mod verdict;

pub use body::WatchedBody;
pub use call::{ActionId, Call, Effect, Name, Scope};
pub use classify::{Auto, classify_fn, classify_http};
pub use error::{Advice, Error, Failure, Refusal, Rejected};
pub use identify::IdentifyLayer;
pub use reason::{Class, Impact, Reason, Retry};
pub use respond::RespondLayer;
pub use verdict::{Usage, Verdict};
