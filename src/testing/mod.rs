//! A scripted inner service and scripted bodies, for tests that say step by step what the other side does.
//!
//! Waits are tokio's, so a test with `start_paused = true` takes no time. A script that is used up panics when it
//! is called again: a layer that sends one request too many fails its test.
//!
//! ```
//! use std::time::Duration;
//! use tower::{ServiceExt, timeout::Timeout};
//! use tower_belay::testing::{Scripted, Step};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let crm = Scripted::new([Step::answer("found"), Step::stall()]);
//! let guarded = Timeout::new(crm.clone(), Duration::from_secs(5));
//!
//! assert_eq!(guarded.clone().oneshot("first").await.unwrap(), "found");
//! assert!(guarded.oneshot("second").await.is_err());
//!
//! assert_eq!(crm.take_requests(), ["first", "second"]);
//! assert_eq!(crm.unanswered(), 1);
//! # }
//! ```

mod body;
mod service;
#[cfg(test)]
mod tests;

pub use self::{
    body::BodyScript,
    service::{Scripted, ScriptedFuture, Step},
};
