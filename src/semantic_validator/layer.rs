//! The layer and its setters.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{SemanticValidator, Validate, judge::Judge};
use crate::classify::Auto;

/// Puts a [`SemanticValidator`] around a service that reads a model's answers. See the [module](super).
pub struct SemanticValidatorLayer<C = Auto> {
    judge: Arc<Judge>,
    classifier: C,
}

impl SemanticValidatorLayer {
    /// Holds answers to `validator`: a `Registry`, or any other [`Validate`].
    pub fn new(validator: impl Validate) -> Self {
        Self { judge: Arc::new(Judge::new(Arc::new(validator))), classifier: Auto }
    }
}

impl<C> SemanticValidatorLayer<C> {
    /// Replaces the classifier, which names the call that is answered.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> SemanticValidatorLayer<D> {
        SemanticValidatorLayer { judge: self.judge, classifier }
    }

    /// Only watches: what is wrong is reported, and every answer passes.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.judge = Arc::new(Judge::clone(&self.judge).dry_run());
        self
    }
}

impl<S, C: Clone> Layer<S> for SemanticValidatorLayer<C> {
    type Service = SemanticValidator<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        SemanticValidator::new(inner, self.judge.clone(), self.classifier.clone())
    }
}

impl<C: Clone> Clone for SemanticValidatorLayer<C> {
    fn clone(&self) -> Self {
        Self { judge: self.judge.clone(), classifier: self.classifier.clone() }
    }
}

impl<C> fmt::Debug for SemanticValidatorLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemanticValidatorLayer").finish_non_exhaustive()
    }
}
