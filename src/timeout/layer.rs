//! The layer and its setters.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{Timeout, TimeoutConfig, service::Shared};
use crate::{classify::Auto, config_error::ConfigError, events::Listener, teller::Teller};

/// Puts a [`Timeout`] around a service.
///
/// See the [module](super) for what it limits.
pub struct TimeoutLayer<C = Auto> {
    shared: Arc<Shared>,
    classifier: C,
}

impl TimeoutLayer {
    /// Limits calls as `config` says, with the classifier [`Auto`].
    ///
    /// An impossible value makes a layer that refuses every call, with the code `misconfigured`: use
    /// [`try_new`](TimeoutLayer::try_new) to hear of it at once.
    pub fn new(config: TimeoutConfig) -> Self {
        let invalid = config.validate().err();
        if let Some(error) = &invalid {
            tracing::error!(%error, "the timeout refuses every call: its configuration is invalid");
        }
        Self { shared: Arc::new(Shared { config, invalid, teller: Teller::new(super::LAYER) }), classifier: Auto }
    }

    /// Limits calls as `config` says, with the classifier [`Auto`].
    ///
    /// # Errors
    /// Names the field of `config` that has an impossible value.
    pub fn try_new(config: TimeoutConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::new(config))
    }
}

impl<C> TimeoutLayer<C> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> TimeoutLayer<D> {
        TimeoutLayer { shared: self.shared, classifier }
    }

    /// Tells `listener` of every refusal.
    #[must_use]
    pub fn listener(self, listener: impl Listener) -> Self {
        self.shared.teller.listen(listener);
        self
    }
}

impl<S, C: Clone> Layer<S> for TimeoutLayer<C> {
    type Service = Timeout<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Timeout::new(inner, self.shared.clone(), self.classifier.clone())
    }
}

impl<C: Clone> Clone for TimeoutLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), classifier: self.classifier.clone() }
    }
}

impl<C> fmt::Debug for TimeoutLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutLayer").field("config", &self.shared.config).finish_non_exhaustive()
    }
}
