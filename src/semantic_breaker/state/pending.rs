//! Writes that may have been applied, until somebody finds out.

use std::time::Duration;

use tokio::time::Instant;

use super::window::rewind;
use crate::call::ActionId;

/// More than this many at one key are not told apart any more.
const MOST: usize = 256;

/// Whether an unknown write counts towards opening the circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// It counts.
    Counts,
    /// It opened the circuit before, or came late: a fact to reconcile, but no new signal.
    Spent,
}

#[derive(Debug)]
struct Write {
    at: Instant,
    action: Option<ActionId>,
    weight: Weight,
}

/// The unknown writes of one key, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pending {
    writes: Vec<Write>,
    /// When the last write was forgotten for want of room.
    forgotten: Option<Instant>,
}

impl Pending {
    /// Attempts at one action are one write; a write without an id is one by itself.
    pub(super) fn record(&mut self, now: Instant, action: Option<ActionId>, weight: Weight, within: Duration) {
        self.prune(now, within);
        let same = |write: &Write| action.is_some() && write.action == action;
        let before = self.writes.iter().position(same).map(|index| self.writes.remove(index).weight);
        if self.writes.len() >= MOST {
            let spent = self.writes.iter().position(|write| write.weight == Weight::Spent);
            let lost = self.writes.remove(spent.unwrap_or(0));
            self.forgotten = self.forgotten.max(Some(lost.at));
        }
        let weight = if before == Some(Weight::Counts) { Weight::Counts } else { weight };
        self.writes.push(Write { at: now, action, weight });
    }

    /// Takes a write off the list; says whether it was there.
    pub(super) fn reconcile(&mut self, action: ActionId) -> bool {
        let before = self.writes.len();
        self.writes.retain(|write| write.action != Some(action));
        self.writes.len() < before
    }

    /// How many count towards opening.
    pub(super) fn counting(&self, now: Instant, within: Duration) -> u32 {
        self.recent(now, within).filter(|write| write.weight == Weight::Counts).count() as u32
    }

    /// How many nobody has reconciled. After some were forgotten: as many as can be, since nobody can tell.
    pub(super) fn remaining(&self, now: Instant, within: Duration) -> u32 {
        if self.forgotten.is_some_and(|at| now.saturating_duration_since(at) < within) {
            return u32::MAX;
        }
        self.recent(now, within).count() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.forgotten.is_none()
    }

    pub(super) fn actions(&self) -> impl Iterator<Item = ActionId> + '_ {
        self.writes.iter().filter_map(|write| write.action)
    }

    pub(super) fn spend(&mut self) {
        self.weigh(Weight::Spent);
    }

    /// Lets what remains count again: the circuit was closed by findings, not by a recovery.
    pub(super) fn count_again(&mut self) {
        self.weigh(Weight::Counts);
    }

    pub(super) fn rewind(&mut self, by: Duration) {
        self.writes.iter_mut().for_each(|write| rewind(&mut write.at, by));
        self.forgotten.iter_mut().for_each(|at| rewind(at, by));
    }

    fn weigh(&mut self, weight: Weight) {
        self.writes.iter_mut().for_each(|write| write.weight = weight);
    }

    fn recent(&self, now: Instant, within: Duration) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(move |write| now.saturating_duration_since(write.at) < within)
    }

    fn prune(&mut self, now: Instant, within: Duration) {
        self.writes.retain(|write| now.saturating_duration_since(write.at) < within);
    }
}
