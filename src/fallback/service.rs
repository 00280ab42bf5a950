//! The service.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use super::{Fallen, ResponseFuture, future::Spare, told::Shared};
use crate::{
    call::{ActionId, Effect},
    classify::{Auto, Classifier},
    coverage::{Coverage, Guard, Part},
    error::Error,
};

/// A service whose calls are answered by something else where they come to nothing. See the [module](super).
#[derive(Clone)]
pub struct Fallback<S, F, C = Auto> {
    inner: S,
    fallback: F,
    classifier: C,
    substitutes: Substitutes,
    shared: Arc<Shared>,
}

/// How the answers of a fallback are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Substitutes {
    /// By the classifier, as the call's own is.
    Judged,
    AsTheyAre,
}

impl<S, F, C> Fallback<S, F, C> {
    pub(super) const fn new(
        inner: S,
        fallback: F,
        classifier: C,
        substitutes: Substitutes,
        shared: Arc<Shared>,
    ) -> Self {
        Self { inner, fallback, classifier, substitutes, shared }
    }

    /// The inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: fmt::Debug, F, C> fmt::Debug for Fallback<S, F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, F, C, Req> Service<Req> for Fallback<S, F, C>
where
    S: Service<Req>,
    S::Response: 'static,
    S::Error: Into<BoxError>,
    F: Service<Fallen<Req>, Response = S::Response> + Clone,
    F::Error: Into<BoxError>,
    C: Classifier<Req, S::Response> + Clone,
{
    type Response = C::Response;
    type Error = Error;
    type Future = ResponseFuture<S::Future, F, Req, C, S::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(|error| Error::from_boxed(error.into()))
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let mut call = self.classifier.classify(&request);
        let mut copy = None;
        if !self.shared.is_off() {
            if call.effect_kind() > Effect::ReadOnly && call.action_id().is_none() {
                // By it all attempts know the write, and so does whoever asks later.
                call = call.action(ActionId::fresh());
                self.classifier.attach(&mut request, &call);
            }
            copy = self.classifier.replay(&request);
        }
        let spare = Spare {
            fallback: self.fallback.clone(),
            classifier: self.classifier.clone(),
            substitutes: self.substitutes,
            shared: self.shared.clone(),
            call,
            copy,
        };
        ResponseFuture::new(self.inner.call(request), spare)
    }
}

impl<S: Guard, F, C> Guard for Fallback<S, F, C> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::Fallback, self.shared.mode());
        self.inner.report(coverage);
    }
}
