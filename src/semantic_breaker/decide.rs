//! Whether a call is sent, and what its end changes: at the price of a few shared reads while all is well.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::Instant;

use super::{
    plan::Plan,
    shared::{LAYER, Shared},
    state::{Admit, Ask, Cell, LeaseId, Settled, needs_cell},
    tell::no_room,
    words::{Circuit, Signal},
};
use crate::{
    call::{Call, Effect, KeyRef},
    error::{Error, Refusal, Rejected},
    keyed::{At, Claim},
    reason::{Class, Impact, Reason},
    verdict::Verdict,
};

/// In which order the circuits are asked: the one that spends a share of its calls comes last.
const ORDER: [Circuit; 4] = [Circuit::Denials, Circuit::Credential, Circuit::Writes, Circuit::Health];

/// The leave to send one call.
#[derive(Debug)]
pub(super) struct Pass {
    stamp: u64,
    started: Option<Instant>,
    leases: Option<Box<[Option<LeaseId>; 4]>>,
}

impl Pass {
    /// What was measured when the head of the answer came.
    #[inline]
    pub(super) fn sample(&self) -> Sample {
        Sample { latency: self.started.map(|started| Instant::now().saturating_duration_since(started)) }
    }

    #[inline]
    fn lease(&self, circuit: Circuit) -> Option<LeaseId> {
        self.leases.as_ref().and_then(|leases| leases[circuit as usize])
    }
}

/// What was measured of one call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    latency: Option<Duration>,
}

/// Why a call is not sent.
pub(super) enum NotAdmitted {
    Refused(Error),
    /// It runs the user's probe instead.
    Probe(ProbeLease),
}

/// The one slot in which a target is tested.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeLease {
    pub(super) circuit: Circuit,
    pub(super) lease: LeaseId,
}

impl Shared {
    #[inline]
    pub(super) fn admit(&self, call: &Call) -> Result<Pass, NotAdmitted> {
        let plan = self.plan();
        // The epoch before the marks and the cells: a trip marks its key before it begins a phase, so whoever sees the
        // phase's number also sees the mark, and whoever passed a cell before its phase began is late for it.
        let stamp = self.epoch.load(Ordering::Acquire);
        if plan.refuses_all() {
            return Err(NotAdmitted::Refused(self.refusal_of_all(call)));
        }
        let pass = Pass { stamp, started: plan.is_timed().then(Instant::now), leases: None };
        if !plan.is_off() && self.is_calm(call, plan) { Ok(pass) } else { self.admit_slowly(call, plan, pass) }
    }

    /// Whether no circuit has anything against this call's keys, at the price of a few shared reads.
    #[inline]
    fn is_calm(&self, call: &Call, plan: Plan) -> bool {
        let [health, writes, denials, credential] = &self.cells;
        (health.is_empty() && writes.is_empty() && denials.is_empty() && credential.is_empty())
            || ORDER.iter().all(|circuit| {
                let cells = &self.cells[*circuit as usize];
                let passes = *circuit == Circuit::Writes && call.effect_kind() == Effect::ReadOnly;
                passes || cells.is_empty() || cells.is_absent(&KeyRef::new(call, plan.scope(*circuit, call)))
            })
    }

    #[cold]
    fn admit_slowly(&self, call: &Call, plan: Plan, mut pass: Pass) -> Result<Pass, NotAdmitted> {
        let card = self.card();
        let now = Instant::now();
        let ask = Ask { effect: call.effect_kind(), deadline: call.deadline_at(), has_probe: plan.has_probe() };
        let mut probe = None;
        // What a dry run would have refused it for.
        let mut watched = plan.is_off().then(|| self.rejection_of_all(call, plan));
        for circuit in ORDER {
            if self.cells[circuit as usize].is_empty() {
                continue;
            }
            let scope = plan.scope(circuit, call);
            let admit = |cell: &mut Cell| {
                let (admit, changes) = cell.admit(&ask, self.moment(now, &card, &mut || self.next_epoch()));
                Some((admit, changes, cell.since()))
            };
            let looked = self.cells[circuit as usize].look(call, scope, &At { now, rules: &*card }, admit);
            let Some((admit, changes, since)) = looked else { continue };
            // Asking may have begun a phase, to which this call then belongs; what begins after it was asked does not
            // count it, and the listener that is told next may begin anything.
            pass.stamp = pass.stamp.max(since);
            self.tell(circuit, call, plan, &changes);
            match admit {
                Admit::Pass => {}
                Admit::Probe(lease) => pass.leases.get_or_insert_default()[circuit as usize] = Some(lease),
                Admit::RunProbe(lease) => {
                    pass.leases.get_or_insert_default()[circuit as usize] = Some(lease);
                    if let Some(other) = probe.replace(ProbeLease { circuit, lease }) {
                        self.release_lease(call, other);
                    }
                }
                Admit::Refuse { refusal, cause, retry_at } => {
                    let code = refusal_code(refusal, cause);
                    let rejected = Rejected::new(LAYER, code, scope, call).with_retry_at(retry_at);
                    if plan.is_dry_run() {
                        watched.get_or_insert(rejected);
                        continue;
                    }
                    self.release(call, &pass);
                    return Err(NotAdmitted::Refused(self.refuse(rejected)));
                }
            }
        }
        if let (Some(lease), Some(leases)) = (probe, &mut pass.leases) {
            leases[lease.circuit as usize] = None;
        }
        match probe {
            Some(lease) if plan.is_dry_run() => {
                self.release_lease(call, lease);
                let scope = plan.scope(lease.circuit, call);
                watched.get_or_insert_with(|| Rejected::new(LAYER, Refusal::Probing, scope, call));
            }
            Some(lease) => {
                self.release(call, &pass);
                return Err(NotAdmitted::Probe(lease));
            }
            None => {}
        }
        if let Some(rejected) = &watched {
            self.hooks().would_refuse(rejected);
        }
        Ok(pass)
    }

