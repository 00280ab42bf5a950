//! The state machine of one circuit for one key: event and instant in, decision out.
//!
//! Healthy keys have no cell. One is made for the first result that [`needs_cell`](super::evidence::needs_cell), and
//! dropped again when it [`is_clean`](Cell::is_clean).

use std::time::Duration;

use tokio::time::Instant;

use super::{
    config::TripCard,
    cooldown::{CoolDown, earns, share},
    evidence::{Evidence, Meaning, Voucher, meaning},
    gate::{Gated, Limited},
    pending::Weight,
    window::{later, rewind},
    words::{Alert, Circuit, Refusal, Signal, State, Transition},
};
use crate::{
    call::{ActionId, Effect},
    reason::Impact,
    verdict::Verdict,
};

/// When something happens, under which settings, and the next number of the breaker-wide epoch.
///
/// Each admission is stamped with the epoch as it is when the call was admitted (read it after
/// [`admit`](Cell::admit)); a phase begins at a fresh one, so that results of calls admitted before it are late.
/// `next` must never give a number twice, and what it gave last is the epoch.
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
    pub(crate) transition: Option<Transition>,
    pub(crate) alert: Option<Alert>,
    /// Whether to look up the [`pending_writes`](Cell::pending_writes) now.
    pub(crate) reconcile: bool,
}

#[derive(Debug)]
pub(super) enum Phase {
    Closed,
    Open {
        until: Instant,
        cause: Signal,
    },
    HalfOpen {
        successes: u32,
        cause: Signal,
        /// The last call that asked could not be a probe.
        awaiting: bool,
        alerted: bool,
    },
    Recovering {
        started: Instant,
        ends: Instant,
        cause: Signal,
        credit: u32,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Forced {
    Open { until: Option<Instant> },
    Closed,
}

#[derive(Debug)]
struct Held {
    id: LeaseId,
    expires: Instant,
    voucher: Voucher,
}

/// One circuit for one key.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(super) circuit: Circuit,
    /// The epoch at which the phase began.
    since: u64,
    /// The latest instant seen.
    pub(super) seen: Instant,
    /// When the phase last changed, if it ever did.
    pub(super) changed: Option<Instant>,
    /// The state that was last told, and why it was not closed.
    pub(super) told: (State, Signal),
    pub(super) forced: Option<Forced>,
    pub(super) phase: Phase,
    lease: Option<Held>,
    pub(super) cool: CoolDown,
    pub(super) evidence: Evidence,
}

impl Cell {
    /// A closed circuit; `seed` decides its jitter.
    pub(crate) fn new(circuit: Circuit, seed: u64, now: Instant) -> Self {
        Self {
            circuit,
            since: 0,
            seen: now,
            changed: None,
            told: (State::Closed, Signal::Operator),
            forced: None,
            phase: Phase::Closed,
            lease: None,
            cool: CoolDown::new(seed),
            evidence: Evidence::new(circuit),
        }
    }

    /// Whether a call may pass.
    pub(crate) fn admit(&mut self, ask: &Ask, moment: &mut Moment<'_>) -> (Admit, Changes) {
        if self.circuit == Circuit::Writes && ask.effect == Effect::ReadOnly {
            return (Admit::Pass, Changes::default());
        }
        self.tick(moment);
        let mut changes = Changes::default();
        let admit = match self.forced {
            Some(Forced::Open { until }) => refuse(Refusal::ForcedOpen, Signal::Operator, until),
            Some(Forced::Closed) => Admit::Pass,
            None => self.admit_by_phase(ask, moment, &mut changes),
        };
        self.tell(moment, &mut changes);
        (admit, changes)
    }

    fn admit_by_phase(&mut self, ask: &Ask, moment: &mut Moment<'_>, changes: &mut Changes) -> Admit {
        let now = moment.now;
        if let Phase::Open { until, cause } = self.phase {
            if now < until {
                return refuse(open_refusal(self.circuit), cause, Some(until));
            }
            self.begin(Phase::HalfOpen { successes: 0, cause, awaiting: false, alerted: false }, moment);
        }
        let gated = self.evidence.gate().map_or(Gated::Free, |gate| gate.check(now));
        let busy = self.lease.as_ref().map(|held| held.expires).filter(|expires| now < *expires);
        match (gated, busy) {
            (Gated::Until(at), _) => return refuse(Refusal::Gated, Signal::RateLimits, Some(at)),
            (Gated::Probe(resume), Some(_)) => return refuse(Refusal::Gated, Signal::RateLimits, Some(resume)),
            _ => {}
        }
        match &mut self.phase {
            Phase::HalfOpen { cause, .. } => {
                if let Some(expires) = busy {
                    return refuse(Refusal::Probing, *cause, Some(expires));
                }
                self.probe(ask, moment, changes)
            }
            Phase::Recovering { started, ends, cause, credit } => {
                if !earns(credit, share(*started, *ends, now, moment.card)) {
                    return refuse(Refusal::Recovering, *cause, None);
                }
                self.pass(gated, ask, moment)
            }
            Phase::Closed | Phase::Open { .. } => self.pass(gated, ask, moment),
        }
    }

