//! The layer and its setters.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{Retry, RetryPolicy, shared::Shared};
use crate::{amend::NoAmend, call::Call, classify::Auto, config_error::ConfigError};

/// Puts a [`Retry`] around a service. All services made from one layer, and from its clones, share one retry budget.
///
/// See the [module](super) for what it repeats and what it never repeats.
pub struct RetryLayer<C = Auto, A = NoAmend> {
    shared: Arc<Shared>,
    classifier: C,
    amend: A,
}

impl RetryLayer {
    /// Repeats by `policy`, with the classifier [`Auto`] and without changing requests.
    ///
    /// With an impossible policy every call goes once: use [`try_new`](RetryLayer::try_new) to hear of it.
    pub fn new(policy: RetryPolicy) -> Self {
        Self { shared: Arc::new(Shared::new(policy)), classifier: Auto, amend: NoAmend }
    }

    /// Repeats by `policy`, with the classifier [`Auto`] and without changing requests.
    ///
    /// # Errors
    /// Names the field of `policy` that has an impossible value.
    pub fn try_new(policy: RetryPolicy) -> Result<Self, ConfigError> {
        policy.validate()?;
        Ok(Self::new(policy))
    }
}

impl<C, A> RetryLayer<C, A> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> RetryLayer<D, A> {
        RetryLayer { shared: self.shared, classifier, amend: self.amend }
    }

    /// Changes requests that would meet the same answer again.
    #[must_use]
    pub fn amend<B>(self, amend: B) -> RetryLayer<C, B> {
        RetryLayer { shared: self.shared, classifier: self.classifier, amend }
    }

    /// Says which targets take two requests with one action id for one: only to those is a write sent again that may
    /// have been applied.
    #[must_use]
    pub fn idempotent(self, is_idempotent: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Self {
        self.shared.set_idempotent(Arc::new(is_idempotent));
        self
    }

    /// How many retries the budget has left.
    pub fn budget_left(&self) -> u32 {
        self.shared.budget_left()
    }
}

impl<S: Clone, C: Clone, A: Clone> Layer<S> for RetryLayer<C, A> {
    type Service = Retry<S, C, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Retry::new(inner, self.shared.clone(), self.classifier.clone(), self.amend.clone())
    }
}

impl<C: Clone, A: Clone> Clone for RetryLayer<C, A> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), classifier: self.classifier.clone(), amend: self.amend.clone() }
    }
}

impl<C, A> fmt::Debug for RetryLayer<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer").field("budget_left", &self.budget_left()).finish_non_exhaustive()
    }
}
