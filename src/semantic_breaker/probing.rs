//! Tests a target with the user's own probe, where real calls must not be the test.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::Instant;
use tower::ServiceExt;

use super::{
    shared::{LAYER, NotAdmitted, ProbeLease, Shared, lock},
    state::Settled,
};
use crate::{
    call::Call,
    classify::error_verdict,
    error::{Error, Refusal, Rejected},
    keyed::At,
    reason::Reason,
    verdict::Verdict,
};

impl Shared {
    /// Tests the target with the user's probe, until it is well or ill; then refuses the call that came, which may
    /// be sent again at once if the target is well.
    pub(super) async fn run_probes(self: Arc<Self>, call: Call, mut lease: ProbeLease) -> Error {
        loop {
            let slot = ProbeSlot { shared: &self, call: &call, lease, settled: false };
            let verdict = self.run_probe(&call).await;
            slot.settle(&verdict);
            match self.admit(&call) {
                Err(NotAdmitted::Probe(next)) => lease = next,
                Err(NotAdmitted::Refused(error)) => return error,
                Ok(pass) => {
                    self.release(&call, &pass);
                    let scope = self.plan().scope(lease.circuit, &call);
                    let rejected = Rejected::new(LAYER, Refusal::Probing, scope, &call);
                    return self.refuse(rejected.with_retry_at(Instant::now()));
                }
            }
        }
    }

    async fn run_probe(&self, call: &Call) -> Verdict {
        let Some(probe) = lock(&self.probe).clone() else { return Verdict::new(Reason::Failed) };
        let lease = self.card().probe_lease;
        match tokio::time::timeout(lease, probe.oneshot(call.clone())).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => error_verdict(call, &*error),
            Err(_) => Verdict::new(Reason::Timeout),
        }
    }

    fn settle_probe(&self, call: &Call, ProbeLease { circuit, lease }: ProbeLease, verdict: &Verdict) {
        let (card, plan, now) = (self.card(), self.plan(), Instant::now());
        let stamp = self.epoch.load(Ordering::Acquire);
        let settled = Settled { lease: Some(lease), ..Settled::new(stamp, call.effect_kind(), verdict) };
        let changes =
            self.cells[circuit as usize].look(call, plan.scope(circuit, call), &At { now, rules: &*card }, |cell| {
                cell.settle(&settled, self.moment(now, &card, &mut || self.next_epoch()))
            });
        self.tell(circuit, call, plan, &changes.unwrap_or_default());
    }
}

/// The slot of a probe that is under way: dropping it gives it back.
struct ProbeSlot<'a> {
    shared: &'a Shared,
    call: &'a Call,
    lease: ProbeLease,
    settled: bool,
}

impl ProbeSlot<'_> {
    fn settle(mut self, verdict: &Verdict) {
        self.settled = true;
        self.shared.settle_probe(self.call, self.lease, verdict);
    }
}

impl Drop for ProbeSlot<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.shared.release_lease(self.call, self.lease);
        }
    }
}
