//! Holds a credential back by rate, until the other side's own window has passed.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    rows::RateLimits,
    window::{Times, later, rewind},
};

/// What a gate says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gated {
    /// Nothing holds it.
    Free,
    /// Held until then.
    Until(Instant),
    /// Held longer than is good without a look: one call may try.
    Probe(Instant),
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    started: Instant,
    /// When calls may pass again.
    resume: Instant,
    /// When one call may try, if that is earlier.
    probe: Instant,
    /// The epoch at which the hold began: only calls admitted after it can lengthen a hold without a hint.
    since: u64,
}

/// A single rate limit holds until its hint, or without one for a doubling time; several pause.
#[derive(Debug, Default)]
pub(super) struct Gate {
    hold: Option<Hold>,
    hintless: u32,
    latest_hint: Option<Instant>,
    recent: Times,
    /// Limits of calls admitted before the last pause do not count towards the next.
    paused_since: u64,
    /// Results of calls admitted before a reset say nothing.
    ignore_before: u64,
}

/// A call that was refused by rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limited {
    pub(super) now: Instant,
    pub(super) stamp: u64,
    pub(super) hint: Option<Instant>,
    /// Whether it was the one call that a long hold let through.
    pub(super) probed: bool,
}

impl Gate {
    pub(super) fn check(&self, now: Instant) -> Gated {
        match self.hold {
            Some(hold) if now >= hold.resume => Gated::Free,
            Some(hold) if now >= hold.probe => Gated::Probe(hold.resume),
            Some(hold) => Gated::Until(hold.probe),
            None => Gated::Free,
        }
    }

    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.hold.map(|hold| hold.resume).filter(|resume| now < *resume)
    }

    /// A hint is a fact about the other side's window: it may lengthen a hold whenever it comes, and never shortens
    /// one. A limit without a hint says only "again": it lengthens only for calls that the last hold had let pass.
    pub(super) fn limited(&mut self, limited: Limited, row: &RateLimits, next: &mut dyn FnMut() -> u64) {
        let Limited { now, stamp, hint, probed } = limited;
        if stamp < self.ignore_before {
            return;
        }
        let hold = self.hold.filter(|hold| now < hold.resume);
        let fresh = probed || self.hold.is_none_or(|hold| stamp >= hold.since);
        self.latest_hint = self.latest_hint.max(hint);
        let paused = stamp >= self.paused_since && self.recent.push(now, row.count, row.within);
        let target = if paused {
            self.recent.clear();
            self.latest_hint.filter(|hint| *hint > now).unwrap_or_else(|| later(now, row.pause))
        } else if let Some(hint) = hint {
            self.hintless = 0;
            hint
        } else if fresh {
            let doubled = row.first_hold.saturating_mul(1_u32.checked_shl(self.hintless).unwrap_or(u32::MAX));
            self.hintless = self.hintless.saturating_add(1);
            later(now, doubled.min(row.max_hold))
        } else {
            now
        };
        let resume = hold.map_or(target, |hold| hold.resume.max(target));
        if resume <= now || (hold.is_some_and(|hold| hold.resume == resume) && !probed && !paused) {
            return;
        }
        let started = hold.filter(|_| !fresh && !probed && !paused).map_or(now, |hold| hold.started);
        let since = next();
        if paused {
            self.paused_since = since;
        }
        let probe = resume.min(later(started, row.max_hold));
        self.hold = Some(Hold { started, resume, probe, since });
    }

    /// A call that was not limited: it ends the doubling, and as a probe of a long hold the hold itself.
    pub(super) fn succeeded(&mut self, stamp: u64, probed: bool) {
        if probed || self.hold.is_none_or(|hold| stamp >= hold.since) {
            self.hintless = 0;
            if probed {
                // The hint was wrong: it must not come back with the next pause.
                (self.hold, self.latest_hint) = (None, None);
            }
        }
    }

    pub(super) fn reset(&mut self, epoch: u64) {
        *self = Self { ignore_before: epoch, ..Self::default() };
    }

    pub(super) fn count(&self, now: Instant, row: &RateLimits) -> u32 {
        self.recent.count(now, row.within)
    }

    /// Nothing held, nothing recent, and the doubling forgotten.
    pub(super) fn is_clear(&self, now: Instant, row: &RateLimits) -> bool {
        let quiet = |hold: Hold| now >= later(hold.resume, row.max_hold);
        self.count(now, row) == 0
            && self.hold.is_none_or(|hold| now >= hold.resume && (self.hintless == 0 || quiet(hold)))
    }

    pub(super) fn rewind(&mut self, by: Duration) {
        self.recent.rewind(by);
        self.latest_hint.iter_mut().for_each(|at| rewind(at, by));
        if let Some(hold) = &mut self.hold {
            for at in [&mut hold.started, &mut hold.resume, &mut hold.probe] {
                rewind(at, by);
            }
        }
    }
}
