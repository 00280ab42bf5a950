//! Tells the outside what was decided: tracing, metrics, the listener and the alert sink.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::{
    shared::LAYER,
    state::Changes,
    words::{self, Circuit, Signal, State},
};
use crate::{
    call::Scope,
    error::Rejected,
    events::{Alert, AlertKind, AlertSink, Event, Listener, Transition},
};

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new(module_path!(), metrics::Level::INFO, Some(module_path!()));

/// Who is told.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    pub(super) listener: Option<Arc<dyn Listener>>,
    pub(super) alerts: Option<Arc<dyn AlertSink>>,
}

/// What changed at one key.
pub(super) struct News<'a> {
    pub(super) circuit: Circuit,
    pub(super) scope: Scope,
    pub(super) key: String,
    pub(super) changes: &'a Changes,
}

impl Hooks {
    pub(super) fn tell(&self, news: &News<'_>) {
        let Changes { transition, alert, reconcile } = news.changes;
        if let Some(words::Shift { from, to, cause, .. }) = *transition {
            let News { circuit, scope, key, .. } = news;
            tracing::warn!(layer = LAYER, %circuit, %key, %from, %to, signal = %cause, "breaker state changed");
            let labels = [("circuit", circuit.code()), ("to", to.code()), ("signal", cause.code())];
            metrics::counter!("belay_breaker_transitions_total", &labels).increment(1);
            // One gauge a state, so that no scrape sees a circuit in two states or in none.
            gauge(*circuit, from, -1.0);
            gauge(*circuit, to, 1.0);
            let transition =
                Transition { circuit: *circuit, scope: *scope, key: key.clone(), from, to, signal: Some(cause) };
            self.hear(&Event::Transition(&transition));
            if (to, cause) == (State::Open, Signal::Credential) {
                self.alert(AlertKind::Credential, key);
            }
        }
        match alert {
            Some(words::Notice::ActorBlocked) => self.alert(AlertKind::Security, &news.key),
            Some(words::Notice::AwaitingProbe) => self.alert(AlertKind::AwaitingProbe, &news.key),
            None => {}
        }
        if *reconcile {
            self.alert(AlertKind::Reconcile, &news.key);
        }
    }

    pub(super) fn refused(&self, rejected: &Rejected) {
        tracing::debug!(layer = LAYER, code = rejected.code().code(), "call refused");
        metrics::with_recorder(|recorder| {
            recorder.register_counter(rejected.code().counter(), &METADATA).increment(1);
        });
        self.hear(&Event::Refused(rejected));
    }

    pub(super) fn would_refuse(&self, rejected: &Rejected) {
        tracing::debug!(layer = LAYER, code = rejected.code().code(), "call would be refused");
        metrics::counter!("belay_would_refuse_total", "layer" => LAYER, "code" => rejected.code().code()).increment(1);
        self.hear(&Event::WouldRefuse(rejected));
    }

    fn hear(&self, event: &Event<'_>) {
        if let Some(listener) = &self.listener {
            contained(|| listener.on_event(event));
        }
    }

    fn alert(&self, kind: AlertKind, key: &str) {
        tracing::error!(layer = LAYER, ?kind, key, "alert");
        metrics::counter!("belay_alerts_total", "layer" => LAYER, "kind" => kind.code()).increment(1);
        if let Some(alerts) = &self.alerts {
            contained(|| alerts.alert(&Alert::new(kind, key)));
        }
    }
}

/// Whoever is told has no say: a panic there must neither lose what is still to be counted or given back, nor end the
/// process where a call is settled because another panic drops it.
fn contained(tell: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(tell)).is_err() {
        tracing::error!(layer = LAYER, "a listener or an alert sink panicked");
    }
}

/// How many circuits are in each state but closed.
pub(super) fn gauge(circuit: Circuit, state: State, by: f64) {
    if state != State::Closed {
        metrics::gauge!("belay_breaker_circuits", "circuit" => circuit.code(), "state" => state.code()).increment(by);
    }
}

/// The cap was reached, and keys of this circuit share nothing: nothing is kept of this one.
pub(super) fn no_room(circuit: Circuit) {
    metrics::counter!("belay_breaker_no_room_total", "circuit" => circuit.code()).increment(1);
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use tokio::time::{Instant, advance};
    use tower::{Layer, ServiceExt, service_fn};

    use super::*;
    use crate::{
        call::{Call, Effect},
        classify::classify_fn,
        reason::Reason,
        semantic_breaker::{BreakerHandle, SemanticBreakerLayer, TripCard},
        verdict::Verdict,
    };

    /// What all gauges add up to after a circuit was gated, everybody went away for a day, and `look` looked at it.
    fn gauges_after(look: impl FnOnce(BreakerHandle, Call)) -> f64 {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        metrics::with_local_recorder(&recorder, || {
            runtime.expect("a runtime").block_on(async {
                let call = Call::to("llm").effect(Effect::ReadOnly);
                let names = call.clone();
                let limited = |at: &Instant| Verdict::new(Reason::RateLimited).with_retry_at(*at);
                let layer = SemanticBreakerLayer::new(TripCard::default())
                    .classifier(classify_fn(move |_: &Instant| names.clone()).judge(limited));
                let service = layer.layer(service_fn(|at: Instant| async move { Ok::<_, Infallible>(at) }));
                assert!(service.oneshot(Instant::now() + Duration::from_secs(5)).await.is_ok());
                assert_eq!(layer.handle().state(&call), State::Gated);
                advance(Duration::from_secs(86_400)).await;
                look(layer.handle(), call);
                assert_eq!(layer.handle().unhealthy(), 0);
            });
        });
        let values = snapshotter.snapshot().into_vec().into_iter().map(|(.., value)| match value {
            DebugValue::Gauge(value) => value.into_inner(),
            _ => 0.0,
        });
        values.sum()
    }

    #[test]
    fn a_circuit_that_is_forgotten_leaves_its_gauge() {
        assert_eq!(gauges_after(|handle, call| assert_eq!(handle.state(&call), State::Closed)), 0.0);
        assert_eq!(gauges_after(|handle, _| drop(handle.all())), 0.0);
    }
}