    fn pass(&mut self, gated: Gated, ask: &Ask, moment: &mut Moment<'_>) -> Admit {
        match gated {
            Gated::Probe(_) => Admit::Probe(self.grant(Voucher::Call, ask, moment)),
            _ => Admit::Pass,
        }
    }

    /// The slot of a half-open circuit is free: who takes it?
    fn probe(&mut self, ask: &Ask, moment: &mut Moment<'_>, changes: &mut Changes) -> Admit {
        let Phase::HalfOpen { cause, awaiting, alerted, .. } = &mut self.phase else { return Admit::Pass };
        // A denied or unauthenticated call was certainly not applied, and the target is well: any call may ask again.
        let harmless = ask.effect == Effect::ReadOnly || matches!(self.circuit, Circuit::Denials | Circuit::Credential);
        let voucher = if harmless {
            Voucher::Call
        } else if ask.has_probe {
            Voucher::Probe
        } else if moment.card.live_probes {
            Voucher::Call
        } else {
            *awaiting = true;
            if !std::mem::replace(alerted, true) {
                changes.alert = Some(Alert::AwaitingProbe);
            }
            return refuse(Refusal::AwaitingProbe, *cause, None);
        };
        *awaiting = false;
        let lease = self.grant(voucher, ask, moment);
        if voucher == Voucher::Probe { Admit::RunProbe(lease) } else { Admit::Probe(lease) }
    }

    fn grant(&mut self, voucher: Voucher, ask: &Ask, moment: &mut Moment<'_>) -> LeaseId {
        /// A deadline that never comes must not hold the slot for ever.
        const LONGEST: Duration = Duration::from_secs(3_600);
        let now = moment.now;
        // A deadline that has passed says nothing about how long the call will take.
        let deadline = ask.deadline.filter(|deadline| *deadline > now);
        let expires = deadline.unwrap_or_else(|| later(now, moment.card.probe_lease)).min(later(now, LONGEST));
        let id = LeaseId((moment.next)());
        self.lease = Some(Held { id, expires, voucher });
        id
    }

    /// Counts what came of a call, if it still belongs to this phase.
    ///
    /// Two kinds of facts are kept whenever they come: an unknown write is listed for reconciliation (late, it does
    /// not count towards opening), and a rate limit's hint can lengthen a hold.
    pub(crate) fn settle(&mut self, settled: &Settled<'_>, moment: &mut Moment<'_>) -> Changes {
        let held = self.take_lease(settled.lease);
        let mut changes = Changes::default();
        if self.circuit == Circuit::Writes && settled.effect == Effect::ReadOnly && held.is_none() {
            return changes;
        }
        self.tick(moment);
        self.keep_facts(settled, held.is_some(), moment, &mut changes);
        if self.forced.is_none() && (held.is_some() || settled.stamp >= self.since) {
            self.judge(settled, held, moment, &mut changes);
        }
        self.tell(moment, &mut changes);
        changes
    }

    fn keep_facts(&mut self, settled: &Settled<'_>, probed: bool, moment: &mut Moment<'_>, changes: &mut Changes) {
        let Moment { now, card, .. } = *moment;
        let late = settled.stamp < self.since;
        let counts = self.forced.is_none() && matches!(self.phase, Phase::Closed | Phase::Recovering { .. }) && !late;
        match &mut self.evidence {
            Evidence::Writes(pending) if settled.is_unknown_write() && card.unknown_writes.enabled => {
                let weight = if counts { Weight::Counts } else { Weight::Spent };
                pending.record(now, settled.action, weight, card.unknown_writes.within);
                changes.reconcile = !counts;
            }
            Evidence::Credential(gate) if card.rate_limits.enabled && self.forced.is_none() => {
                if settled.impact() == Impact::Gate {
                    let limited = Limited { now, stamp: settled.stamp, hint: settled.verdict.retry_at, probed };
                    gate.limited(limited, &card.rate_limits, &mut *moment.next);
                } else if settled.verdict.is_success() {
                    gate.succeeded(settled.stamp, probed);
                }
            }
            _ => {}
        }
    }

