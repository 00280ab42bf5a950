//! Tells the outside what a fallback did.

use std::{
    error::Error as StdError,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{FallbackConfig, LAYER};
use crate::{coverage::Mode, events::Event, teller::Teller};

/// A call that came to nothing, and what became of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fell<'a> {
    /// The code of the refusal or of the reason.
    pub code: &'static str,
    /// What people may quote about the call, where it has an action.
    pub reference: Option<&'a str>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why the fallback failed too. The call has its own error.
    pub error: Option<&'a (dyn StdError + 'static)>,
}

/// What became of a call that came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Something else answered.
    Answered,
    /// The fallback failed too, or its answer cannot be used.
    Failed,
    /// There was nothing that could be sent elsewhere: the request cannot be copied.
    NoReplay,
    /// It must not be sent elsewhere.
    NotSent,
    /// Something else would have answered, but the layer only watches.
    WouldAnswer,
}

impl Outcome {
    /// The stable, documented code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::NoReplay => "no_replay",
            Self::NotSent => "not_sent",
            Self::WouldAnswer => "would_answer",
        }
    }
}

impl fmt::Display for Fell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fallback after {}: {}", self.code, self.outcome.code())?;
        match self.reference {
            Some(reference) => write!(f, " ({reference})"),
            None => Ok(()),
        }
    }
}

/// What all services of one layer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: FallbackConfig,
    pub(super) dry_run: AtomicBool,
    pub(super) teller: Teller,
    told_of_no_replay: AtomicBool,
}

impl Shared {
    pub(super) fn new(config: FallbackConfig) -> Arc<Self> {
        let (dry_run, told_of_no_replay) = Default::default();
        Arc::new(Self { config, dry_run, teller: Teller::new(LAYER), told_of_no_replay })
    }

    pub(super) fn is_off(&self) -> bool {
        self.config.on.is_empty()
    }

    pub(super) fn mode(&self) -> Mode {
        if self.dry_run.load(Ordering::Acquire) { Mode::DryRun } else { Mode::Enforcing }
    }

    pub(super) fn tell(&self, fell: &Fell<'_>) {
        let outcome = fell.outcome.code();
        if fell.outcome == Outcome::NoReplay && !self.told_of_no_replay.swap(true, Ordering::Relaxed) {
            tracing::warn!(layer = LAYER, "nothing is sent elsewhere: the bodies of requests are not in memory");
        }
        tracing::debug!(layer = LAYER, code = fell.code, outcome, error = fell.error, "a call came to nothing");
        metrics::counter!("belay_fallbacks_total", "outcome" => outcome).increment(1);
        self.teller.hear(&Event::Fell(fell));
    }
}
