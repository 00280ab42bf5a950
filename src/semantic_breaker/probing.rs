//! Tests a target with the user's own probe, where real calls must not be the test.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::Instant;
use tower::ServiceExt;

use super::{
    decide::{NotAdmitted, ProbeLease},
    shared::{LAYER, Shared},
    state::{Cell, Settled},
    words::Circuit,
};
use crate::{
    call::Call,
    classify::error_verdict,
    error::{Error, Refusal, Rejected},
    keyed::At,
    lock::lock,
    reason::Reason,
    verdict::Verdict,
};

/// Tests the target with the user's probe, until it is well or ill or the probe cannot tell; then refuses the call that
/// came, which may be sent again at once if the target is well.
pub(super) async fn run_probes(mut slot: ProbeSlot) -> Error {
    let (shared, call) = (slot.shared.clone(), slot.call.clone());
    loop {
        let verdict = shared.run_probe(&call).await;
        let circuit = slot.lease.circuit;
        slot.settle(&verdict);
        match shared.admit(&call) {
            Err(NotAdmitted::Probe(next)) if verdict.is_success() => slot = ProbeSlot::new(&shared, &call, next),
            // It says nothing of the target, and would say it again at once: the next call may try.
            Err(NotAdmitted::Probe(next)) => {
                shared.release_lease(&call, next);
                return shared.still_probing(&call, next.circuit, verdict.retry_at);
            }
            Err(NotAdmitted::Refused(error)) => return error,
            Ok(pass) => {
                shared.release(&call, &pass);
                return shared.still_probing(&call, circuit, Some(Instant::now()));
            }
        }
    }
}

impl Shared {
    fn still_probing(&self, call: &Call, circuit: Circuit, retry_at: Option<Instant>) -> Error {
        let scope = self.plan().scope(circuit, call);
        self.refuse(Rejected::new(LAYER, Refusal::Probing, scope, call).with_retry_at(retry_at))
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
        let settle = |cell: &mut Cell| cell.settle(&settled, self.moment(now, &card, &mut || self.next_epoch()));
        let (cells, at) = (&self.cells[circuit as usize], At { now, rules: &*card });
        let changes = cells.look(call, plan.scope(circuit, call), &at, |cell| {
            // What comes after the slot was lost is still a fact, where there is anything to keep it.
            cell.holds(lease).then(|| settle(cell))
        });
        let changes = changes.or_else(|| cells.look(call, plan.scope(circuit, call), &at, |cell| Some(settle(cell))));
        self.tell(circuit, call, plan, &changes.unwrap_or_default());
    }
}

/// The slot of a probe that is under way, or about to be: dropping it gives it back.
pub(super) struct ProbeSlot {
    shared: Arc<Shared>,
    call: Call,
    lease: ProbeLease,
    settled: bool,
}

impl ProbeSlot {
    pub(super) fn new(shared: &Arc<Shared>, call: &Call, lease: ProbeLease) -> Self {
        Self { shared: shared.clone(), call: call.clone(), lease, settled: false }
    }

    fn settle(&mut self, verdict: &Verdict) {
        self.settled = true;
        self.shared.settle_probe(&self.call, self.lease, verdict);
    }
}

impl Drop for ProbeSlot {
    fn drop(&mut self) {
        if !self.settled {
            self.shared.release_lease(&self.call, self.lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        time::Duration,
    };

    use tower::{BoxError, Layer, ServiceExt, service_fn};

    use super::*;
    use crate::{
        call::Effect,
        classify::classify_fn,
        events::Event,
        semantic_breaker::{SemanticBreakerLayer, TripCard},
    };

    /// Five writes that fail; ten minutes later a sixth. Its refusal, and how often the probe ran until then.
    async fn sixth_write(probed: Reason, dry_run: bool) -> (Option<Refusal>, usize, Vec<Refusal>) {
        let (runs, would) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (counter, hears) = (runs.clone(), would.clone());
        let mut layer = SemanticBreakerLayer::new(TripCard::default())
            .probe(service_fn(move |_: Call| {
                counter.fetch_add(1, SeqCst);
                async move { Ok::<_, BoxError>(Verdict::new(probed)) }
            }))
            .listener(move |event: &Event<'_>| {
                if let Event::WouldRefuse(rejected) = event {
                    lock(&hears).push(rejected.code());
                }
            });
        if dry_run {
            layer = layer.dry_run();
        }
        let names = |_: &Reason| Call::to("crm").effect(Effect::Consequential);
        let echo = service_fn(|reason: Reason| async move { Ok::<_, Infallible>(reason) });
        let service = layer.classifier(classify_fn(names).judge(|reason: &Reason| *reason)).layer(echo);
        for _ in 0..5 {
            assert!(service.clone().oneshot(Reason::Failed).await.is_ok());
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        let refusal = service.oneshot(Reason::Completed).await.err();
        let code = refusal.and_then(|error| error.rejected().map(Rejected::code));
        (code, runs.load(SeqCst), lock(&would).clone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_cannot_tell_is_not_repeated_until_the_next_call() {
        for reason in [Reason::RateLimited, Reason::NotFound, Reason::Unauthenticated, Reason::Abandoned] {
            assert_eq!(sixth_write(reason, false).await, (Some(Refusal::Probing), 1, vec![]), "{reason}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_goes_on_until_the_target_is_well() {
        assert_eq!(sixth_write(Reason::Completed, false).await.1, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dry_run_tells_of_a_write_that_a_probe_would_replace_and_sends_it() {
        assert_eq!(sixth_write(Reason::Completed, true).await, (None, 0, vec![Refusal::Probing]));
    }
}
