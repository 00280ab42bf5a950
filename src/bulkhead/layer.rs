//! The layer and its setters.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{Bulkhead, BulkheadConfig, BulkheadHandle, shared::Shared};
use crate::{classify::Auto, config_error::ConfigError, events::Listener};

/// Puts a [`Bulkhead`] around a service. All services made from one layer, and from its clones, share the limits.
///
/// See the [module](super) for what it refuses.
pub struct BulkheadLayer<C = Auto> {
    shared: Arc<Shared>,
    classifier: C,
}

impl BulkheadLayer {
    /// A bulkhead with the limits of `config` and the classifier [`Auto`].
    ///
    /// An impossible value makes a bulkhead that refuses every call, with the code `misconfigured`: use
    /// [`try_new`](BulkheadLayer::try_new) to hear of it at once.
    pub fn new(config: BulkheadConfig) -> Self {
        Self { shared: Arc::new(Shared::new(config)), classifier: Auto }
    }

    /// A bulkhead with the limits of `config` and the classifier [`Auto`].
    ///
    /// # Errors
    /// Names the field of `config` that has an impossible value.
    pub fn try_new(config: BulkheadConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::new(config))
    }
}

impl<C> BulkheadLayer<C> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> BulkheadLayer<D> {
        BulkheadLayer { shared: self.shared, classifier }
    }

    /// Only watches: nothing waits and nothing is refused. A call that would find the queue full is reported.
    #[must_use]
    pub fn dry_run(self) -> Self {
        self.shared.set_dry_run();
        self
    }

    /// Tells `listener` of every refusal.
    #[must_use]
    pub fn listener(self, listener: impl Listener) -> Self {
        self.shared.listen(listener);
        self
    }

    /// Reads the state that all services of this layer share, and changes its limits.
    pub fn handle(&self) -> BulkheadHandle {
        BulkheadHandle::new(self.shared.clone())
    }
}

impl<S, C: Clone> Layer<S> for BulkheadLayer<C> {
    type Service = Bulkhead<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Bulkhead::new(inner, self.shared.clone(), self.classifier.clone())
    }
}

impl<C: Clone> Clone for BulkheadLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), classifier: self.classifier.clone() }
    }
}

impl<C> fmt::Debug for BulkheadLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadLayer").finish_non_exhaustive()
    }
}
