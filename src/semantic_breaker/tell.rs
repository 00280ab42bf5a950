//! Tells the outside what was decided: tracing, metrics, the listener and the alert sink.

use std::{fmt, sync::Arc};

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
            listener.on_event(event);
        }
    }

    fn alert(&self, kind: AlertKind, key: &str) {
        tracing::error!(layer = LAYER, ?kind, key, "alert");
        metrics::counter!("belay_alerts_total", "layer" => LAYER, "kind" => kind.code()).increment(1);
        if let Some(alerts) = &self.alerts {
            alerts.alert(&Alert::new(kind, key));
        }
    }
}

/// How many circuits are in each state but closed.
fn gauge(circuit: Circuit, state: State, by: f64) {
    if state != State::Closed {
        metrics::gauge!("belay_breaker_circuits", "circuit" => circuit.code(), "state" => state.code()).increment(by);
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}
