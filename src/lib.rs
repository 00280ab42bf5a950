//! Tower layers that keep an LLM agent inside hard limits.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
pub mod reason;
mod verdict;

pub use call::{ActionId, Call, Effect, Name, Scope};
pub use reason::{Class, Impact, Reason, Retry};
pub use verdict::{Usage, Verdict};
