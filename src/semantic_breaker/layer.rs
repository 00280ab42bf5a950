//! Puts [`SemanticBreaker`] around a service, and holds the state that all of them share.

use std::{fmt, sync::Arc};

use tower::{BoxError, Service, ServiceExt, util::BoxCloneSyncService};
use tower_layer::Layer;

use super::{BreakerHandle, SemanticBreaker, TripCard, shared::Shared};
use crate::{
    call::Call,
    classify::Auto,
    config_error::ConfigError,
    events::{AlertSink, Listener},
    verdict::Verdict,
};

/// Puts a [`SemanticBreaker`] around a service. All services made from one layer, and from its clones, share state.
///
/// See the [module](super) for what it refuses.
pub struct SemanticBreakerLayer<C = Auto> {
    pub(super) shared: Arc<Shared>,
    pub(super) classifier: C,
}

impl SemanticBreakerLayer {
    /// A breaker by `card`, with the classifier [`Auto`].
    ///
    /// A card with an impossible value makes a breaker that refuses every call, with the code `misconfigured`:
    /// use [`try_new`](SemanticBreakerLayer::try_new) to hear of it at once.
    pub fn new(card: TripCard) -> Self {
        Self { shared: Arc::new(Shared::new(card)), classifier: Auto }
    }

    /// A breaker by `card`, with the classifier [`Auto`].
    ///
    /// # Errors
    /// Names the field of `card` that has an impossible value.
    pub fn try_new(card: TripCard) -> Result<Self, ConfigError> {
        card.validate()?;
        Ok(Self::new(card))
    }
}

impl<C> SemanticBreakerLayer<C> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> SemanticBreakerLayer<D> {
        SemanticBreakerLayer { shared: self.shared, classifier }
    }

    /// Only watches: every decision is reported, and nothing is refused but by the kill switch.
    #[must_use]
    pub fn dry_run(self) -> Self {
        self.shared.set_dry_run();
        self
    }

    /// Tests a target that must not be tested with real calls.
    ///
    /// While half-open, a call above `ReadOnly` runs `probe` instead of itself: a service that tests the real failure
    /// mode of the call's target (authenticate, write a synthetic record, read it back) and answers with a verdict.
    /// An error of the probe is a failed probe.
    ///
    /// A probe is timed, and so needs tokio's timer; without one a breaker runs on any executor. All probes of one
    /// half-open circuit run in the future of the call that came.
    #[must_use]
    pub fn probe<P>(self, probe: P) -> Self
    where
        P: Service<Call, Response = Verdict> + Clone + Send + Sync + 'static,
        P::Error: Into<BoxError>,
        P::Future: Send + 'static,
    {
        self.shared.set_probe(BoxCloneSyncService::new(probe.map_err(Into::into)));
        self
    }

    /// Tells `listener` of every decision.
    #[must_use]
    pub fn listener(self, listener: impl Listener) -> Self {
        self.shared.set_listener(Arc::new(listener));
        self
    }

    /// Tells `sink` what a person should look at.
    #[must_use]
    pub fn alerts(self, sink: impl AlertSink) -> Self {
        self.shared.set_alerts(Arc::new(sink));
        self
    }

    /// Reads and steers the state that all services of this layer share.
    pub fn handle(&self) -> BreakerHandle {
        BreakerHandle::new(self.shared.clone())
    }
}

impl<S, C: Clone> Layer<S> for SemanticBreakerLayer<C> {
    type Service = SemanticBreaker<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        SemanticBreaker::new(inner, self.shared.clone(), self.classifier.clone())
    }
}

impl<C: Clone> Clone for SemanticBreakerLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), classifier: self.classifier.clone() }
    }
}

impl<C> fmt::Debug for SemanticBreakerLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemanticBreakerLayer").finish_non_exhaustive()
    }
}
