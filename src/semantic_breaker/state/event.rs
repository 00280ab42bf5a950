//! What goes into a cell, and what comes out.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    config::TripCard,
    words::{Notice, Shift, Signal},
};
use crate::{
    call::{ActionId, Effect},
    error::Refusal,
    verdict::Verdict,
};

/// When something happens, under which settings, and the next number of the breaker-wide epoch.
///
/// Each admission is stamped with the epoch before it was asked for, or with the beginning of the phase that admitted it
/// if that is later ([`since`](super::cell::Cell::since)); a phase begins at a fresh one, so that results of calls
/// admitted before it are late. `next` must never give a number twice, and what
/// it gave last is the epoch.
pub(crate) struct Moment<'a> {
    pub(crate) now: Instant,
    pub(crate) card: &'a TripCard,
    pub(crate) next: &'a mut dyn FnMut() -> u64,
}

/// A call that asks to pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) effect: Effect,
    pub(crate) deadline: Option<Instant>,
    /// Whether the user configured a probe.
    pub(crate) has_probe: bool,
}

/// A probe's hold on the one slot of a half-open circuit; unique within a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LeaseId(u64);

impl LeaseId {
    pub(super) fn new(moment: &mut Moment<'_>) -> Self {
        Self((moment.next)())
    }
}

/// What a call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admit {
    Pass,
    /// Pass as the probe; settle with the lease.
    Probe(LeaseId),
    /// Do not pass: run the user's probe and settle the lease with its verdict.
    RunProbe(LeaseId),
    Refuse {
        refusal: Refusal,
        cause: Signal,
        retry_at: Option<Instant>,
    },
}

/// A call, or a probe, that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled<'a> {
    /// The epoch at which it was admitted.
    pub(crate) stamp: u64,
    pub(crate) lease: Option<LeaseId>,
    pub(crate) effect: Effect,
    pub(crate) action: Option<ActionId>,
    pub(crate) verdict: &'a Verdict,
    pub(crate) latency: Option<Duration>,
    /// Whether other calls queued meanwhile.
    pub(crate) queued: bool,
    pub(crate) score: Option<f64>,
    pub(crate) cost: Option<f64>,
}

/// What an event changed, for whoever must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    pub(crate) transition: Option<Shift>,
    pub(crate) alert: Option<Notice>,
    /// Whether to look up the [`pending_writes`](super::cell::Cell::pending_writes) now.
    pub(crate) reconcile: bool,
}

impl<'a> Settled<'a> {
    /// What came of a call that was admitted at `stamp`.
    pub(crate) const fn new(stamp: u64, effect: Effect, verdict: &'a Verdict) -> Self {
        Self {
            stamp,
            lease: None,
            effect,
            action: None,
            verdict,
            latency: None,
            queued: false,
            score: None,
            cost: None,
        }
    }
}