    fn judge(&mut self, settled: &Settled<'_>, held: Option<Voucher>, moment: &mut Moment<'_>, changes: &mut Changes) {
        match &mut self.phase {
            Phase::Closed => {
                if let Some(signal) = self.evidence.count(settled, moment) {
                    self.trip(signal, moment, changes);
                }
            }
            Phase::Recovering { .. } => {
                if let Some(signal) = self.evidence.count(settled, moment) {
                    self.cool.lengthen();
                    self.trip(signal, moment, changes);
                }
            }
            Phase::HalfOpen { successes, cause, .. } => {
                let Some(voucher) = held else { return };
                match meaning(self.circuit, settled, voucher, moment.card) {
                    Meaning::Nothing => {}
                    Meaning::Bad(signal) => {
                        self.cool.lengthen();
                        self.trip(signal, moment, changes);
                    }
                    Meaning::Good => {
                        *successes = successes.saturating_add(1);
                        if *successes >= moment.card.probes {
                            let (started, cause) = (moment.now, *cause);
                            let ends = later(started, moment.card.ramp);
                            self.begin(Phase::Recovering { started, ends, cause, credit: 0 }, moment);
                            self.finish_ramp(moment.now);
                        }
                    }
                }
            }
            Phase::Open { .. } => {}
        }
    }

    fn trip(&mut self, cause: Signal, moment: &mut Moment<'_>, changes: &mut Changes) {
        let until = later(moment.now, self.cool.draw(moment.card));
        self.begin(Phase::Open { until, cause }, moment);
        self.evidence.clear();
        match self.circuit {
            Circuit::Denials => changes.alert = Some(Alert::ActorBlocked),
            Circuit::Writes => changes.reconcile = true,
            Circuit::Health | Circuit::Credential => {}
        }
    }

    /// Starts a phase: whoever was admitted before it is late, and its probe is nobody's any more.
    pub(super) fn begin(&mut self, phase: Phase, moment: &mut Moment<'_>) {
        self.phase = phase;
        self.disown(moment);
    }

    pub(super) fn disown(&mut self, moment: &mut Moment<'_>) {
        self.since = (moment.next)();
        self.changed = Some(moment.now);
        self.lease = None;
    }

    /// A probe that was dropped without an outcome: the slot comes free.
    pub(crate) fn release(&mut self, lease: LeaseId) {
        self.take_lease(Some(lease));
    }

    /// A lease that has expired is still its owner's until another call takes the slot.
    fn take_lease(&mut self, lease: Option<LeaseId>) -> Option<Voucher> {
        let held = self.lease.take_if(|held| Some(held.id) == lease)?;
        Some(held.voucher)
    }

    pub(super) fn slot_taken(&self, now: Instant) -> bool {
        self.lease.as_ref().is_some_and(|held| now < held.expires)
    }

    /// What time alone changes. A clock that goes back takes everything with it; a little disorder between threads
    /// does not.
    pub(super) fn tick(&mut self, moment: &mut Moment<'_>) {
        const DISORDER: Duration = Duration::from_secs(1);
        let back = self.seen.saturating_duration_since(moment.now);
        if back > DISORDER {
            self.rewind(back);
        } else {
            moment.now = moment.now.max(self.seen);
        }
        self.seen = moment.now;
        if let Some(Forced::Open { until: Some(until) }) = self.forced
            && moment.now >= until
        {
            self.forced = None;
            self.disown(moment);
        }
        self.finish_ramp(moment.now);
    }

    /// The end of a ramp begins no phase: calls admitted while recovering still belong.
    fn finish_ramp(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Recovering { ends, .. } if now >= ends) {
            self.phase = Phase::Closed;
            self.changed = Some(now);
            self.cool.start_anew();
        }
    }

    fn rewind(&mut self, by: Duration) {
        match &mut self.phase {
            Phase::Open { until, .. } => rewind(until, by),
            Phase::Recovering { started, ends, .. } => [started, ends].into_iter().for_each(|at| rewind(at, by)),
            Phase::Closed | Phase::HalfOpen { .. } => {}
        }
        if let Some(Forced::Open { until: Some(until) }) = &mut self.forced {
            rewind(until, by);
        }
        self.lease.iter_mut().for_each(|held| rewind(&mut held.expires, by));
        self.changed.iter_mut().for_each(|at| rewind(at, by));
        self.evidence.rewind(by);
    }
}

fn refuse(refusal: Refusal, cause: Signal, retry_at: Option<Instant>) -> Admit {
    Admit::Refuse { refusal, cause, retry_at }
}

const fn open_refusal(circuit: Circuit) -> Refusal {
    match circuit {
        Circuit::Health => Refusal::Open,
        Circuit::Writes => Refusal::WritesOpen,
        Circuit::Denials => Refusal::ActorBlocked,
        Circuit::Credential => Refusal::CredentialOpen,
    }
}
