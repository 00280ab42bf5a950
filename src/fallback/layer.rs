//! The layer and its setters.

use std::fmt;

use tower_layer::Layer;

use super::{Elsewhere, Fallback};
use crate::classify::Auto;

/// Puts a [`Fallback`] around a service. See the [module](super).
#[derive(Clone)]
pub struct FallbackLayer<F, C = Auto> {
    fallback: F,
    classifier: C,
}

impl<F> FallbackLayer<F> {
    /// Answers by `fallback`, a service of [`Fallen`](super::Fallen), where a call came to nothing.
    pub const fn new(fallback: F) -> Self {
        Self { fallback, classifier: Auto }
    }
}

impl<S> FallbackLayer<Elsewhere<S>> {
    /// Sends what came to nothing to another service of the same requests: a full stack, to another model or provider.
    ///
    /// A request that cannot be copied, or may have been applied, is not sent there.
    pub const fn to(service: S) -> Self {
        Self { fallback: Elsewhere(service), classifier: Auto }
    }
}

impl<F, C> FallbackLayer<F, C> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> FallbackLayer<F, D> {
        FallbackLayer { fallback: self.fallback, classifier }
    }
}

impl<S, F: Clone, C: Clone> Layer<S> for FallbackLayer<F, C> {
    type Service = Fallback<S, F, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Fallback::new(inner, self.fallback.clone(), self.classifier.clone())
    }
}

impl<F, C> fmt::Debug for FallbackLayer<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackLayer").finish_non_exhaustive()
    }
}
