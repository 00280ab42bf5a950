//! Puts [`Identify`] around a service.

use tower_layer::Layer;

use super::Identify;
use crate::classify::Auto;

/// Attaches to each request the [`Call`](crate::Call) that it is, see the [module](super).
#[derive(Debug, Clone, Copy, Default)]
pub struct IdentifyLayer<C = Auto> {
    classifier: C,
}

impl IdentifyLayer {
    /// Identifies requests with [`Auto`].
    pub const fn new() -> Self {
        Self { classifier: Auto }
    }
}

impl<C> IdentifyLayer<C> {
    /// Identifies requests with another classifier.
    pub fn classifier<D>(self, classifier: D) -> IdentifyLayer<D> {
        IdentifyLayer { classifier }
    }
}

#[cfg(feature = "wire")]
impl<C> IdentifyLayer<C> {
    pub(crate) const fn classifier_ref(&self) -> &C {
        &self.classifier
    }
}

impl<S, C: Clone> Layer<S> for IdentifyLayer<C> {
    type Service = Identify<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Identify::new(inner, self.classifier.clone())
    }
}
