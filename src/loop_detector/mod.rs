//! Finds runs that go in circles: it warns, then refuses, then ends them.

mod canonical;
mod config;
mod found;
mod future;
mod handle;
mod json;
mod layer;
mod mask;
mod observe;
mod service;
mod shared;
mod sketch;
mod state;
#[cfg(test)]
mod tests;

pub use config::{LoopPolicy, Pollable, Steps, ToolRules};
pub use found::{Found, Rule};
pub use future::ResponseFuture;
pub use handle::{LoopHandle, RunState};
pub use layer::LoopDetectorLayer;
pub use observe::{Asked, Got, ObserveFn, ReadCall, ReadOutput, ToolCalls, observe_fn};
pub use service::LoopDetector;
