//! The layer and its setters.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use tower_layer::Layer;

use super::{Elsewhere, Fallback, FallbackConfig, service::Substitutes, told::Shared};
use crate::{classify::Auto, events::Listener};

/// Puts a [`Fallback`] around a service. See the [module](super).
#[derive(Clone)]
pub struct FallbackLayer<F, C = Auto> {
    fallback: F,
    classifier: C,
    substitutes: Substitutes,
    shared: Arc<Shared>,
}

impl<F> FallbackLayer<F> {
    /// Answers by `fallback`, a service of [`Fallen`](super::Fallen), where a call came to nothing.
    ///
    /// Its answer is given as it is, whatever its status says.
    pub fn new(fallback: F) -> Self {
        Self::made_of(fallback, Substitutes::AsTheyAre)
    }

    fn made_of(fallback: F, substitutes: Substitutes) -> Self {
        Self { fallback, classifier: Auto, substitutes, shared: Shared::new(FallbackConfig::default()) }
    }
}

impl<S> FallbackLayer<Elsewhere<S>> {
    /// Sends what came to nothing to another service of the same requests: a full stack, to another model or provider.
    ///
    /// A request that cannot be copied, or may have been applied, is not sent there.
    pub fn to(service: S) -> Self {
        Self::made_of(Elsewhere(service), Substitutes::Judged)
    }
}

impl<F, C> FallbackLayer<F, C> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> FallbackLayer<F, D> {
        let Self { fallback, substitutes, shared, .. } = self;
        FallbackLayer { fallback, classifier, substitutes, shared }
    }

    /// Sets for what something else may answer. Call it first: the listener and the dry run start anew.
    #[must_use]
    pub fn config(self, config: FallbackConfig) -> Self {
        Self { shared: Shared::new(config), ..self }
    }

    /// Only watches: nothing else answers. A call for which something would have is reported.
    #[must_use]
    pub fn dry_run(self) -> Self {
        self.shared.dry_run.store(true, Ordering::Release);
        self
    }

    /// Tells `listener` of every call that came to nothing, and of what became of it.
    #[must_use]
    pub fn listener(self, listener: impl Listener) -> Self {
        self.shared.teller.listen(listener);
        self
    }
}

impl<S, F: Clone, C: Clone> Layer<S> for FallbackLayer<F, C> {
    type Service = Fallback<S, F, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Fallback::new(inner, self.fallback.clone(), self.classifier.clone(), self.substitutes, self.shared.clone())
    }
}

impl<F, C> fmt::Debug for FallbackLayer<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackLayer").finish_non_exhaustive()
    }
}