    #[inline]
    pub(super) fn settle(&self, call: &Call, pass: &Pass, verdict: &Verdict, sample: Sample) {
        let plan = self.plan();
        let says_nothing = match verdict.reason.impact(call.effect_kind()) {
            Impact::Neutral => verdict.class() != Class::Unknown || verdict.reason == Reason::Abandoned,
            _ => false,
        };
        if says_nothing && pass.leases.is_none() && !plan.counts_successes() && self.is_calm(call, plan) {
            return;
        }
        self.settle_slowly(call, plan, pass, verdict, sample);
    }

    #[cold]
    fn settle_slowly(&self, call: &Call, plan: Plan, pass: &Pass, verdict: &Verdict, sample: Sample) {
        let card = self.card();
        let now = Instant::now();
        for circuit in ORDER {
            let settled = Settled {
                stamp: pass.stamp,
                lease: pass.lease(circuit),
                effect: call.effect_kind(),
                action: call.action_id(),
                verdict,
                latency: sample.latency,
                queued: call.queue_length() > 0,
                score: verdict.score(),
                cost: verdict.cost(),
            };
            let settle = |cell: &mut Cell| cell.settle(&settled, self.moment(now, &card, &mut || self.next_epoch()));
            let (cells, scope) = (&self.cells[circuit as usize], plan.scope(circuit, call));
            let at = At { now, rules: &*card };
            // A probe's outcome belongs to the cell that gave the slot, wherever a new one would be made now.
            let held = settled
                .lease
                .and_then(|lease| cells.look(call, scope, &at, |cell| cell.holds(lease).then(|| settle(cell))));
            let changes = match held {
                Some(changes) => Some(changes),
                None if needs_cell(circuit, &settled, &card) => {
                    let made = cells.make(call, scope, Claim::Call, &at, || self.new_cell(circuit, now), settle);
                    if made.is_none() {
                        no_room(circuit);
                    }
                    made
                }
                None => cells.look(call, scope, &at, |cell| Some(settle(cell))),
            };
            self.tell(circuit, call, plan, &changes.unwrap_or_default());
        }
    }

    /// Gives back what a call holds that was not sent, or of which nothing is known.
    pub(super) fn release(&self, call: &Call, pass: &Pass) {
        let Some(leases) = &pass.leases else { return };
        for circuit in ORDER {
            if let Some(lease) = leases[circuit as usize] {
                self.release_lease(call, ProbeLease { circuit, lease });
            }
        }
    }

    pub(super) fn release_lease(&self, call: &Call, ProbeLease { circuit, lease }: ProbeLease) {
        let card = self.card();
        let at = At { now: Instant::now(), rules: &*card };
        let release = |cell: &mut Cell| cell.release(lease).then_some(());
        self.cells[circuit as usize].look(call, self.plan().scope(circuit, call), &at, release);
    }

    pub(super) fn reason_of_abandoned(&self, waited: Duration) -> Reason {
        self.card().abandoned(waited)
    }
}

fn refusal_code(refusal: Refusal, cause: Signal) -> Refusal {
    match (refusal, cause) {
        (Refusal::Open, Signal::Malformed | Signal::Quality) => Refusal::Degraded,
        (refusal, _) => refusal,
    }
}
