//! Tower layers that keep an LLM agent inside hard limits.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
mod config_error;
mod human;
pub mod reason;
pub mod semantic_breaker;
mod verdict;

pub use call::{ActionId, Call, Effect, Name, Scope};
pub use config_error::ConfigError;
pub use reason::{Class, Impact, Reason, Retry};
pub use verdict::{Usage, Verdict};
