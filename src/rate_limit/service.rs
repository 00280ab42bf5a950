//! The service.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tower::BoxError;
use tower_service::Service;

use super::{
    ResponseFuture,
    future::{Held, Turn, Waiting},
    limiter::Limiter,
    shared::{Admit, Shared},
};
use crate::{
    classify::{Auto, Classifier},
    coverage::{Coverage, Guard, Part},
    error::Error,
};

/// A service whose calls keep to a rate. See the [module](super).
pub struct RateLimit<S, C = Auto> {
    inner: S,
    local: Arc<Local<C>>,
    /// The rate of the call before.
    last: Option<Arc<Limiter>>,
    readiness: Readiness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// The inner service said that it is ready for one call.
    Inner,
    NotAsked,
}

/// What the calls of one clone of a service share, on cache lines of its own: one count for all clones would be
/// written to by every call.
#[repr(align(128))]
pub(super) struct Local<C> {
    pub(super) shared: Arc<Shared>,
    pub(super) classifier: C,
}

impl<S, C> RateLimit<S, C> {
    pub(super) fn new(inner: S, shared: Arc<Shared>, classifier: C) -> Self {
        let local = Arc::new(Local { shared, classifier });
        Self { inner, local, last: None, readiness: Readiness::NotAsked }
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

impl<S: Clone, C: Clone> Clone for RateLimit<S, C> {
    fn clone(&self) -> Self {
        let clone = Self::new(self.inner.clone(), self.local.shared.clone(), self.local.classifier.clone());
        Self { last: self.last.clone(), ..clone }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for RateLimit<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, C, Req> Service<Req> for RateLimit<S, C>
where
    S: Service<Req> + Clone,
    S::Response: 'static,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response>,
{
    type Response = C::Response;
    type Error = Error;
    type Future = ResponseFuture<S, S::Future, Req, C>;

    /// Ready when the inner service is. A layer that refuses whatever comes does not ask it: it may hang.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.readiness == Readiness::NotAsked && !self.local.shared.refuses_all() {
            ready!(self.inner.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
            self.readiness = Readiness::Inner;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let call = self.local.classifier.classify(&request);
        let readiness = mem::replace(&mut self.readiness, Readiness::NotAsked);
        let admit = self.local.shared.admit(&call, &mut self.last);
        let turn = match (admit, readiness) {
            (Admit::Now(mut share), Readiness::Inner) => {
                share.sent();
                let inner = self.inner.call(request);
                return ResponseFuture::calling(inner, Held::new(self.local.clone(), call, share));
            }
            (Admit::Refuse(error), _) => {
                self.let_go();
                return ResponseFuture::refused(error);
            }
            (Admit::Now(share), Readiness::NotAsked) => Turn::Come(share),
            (Admit::Wait(place), _) => Turn::Awaited(place),
        };
        self.let_go();
        ResponseFuture::waiting(Waiting::new(self.inner.clone(), request, self.local.clone(), call, turn))
    }
}

impl<S: Clone, C> RateLimit<S, C> {
    /// A service that was ready keeps what it reserved until it is called or dropped. This call is not sent now, so the
    /// ready service makes room for a fresh clone; one that waits asks its own when its turn has come.
    fn let_go(&mut self) {
        let fresh = self.inner.clone();
        self.inner = fresh;
    }
}

impl<S: Guard, C> Guard for RateLimit<S, C> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::RateLimit, self.local.shared.mode());
        self.inner.report(coverage);
    }
}
