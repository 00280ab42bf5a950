//! Tells the outside what a layer refused: tracing, metrics, the listener.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    error::{Error, Rejected},
    events::{Event, Listener},
    lock::lock,
};

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new(module_path!(), metrics::Level::INFO, Some(module_path!()));

/// Speaks for one layer.
pub(crate) struct Teller {
    layer: &'static str,
    /// Whether there is a listener, so that without one nobody locks.
    heard: AtomicBool,
    listener: Mutex<Option<Arc<dyn Listener>>>,
}

impl Teller {
    pub(crate) fn new(layer: &'static str) -> Self {
        Self { layer, heard: AtomicBool::new(false), listener: Mutex::default() }
    }

    pub(crate) fn listen(&self, listener: impl Listener) {
        *lock(&self.listener) = Some(Arc::new(listener));
        self.heard.store(true, Ordering::Release);
    }

    /// The call is not sent.
    pub(crate) fn refuse(&self, rejected: Rejected) -> Error {
        tracing::debug!(layer = self.layer, code = rejected.code().code(), "call refused");
        metrics::with_recorder(|recorder| {
            recorder.register_counter(rejected.code().counter(), &METADATA).increment(1);
        });
        self.hear(&Event::Refused(&rejected));
        rejected.into()
    }

    /// The layer only watches: the call is sent.
    pub(crate) fn would_refuse(&self, rejected: &Rejected) {
        let code = rejected.code().code();
        tracing::debug!(layer = self.layer, code, "call would be refused");
        metrics::counter!("belay_would_refuse_total", "layer" => self.layer, "code" => code).increment(1);
        self.hear(&Event::WouldRefuse(rejected));
    }

    /// Tells the listener, if there is one.
    pub(crate) fn hear(&self, event: &Event<'_>) {
        self.hear_with(|listener| listener.on_event(event));
    }

    /// For events that cost something to make.
    pub(crate) fn hear_with(&self, tell: impl FnOnce(&dyn Listener)) {
        if !self.heard.load(Ordering::Acquire) {
            return;
        }
        let listener = lock(&self.listener).clone();
        if let Some(listener) = listener {
            tell(&*listener);
        }
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").field("layer", &self.layer).finish_non_exhaustive()
    }
}
