//! Calls a run made, with the digests of what they brought, and never what they carried.

use tokio::time::Instant;

use super::{Outcome, OutcomeKind, Step};

/// So many calls are known at a time; then the one that was made longest ago is forgotten.
const KNOWN: usize = 64;
/// So many writes, and so many failures.
const WRITES: usize = 16;

/// What is known of the calls of a run.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: Vec<Known>,
    /// Successful writes and their results since the user spoke. What is among them changes nothing a second time.
    writes: Vec<(u64, u64)>,
    /// Calls that failed, how, and how often: no write and no word of the user makes it forgotten.
    failures: Vec<(u64, u64, u32)>,
}

/// A call that was made since something changed.
#[derive(Debug)]
pub(super) struct Known {
    key: u64,
    pub(super) result: u64,
    kind: OutcomeKind,
    /// How often it brought this result, in different steps.
    count: u32,
    /// How often running it failed, in whatever way.
    failed: u32,
    /// How often it was refused.
    refusals: u32,
    refused_at: Option<u32>,
    forgiven: bool,
    /// The step it was made in last.
    pub(super) step: u32,
    /// The news there was when it had its result.
    pub(super) news: u32,
    pub(super) answered_at: Instant,
    pub(super) changed_at: Instant,
}

/// What a result is to the call that brought it.
pub(super) struct Settled {
    pub(super) is_new: bool,
    /// It is known, and what it brings has changed: the world did.
    pub(super) is_change: bool,
    pub(super) times: u32,
    pub(super) failed: u32,
}

impl Known {
    pub(super) const fn times(&self) -> u32 {
        self.count + self.refusals
    }

    /// A failure that may pass is tried once more than others.
    fn grace(&self) -> u32 {
        u32::from(self.kind == OutcomeKind::Transient)
    }

    pub(super) fn is_repeated(&self, repeats: u32) -> bool {
        self.count >= repeats.saturating_add(self.grace())
    }

    /// It was asked once more than is warned of: other calls in between do not excuse it any more.
    pub(super) fn is_overdue(&self, repeats: u32) -> bool {
        self.times() > repeats.saturating_add(self.grace())
    }

    pub(super) fn is_refused_in(&self, step: u32) -> bool {
        self.refused_at == Some(step)
    }

    pub(super) fn was_refused(&self, now: u32) -> bool {
        self.refused_at.is_some_and(|at| at < now)
    }

    /// Whether it was refused, and there is news since: then it may come once more. What failed may not: hearing
    /// something new does not mend it.
    pub(super) fn is_forgiven(&mut self, news: u32) -> bool {
        let is_due = self.refused_at.is_some() && self.news != news && self.kind == OutcomeKind::Good && !self.forgiven;
        self.forgiven |= is_due;
        is_due
    }

    const fn renew(&mut self, count: u32) {
        self.count = count;
        self.failed = count;
        self.refusals = 0;
        self.refused_at = None;
        self.forgiven = false;
    }

    pub(super) const fn refuse(&mut self, step: u32, news: u32) {
        self.refusals += 1;
        self.refused_at = Some(step);
        self.step = step;
        self.news = news;
    }
}

impl Memory {
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.known.len() + self.writes.len() + self.failures.len()
    }

    pub(super) fn get(&mut self, key: u64) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.key == key)
    }

    pub(super) fn settle(&mut self, made: &Step, step: u32, outcome: &Outcome, now: Instant) -> Settled {
        let has_failed = outcome.kind != OutcomeKind::Good;
        let Some(known) = self.get(made.key) else {
            room(&mut self.known, KNOWN, |known| known.step);
            self.known.push(Known {
                key: made.key,
                result: outcome.digest,
                kind: outcome.kind,
                count: 1,
                failed: u32::from(has_failed),
                refusals: 0,
                refused_at: None,
                forgiven: false,
                step,
                news: 0,
                answered_at: now,
                changed_at: now,
            });
            return Settled { is_new: true, is_change: false, times: 1, failed: u32::from(has_failed) };
        };
        let differs = known.result != outcome.digest;
        let is_new = differs || known.count == 0;
        let is_change = differs && !has_failed && known.kind == OutcomeKind::Good;
        known.failed = match has_failed {
            true => known.failed.saturating_add(u32::from(known.step != step)),
            false => 0,
        };
        known.answered_at = now;
        if is_new {
            known.result = outcome.digest;
            known.kind = outcome.kind;
            known.count = 1;
            known.refusals = 0;
            known.refused_at = None;
            known.forgiven = false;
            if differs {
                known.changed_at = now;
            }
        } else if known.step != step {
            known.count = known.count.saturating_add(1);
        }
        known.step = known.step.max(step);
        Settled { is_new, is_change, times: known.times(), failed: known.failed }
    }

    pub(super) fn mark(&mut self, key: u64, news: u32) {
        if let Some(known) = self.get(key) {
            known.news = news;
        }
    }

    /// How often the call failed in this way. A success makes it none.
    pub(super) fn failures(&mut self, key: u64, outcome: &Outcome) -> u32 {
        let at = self.failures.iter().position(|failure| failure.0 == key);
        match (at, outcome.kind) {
            (None, OutcomeKind::Good) => 0,
            (Some(at), OutcomeKind::Good) => {
                self.failures.swap_remove(at);
                0
            }
            (Some(at), _) => {
                let (_, digest, count) = &mut self.failures[at];
                *count = if *digest == outcome.digest { count.saturating_add(1) } else { 1 };
                *digest = outcome.digest;
                *count
            }
            (None, _) => {
                room(&mut self.failures, WRITES, |failure| failure.2);
                self.failures.push((key, outcome.digest, 1));
                1
            }
        }
    }

    /// Whether this write was made before with this result; from now on it was.
    pub(super) fn is_known_write(&mut self, key: u64, digest: u64) -> bool {
        if self.writes.contains(&(key, digest)) {
            return true;
        }
        if self.writes.len() == WRITES {
            self.writes.remove(0);
        }
        self.writes.push((key, digest));
        false
    }

    /// Something changed: what is known may be asked again, and whether it brings the same tells whether it changed too.
    pub(super) fn renew_all_but(&mut self, key: u64) {
        for known in self.known.iter_mut().filter(|known| known.key != key) {
            known.renew(0);
        }
    }

    /// Of what was asked before only failures stay known, and as if they had come once.
    pub(super) fn user_spoke(&mut self) {
        self.writes.clear();
        self.known.retain_mut(|known| {
            known.renew(known.count.min(1));
            known.kind == OutcomeKind::Failed
        });
    }
}

/// Makes room for one more: the least goes.
fn room<T>(all: &mut Vec<T>, most: usize, rank: impl Fn(&T) -> u32) {
    if all.len() < most {
        return;
    }
    if let Some((least, _)) = all.iter().enumerate().min_by_key(|(_, item)| rank(item)) {
        all.swap_remove(least);
    }
}
