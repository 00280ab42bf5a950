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
    gate::{Gate, Permit, Place},
    shared::{Admit, Shared},
};
use crate::{
    call::Call,
    classify::{Auto, Classifier},
    coverage::{Coverage, Guard, Part},
    error::Error,
};

/// A service behind a bulkhead. See the [module](super).
pub struct Bulkhead<S, C = Auto> {
    inner: S,
    local: Arc<Local<C>>,
    /// The class of the call before.
    last: Option<Arc<Gate>>,
    readiness: Readiness,
}

/// What the calls of one clone of a service share, on cache lines of its own: one count for all clones would be
/// written to by every call.
#[repr(align(128))]
pub(super) struct Local<C> {
    pub(super) shared: Arc<Shared>,
    pub(super) classifier: C,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// The inner service said that it is ready for one call.
    Inner,
    NotAsked,
}

impl<S, C> Bulkhead<S, C> {
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

impl<S: Clone, C: Clone> Clone for Bulkhead<S, C> {
    fn clone(&self) -> Self {
        let clone = Self::new(self.inner.clone(), self.local.shared.clone(), self.local.classifier.clone());
        Self { last: self.last.clone(), ..clone }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Bulkhead<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulkhead").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S: Clone, C> Bulkhead<S, C> {
    #[cold]
    fn waiting<F, Req>(
        &self,
        request: Req,
        call: Call,
        permit: Option<Permit>,
        place: Option<Place>,
    ) -> ResponseFuture<S, F, Req, C> {
        let held = Held::new(self.local.clone(), call, permit);
        ResponseFuture::waiting(Waiting::new(self.inner.clone(), request, held, place))
    }
}

// === impl Service ===

impl<S, C, Req> Service<Req> for Bulkhead<S, C>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response> + Send + Sync + 'static,
{
    type Response = C::Response;
    type Error = Error;
    type Future = ResponseFuture<S, S::Future, Req, C>;

    /// Ready when the inner service is. A bulkhead that refuses whatever comes does not ask it: it may hang.
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
        let admit = match self.local.shared.admit(&call, &mut self.last) {
            Admit::Pass(permit) if readiness == Readiness::Inner => {
                let inner = self.inner.call(request);
                return ResponseFuture::calling(inner, Held::new(self.local.clone(), call, Some(permit)));
            }
            admit => admit,
        };
        // A service that was ready keeps what it reserved until it is called or dropped. This call is not sent now,
        // so the ready service makes room for a fresh clone; one that waits asks its own when its turn has come.
        let fresh = self.inner.clone();
        let ready = mem::replace(&mut self.inner, fresh);
        drop(ready);
        match admit {
            Admit::Refuse(error) => ResponseFuture::refused(error),
            Admit::Pass(permit) => self.waiting(request, call, Some(permit), None),
            Admit::Wait(place) => self.waiting(request, call, None, Some(place)),
        }
    }
}

impl<S: Guard, C> Guard for Bulkhead<S, C> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::Bulkhead, self.local.shared.mode());
        self.inner.report(coverage);
    }
}
