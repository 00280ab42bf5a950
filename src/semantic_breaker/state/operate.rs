//! What operators, reconciliation and the map of cells ask of a cell.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    cell::{Cell, Forced, Phase},
    config::TripCard,
    event::{Changes, Moment},
    evidence::Evidence,
    gate::Gated,
    window::later,
    words::{Circuit, Shift, Signal, Snapshot, State},
};
use crate::call::ActionId;

impl Cell {
    /// Refuses every call until `until`, or until [`reset`](Cell::reset) or [`force_closed`](Cell::force_closed).
    /// Afterwards the phase before goes on.
    pub(crate) fn force_open(&mut self, until: Option<Instant>, moment: Moment<'_>) -> Changes {
        self.operate(moment, |cell, moment| {
            cell.disown(moment);
            cell.forced = Some(Forced::Open { until });
        })
    }

    /// Lets every call pass, whatever comes of them, until [`reset`](Cell::reset) or
    /// [`force_open`](Cell::force_open).
    pub(crate) fn force_closed(&mut self, moment: Moment<'_>) -> Changes {
        self.operate(moment, |cell, moment| {
            cell.start_over(moment);
            cell.forced = Some(Forced::Closed);
        })
    }

    /// Closed, with clear windows and the first cool-down. Unknown writes stay listed, but count no more.
    pub(crate) fn reset(&mut self, moment: Moment<'_>) -> Changes {
        self.operate(moment, |cell, moment| {
            cell.start_over(moment);
            cell.forced = None;
        })
    }

    /// An unknown write was looked up: whether it was applied or not, it is known now. If fewer than the threshold
    /// remain, a circuit that opened for them closes; one whose probe has failed since does not.
    pub(crate) fn reconciled(&mut self, action: ActionId, moment: Moment<'_>) -> Changes {
        self.operate(moment, |cell, moment| {
            let Evidence::Writes(pending) = &mut cell.evidence else { return };
            let row = &moment.card.unknown_writes;
            let found = pending.reconcile(action);
            if !found || pending.remaining(moment.now, row.within) >= row.count.max(1) {
                return;
            }
            if let Phase::Open { cause: Signal::UnknownWrites, .. }
            | Phase::HalfOpen { cause: Signal::UnknownWrites, .. } = cell.phase
            {
                pending.count_again();
                cell.begin(Phase::Closed, moment);
            }
        })
    }

