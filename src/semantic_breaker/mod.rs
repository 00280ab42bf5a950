//! Stops calls to what is failing, by what came of them: failures, unknown writes, denials, rate limits, credentials
//! and malformed answers, each with its own rule.

mod config;
mod cooldown;
mod event;
mod evidence;
mod gate;
mod health;
mod lease;
mod operate;
mod pending;
mod rows;
mod state;
mod time;
mod window;
mod words;

#[cfg(test)]
mod model;
#[cfg(test)]
mod model_events;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use config::TripCard;
pub use rows::{
    Cost, CredentialRule, Denials, FailureRate, Failures, Malformed, Quality, RateLimits, SlowCalls, UnknownWrites,
};
pub use words::{Alert, Circuit, Counts, Refusal, Signal, Snapshot, State, Transition};
