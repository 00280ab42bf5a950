//! The layer, its setters and its handle.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{Left, RateLimit, RateLimitConfig, shared::Shared};
use crate::{call::Call, classify::Auto, config_error::ConfigError, events::Listener};

/// Puts a [`RateLimit`] around a service. All services made from one layer, and from its clones, share the rates.
///
/// See the [module](super) for what it refuses.
pub struct RateLimitLayer<C = Auto> {
    shared: Arc<Shared>,
    classifier: C,
}

impl RateLimitLayer {
    /// Limits calls as `config` says, with the classifier [`Auto`].
    ///
    /// An impossible value makes a layer that refuses every call, with the code `misconfigured`: use
    /// [`try_new`](RateLimitLayer::try_new) to hear of it at once.
    pub fn new(config: RateLimitConfig) -> Self {
        Self { shared: Arc::new(Shared::new(config)), classifier: Auto }
    }

    /// Limits calls as `config` says, with the classifier [`Auto`].
    ///
    /// # Errors
    /// Names the field of `config` that has an impossible value.
    pub fn try_new(config: RateLimitConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::new(config))
    }
}

impl<C> RateLimitLayer<C> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> RateLimitLayer<D> {
        RateLimitLayer { shared: self.shared, classifier }
    }

    /// Only watches: nothing waits and nothing is refused. A call that would be refused is reported.
    #[must_use]
    pub fn dry_run(self) -> Self {
        self.shared.set_dry_run();
        self
    }

    /// Tells `listener` of every refusal.
    #[must_use]
    pub fn listener(self, listener: impl Listener) -> Self {
        self.shared.teller.listen(listener);
        self
    }

    /// Reads the rates that all services of this layer share, and changes them.
    pub fn handle(&self) -> RateLimitHandle {
        RateLimitHandle { shared: self.shared.clone() }
    }
}

impl<S, C: Clone> Layer<S> for RateLimitLayer<C> {
    type Service = RateLimit<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, self.shared.clone(), self.classifier.clone())
    }
}

impl<C: Clone> Clone for RateLimitLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), classifier: self.classifier.clone() }
    }
}

impl<C> fmt::Debug for RateLimitLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").finish_non_exhaustive()
    }
}

/// Reads and changes what all services of one [`RateLimitLayer`] share.
#[derive(Clone)]
pub struct RateLimitHandle {
    shared: Arc<Shared>,
}

impl RateLimitHandle {
    /// What is left of the rate of `call`.
    pub fn left(&self, call: &Call) -> Left {
        self.shared.left(call)
    }

    /// Every rate of which something is spent, such as `target=api.openai.com operation=gpt-5`.
    pub fn all(&self) -> Vec<(String, Left)> {
        self.shared.all()
    }

    /// Forgets what calls like `call` spent and owe, and what the provider said of it. Who waits goes on in turn.
    pub fn reset(&self, call: &Call) {
        self.shared.reset(call);
    }

    /// The configuration in force.
    pub fn config(&self) -> RateLimitConfig {
        (*self.shared.config()).clone()
    }

    /// Replaces the configuration. What was spent stays spent, and who waits keeps the place. With another scope, counting
    /// starts anew.
    ///
    /// # Errors
    /// Names the field that has an impossible value; the old configuration stays.
    pub fn update(&self, config: RateLimitConfig) -> Result<(), ConfigError> {
        self.shared.update(config)
    }
}

impl fmt::Debug for RateLimitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitHandle").finish_non_exhaustive()
    }
}
