//! Asks the breaker before each call, and the inner service only if something may be sent.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tower::BoxError;
use tower_service::Service;

use super::{ResponseFuture, admission::Admission, shared::Shared};
use crate::{
    classify::{Auto, Classifier},
    coverage::{Coverage, Guard, Part},
    error::Error,
};

/// A service behind a semantic breaker. See the [module](super).
pub struct SemanticBreaker<S, C = Auto> {
    inner: S,
    local: Arc<Local<C>>,
    readiness: Readiness,
}

/// What the calls of one clone of a service share. A reference count that every call of every clone writes to would
/// cost more than all the rest of the breaker, so each clone has its own, on cache lines of its own.
#[repr(align(128))]
pub(super) struct Local<C> {
    pub(super) shared: Arc<Shared>,
    pub(super) classifier: C,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// The inner service said that it is ready.
    Inner,
    /// Nobody asked it: what comes next is refused.
    NotAsked,
}

impl<S, C> SemanticBreaker<S, C> {
    pub(super) fn new(inner: S, shared: Arc<Shared>, classifier: C) -> Self {
        Self { inner, local: Arc::new(Local { shared, classifier }), readiness: Readiness::NotAsked }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: Clone, C: Clone> Clone for SemanticBreaker<S, C> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.local.shared.clone(), self.local.classifier.clone())
    }
}

impl<S: fmt::Debug, C> fmt::Debug for SemanticBreaker<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemanticBreaker").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, C, Req> Service<Req> for SemanticBreaker<S, C>
where
    S: Service<Req>,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response> + Send + Sync + 'static,
{
    type Response = C::Response;
    type Error = Error;
    type Future = ResponseFuture<S::Future, C>;

    /// Ready when the inner service is. A breaker that refuses whatever comes does not ask it: it may hang.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.local.shared.refuses_all() {
            self.readiness = Readiness::NotAsked;
            return Poll::Ready(Ok(()));
        }
        ready!(self.inner.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
        self.readiness = Readiness::Inner;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let call = self.local.classifier.classify(&request);
        if self.readiness == Readiness::NotAsked {
            return ResponseFuture::refused(self.local.shared.refusal_of_all(&call));
        }
        match self.local.shared.admit(&call) {
            Ok(pass) => {
                let admission = Admission::new(self.local.clone(), call, pass);
                ResponseFuture::calling(self.inner.call(request), admission)
            }
            Err(refused) => ResponseFuture::not_admitted(refused, &self.local.shared, call),
        }
    }
}

impl<S: Guard, C> Guard for SemanticBreaker<S, C> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::SemanticBreaker, self.local.shared.mode());
        self.inner.report(coverage);
    }
}
