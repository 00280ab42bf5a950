//! Puts [`Provider`] around an HTTP client.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{Provider, ProviderConfig};
use crate::{classify::Auto, config_error::ConfigError, wire::Protocol};

/// Puts a [`Provider`] around an HTTP client. See the [module](super).
#[derive(Clone)]
pub struct ProviderLayer<C = Auto> {
    config: Arc<ProviderConfig>,
    protocol: Option<Protocol>,
    classifier: C,
}

impl ProviderLayer {
    /// Reads answers as `config` says, with the classifier [`Auto`].
    pub fn new(config: ProviderConfig) -> Self {
        Self { config: Arc::new(config), protocol: None, classifier: Auto }
    }

    /// Reads answers as `config` says, with the classifier [`Auto`].
    ///
    /// # Errors
    /// Names the field of `config` that has an impossible value.
    pub fn try_new(config: ProviderConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::new(config))
    }
}

impl<C> ProviderLayer<C> {
    /// Reads the answer to every `POST` in this protocol, whatever its path.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Replaces the classifier, which tells the effect of a call where no [`Call`](crate::Call) is attached.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> ProviderLayer<D> {
        ProviderLayer { config: self.config, protocol: self.protocol, classifier }
    }
}

impl<S, C: Clone> Layer<S> for ProviderLayer<C> {
    type Service = Provider<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Provider::new(inner, self.config.clone(), self.protocol, self.classifier.clone())
    }
}

impl<C> fmt::Debug for ProviderLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderLayer").field("config", &self.config).finish_non_exhaustive()
    }
}
