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
    future::{Held, Waiting},
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
    is_ready: bool,
}

/// What the calls of one clone of a service share.
pub(super) struct Local<C> {
    pub(super) shared: Arc<Shared>,
    pub(super) classifier: C,
}

impl<S, C> RateLimit<S, C> {
    pub(super) fn new(inner: S, shared: Arc<Shared>, classifier: C) -> Self {
        Self { inner, local: Arc::new(Local { shared, classifier }), is_ready: false }
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

impl<S: Clone, C> Clone for RateLimit<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), local: self.local.clone(), is_ready: false }
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
        if !self.is_ready && !self.local.shared.is_invalid() {
            ready!(self.inner.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
            self.is_ready = true;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let call = self.local.classifier.classify(&request);
        let is_ready = mem::take(&mut self.is_ready);
        let (share, at) = match self.local.shared.admit(&call) {
            Admit::Now(share) if is_ready => {
                let inner = self.inner.call(request);
                return ResponseFuture::calling(inner, Held::new(self.local.clone(), call, share));
            }
            Admit::Now(share) => (share, None),
            Admit::At(share, at) => (share, Some(at)),
            Admit::Refuse(error) => {
                self.let_go();
                return ResponseFuture::refused(error);
            }
        };
        self.let_go();
        let held = Held::new(self.local.clone(), call, share);
        ResponseFuture::waiting(Waiting::new(self.inner.clone(), request, held, at))
    }
}

impl<S: Clone, C> RateLimit<S, C> {
    /// A service that was ready keeps what it reserved until it is called or dropped.
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
