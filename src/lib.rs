//! Tower layers that keep an LLM agent inside hard limits.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
pub mod human;
pub mod reason;
mod verdict;
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub mod wire;

pub use call::{ActionId, Call, Effect, Name, Scope};
pub use reason::{Class, Impact, Reason, Retry};
pub use verdict::{Usage, Verdict};
