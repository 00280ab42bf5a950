//! The layer, its setters and its handle.

use std::{fmt, sync::Arc};

use tower::{BoxError, Service, ServiceExt, util::BoxCloneSyncService};
use tower_layer::Layer;

use super::{Clones, Found, Idempotency, IdempotencyConfig, shared::Shared};
use crate::{
    call::{ActionId, Call},
    classify::Auto,
    config_error::ConfigError,
    events::Listener,
};

/// Puts an [`Idempotency`] around a service. All services made from one layer, and from its clones, share what is known.
///
/// See the [module](super) for what it refuses.
pub struct IdempotencyLayer<C = Auto, M = Clones> {
    shared: Arc<Shared>,
    classifier: C,
    remember: M,
}

impl IdempotencyLayer {
    /// Remembers writes as `config` says, with the classifier [`Auto`], and answers that can be cloned.
    ///
    /// With an impossible value every write is refused, with the code `misconfigured`: use
    /// [`try_new`](IdempotencyLayer::try_new) to hear of it at once.
    pub fn new(config: IdempotencyConfig) -> Self {
        Self { shared: Arc::new(Shared::new(config)), classifier: Auto, remember: Clones }
    }

    /// Remembers writes as `config` says, with the classifier [`Auto`], and answers that can be cloned.
    ///
    /// # Errors
    /// Names the field of `config` that has an impossible value.
    pub fn try_new(config: IdempotencyConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::new(config))
    }
}

impl<C, M> IdempotencyLayer<C, M> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> IdempotencyLayer<D, M> {
        IdempotencyLayer { shared: self.shared, classifier, remember: self.remember }
    }

    /// Replaces how answers are kept, such as by [`HttpAnswers`](super::HttpAnswers).
    #[must_use]
    pub fn remember<N>(self, remember: N) -> IdempotencyLayer<C, N> {
        IdempotencyLayer { shared: self.shared, classifier: self.classifier, remember }
    }

    /// Looks a write up that may have been applied, when it comes again: a service that is given the call, with its
    /// [`action`](Call::action), and says what it [`Found`]. An error finds nothing out.
    #[must_use]
    pub fn look_up<P>(self, look_up: P) -> Self
    where
        P: Service<Call, Response = Found> + Clone + Send + Sync + 'static,
        P::Error: Into<BoxError>,
        P::Future: Send + 'static,
    {
        self.shared.set_look_up(BoxCloneSyncService::new(look_up.map_err(Into::into)));
        self
    }

    /// Tells `listener` of every refusal.
    #[must_use]
    pub fn listener(self, listener: impl Listener) -> Self {
        self.shared.teller.listen(listener);
        self
    }

    /// Reads what is known, and tells what somebody found out.
    pub fn handle(&self) -> IdempotencyHandle {
        IdempotencyHandle { shared: self.shared.clone() }
    }
}

impl<S, C: Clone, M: Clone> Layer<S> for IdempotencyLayer<C, M> {
    type Service = Idempotency<S, C, M>;

    fn layer(&self, inner: S) -> Self::Service {
        Idempotency::new(inner, self.shared.clone(), self.classifier.clone(), self.remember.clone())
    }
}

impl<C: Clone, M: Clone> Clone for IdempotencyLayer<C, M> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), classifier: self.classifier.clone(), remember: self.remember.clone() }
    }
}

impl<C, M> fmt::Debug for IdempotencyLayer<C, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer").finish_non_exhaustive()
    }
}

/// Reads what all services of one [`IdempotencyLayer`] know, and tells them what somebody found out.
#[derive(Clone)]
pub struct IdempotencyHandle {
    shared: Arc<Shared>,
}

impl IdempotencyHandle {
    /// The writes of the run of `call` that may have been applied.
    pub fn in_doubt(&self, call: &Call) -> Vec<ActionId> {
        self.shared.in_doubt(call)
    }

    /// Somebody looked such a write up: one that was applied is never sent again, one that was not may be. Says
    /// whether it was in doubt.
    pub fn reconciled(&self, call: &Call, action: ActionId, was_applied: bool) -> bool {
        self.shared.reconciled(call, action, was_applied)
    }
}

impl fmt::Debug for IdempotencyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyHandle").finish_non_exhaustive()
    }
}
