//! The phases of one circuit for one key: who passes in each, and which results end it.
//!
//! A cell is made for the first result that [`needs_cell`](super::evidence::needs_cell), and dropped again when it
//! [`is_clean`](Cell::is_clean).

use tokio::time::Instant;

use super::{
    cooldown::{CoolDown, earns, share},
    event::{Admit, Ask, Changes, Moment, Settled},
    evidence::{Evidence, Meaning, Voucher, meaning},
    gate::{Gated, Limited},
    lease::Held,
    pending::Weight,
    window::later,
    words::{Circuit, Notice, Signal, State},
};
use crate::{call::Effect, error::Refusal, reason::Impact};

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
    pub(super) lease: Option<Held>,
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

    /// The epoch at which the phase began.
    pub(crate) const fn since(&self) -> u64 {
        self.since
    }

    /// Whether a call may pass.
    pub(crate) fn admit(&mut self, ask: &Ask, mut moment: Moment<'_>) -> (Admit, Changes) {
        let moment = &mut moment;
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
                changes.alert = Some(Notice::AwaitingProbe);
            }
            return refuse(Refusal::AwaitingProbe, *cause, None);
        };
        *awaiting = false;
        let lease = self.grant(voucher, ask, moment);
        if voucher == Voucher::Probe { Admit::RunProbe(lease) } else { Admit::Probe(lease) }
    }

    /// Counts what came of a call, if it still belongs to this phase.
    ///
    /// Two kinds of facts are kept whenever they come: an unknown write is listed for reconciliation (late, it does
    /// not count towards opening), and a rate limit's hint can lengthen a hold.
    pub(crate) fn settle(&mut self, settled: &Settled<'_>, mut moment: Moment<'_>) -> Changes {
        let moment = &mut moment;
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
            Circuit::Denials => changes.alert = Some(Notice::ActorBlocked),
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