    /// The actions of unknown writes that nobody has reconciled yet.
    pub(crate) fn pending_writes(&self) -> impl Iterator<Item = ActionId> + '_ {
        let pending = match &self.evidence {
            Evidence::Writes(pending) => Some(pending),
            _ => None,
        };
        pending.into_iter().flat_map(|pending| pending.actions())
    }

    /// Whether the cell says no more than no cell would.
    ///
    /// For a while after its last phase it remembers which results are late, and how long its cool-down has grown. A
    /// day without any call forgets the rest, also a circuit that waits for its probe: keys that nobody uses any more
    /// must not fill the map for ever. What is never forgotten so is a write that is still to be reconciled, and that
    /// writes are stopped.
    pub(crate) fn is_clean(&self, now: Instant, card: &TripCard) -> bool {
        const IDLE: Duration = Duration::from_secs(86_400);
        let settled = || self.changed.is_none_or(|changed| now >= later(changed, card.max_cool_down));
        let idle = || now >= later(self.seen, IDLE);
        let is_known = || self.evidence.counts(now, card).unknown_writes == 0;
        let is_closed = self.is_closed(now);
        let may_go = || is_closed || (self.circuit != Circuit::Writes && self.is_untested(now));
        (is_closed && settled() && self.evidence.is_clear(now, card)) || (idle() && may_go() && is_known())
    }

    /// Whether the cell may be dropped for want of room: closed, nothing held, nothing to reconcile. An actor or a
    /// credential that any call may try again is as good as closed; a target is not, since only reads may try it.
    pub(crate) fn evictable(&self, now: Instant) -> bool {
        match &self.evidence {
            Evidence::Writes(pending) => self.is_closed(now) && pending.is_empty(),
            Evidence::Health(_) => self.is_closed(now),
            Evidence::Denials(_) | Evidence::Credential(_) => self.is_closed(now) || self.is_untested(now),
        }
    }

    /// Whether all that it waits for is one call that tries.
    fn is_untested(&self, now: Instant) -> bool {
        let waits = match self.state(now) {
            State::HalfOpen | State::AwaitingProbe => true,
            State::Gated => self.evidence.gate().is_some_and(|gate| matches!(gate.check(now), Gated::Probe(_))),
            State::Closed | State::Open | State::Recovering => false,
        };
        waits && !self.slot_taken(now)
    }

    fn is_closed(&self, now: Instant) -> bool {
        self.forced(now).is_none() && self.state(now) == State::Closed
    }

    /// The cell as it is now.
    pub(crate) fn snapshot(&self, now: Instant, card: &TripCard) -> Snapshot {
        let mut counts = self.evidence.counts(now, card);
        counts.failed_recoveries = self.cool.level();
        if let Phase::HalfOpen { successes, .. } = self.phase {
            counts.probe_successes = successes;
        }
        let state = self.state(now);
        let cause = (state != State::Closed || self.forced.is_some()).then(|| self.cause(now));
        Snapshot { circuit: self.circuit, state, cause, until: self.until(now), counts }
    }

    /// The state at `now`: an open circuit whose cool-down is over is half-open, though no call has asked yet.
    pub(super) fn state(&self, now: Instant) -> State {
        match (self.forced(now), &self.phase) {
            (Some(Forced::Open { .. }), _) => State::Open,
            (Some(Forced::Closed), _) => State::Closed,
            (None, Phase::Open { until, .. }) if now < *until => State::Open,
            _ if self.gated_until(now).is_some() => State::Gated,
            (None, Phase::HalfOpen { awaiting: true, .. }) if !self.slot_taken(now) => State::AwaitingProbe,
            (None, Phase::Open { .. } | Phase::HalfOpen { .. }) => State::HalfOpen,
            (None, Phase::Recovering { ends, .. }) if now < *ends => State::Recovering,
            (None, Phase::Recovering { .. } | Phase::Closed) => State::Closed,
        }
    }

    fn forced(&self, now: Instant) -> Option<Forced> {
        self.forced.filter(|forced| !matches!(forced, Forced::Open { until: Some(until) } if now >= *until))
    }

    fn gated_until(&self, now: Instant) -> Option<Instant> {
        self.evidence.gate().and_then(|gate| gate.until(now))
    }

    fn cause(&self, now: Instant) -> Signal {
        match (&self.phase, self.state(now)) {
            _ if self.forced(now).is_some() => Signal::Operator,
            (_, State::Gated) => Signal::RateLimits,
            (Phase::Open { cause, .. } | Phase::HalfOpen { cause, .. } | Phase::Recovering { cause, .. }, _) => *cause,
            (Phase::Closed, _) => Signal::Operator,
        }
    }

    fn until(&self, now: Instant) -> Option<Instant> {
        match (self.forced(now), self.state(now), &self.phase) {
            (Some(Forced::Open { until }), ..) => until,
            (_, State::Gated, _) => self.gated_until(now),
            (_, State::Open, Phase::Open { until, .. }) => Some(*until),
            (_, State::Recovering, Phase::Recovering { ends, .. }) => Some(*ends),
            _ => None,
        }
    }

    pub(crate) const fn circuit(&self) -> Circuit {
        self.circuit
    }

    /// The state that was last told: time alone may have ended it since.
    pub(crate) const fn told_state(&self) -> State {
        self.told.0
    }

    /// Reports a change of state, whatever brought it about.
    pub(super) fn tell(&mut self, moment: &Moment<'_>, changes: &mut Changes) {
        let (from, before) = self.told;
        let to = self.state(moment.now);
        // What opened a circuit is still the cause where it closes.
        let cause = if to == State::Closed { before } else { self.cause(moment.now) };
        self.told = (to, cause);
        if from != to {
            let until = self.until(moment.now);
            changes.transition = Some(Shift { circuit: self.circuit, from, to, cause, until });
        }
    }

    fn operate(&mut self, mut moment: Moment<'_>, act: impl FnOnce(&mut Self, &mut Moment<'_>)) -> Changes {
        let moment = &mut moment;
        let mut changes = Changes::default();
        self.tick(moment);
        act(self, moment);
        self.tell(moment, &mut changes);
        changes
    }

    fn start_over(&mut self, moment: &mut Moment<'_>) {
        self.begin(Phase::Closed, moment);
        self.evidence.clear();
        let since = self.since();
        if let Evidence::Credential(gate) = &mut self.evidence {
            gate.reset(since);
        }
        self.cool.start_anew();
    }
}
