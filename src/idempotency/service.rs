//! Asks what is known of a write before it is sent.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tower::{BoxError, ServiceExt};
use tower_service::Service;

use super::{
    Clones, Remember, ResponseFuture,
    future::Before,
    shared::{Admit, Shared},
};
use crate::{
    call::{ActionId, Effect},
    classify::{Auto, Classifier},
    error::Error,
};

/// A service that is sent each write once. See the [module](super).
pub struct Idempotency<S, C = Auto, M = Clones> {
    inner: S,
    pub(super) local: Arc<Local<C, M>>,
    is_ready: bool,
}

/// What the calls of one clone of a service share.
pub(super) struct Local<C, M> {
    pub(super) shared: Arc<Shared>,
    pub(super) classifier: C,
    pub(super) remember: M,
}

impl<S, C, M> Idempotency<S, C, M> {
    pub(super) fn new(inner: S, shared: Arc<Shared>, classifier: C, remember: M) -> Self {
        Self { inner, local: Arc::new(Local { shared, classifier, remember }), is_ready: false }
    }

    /// A service that was ready keeps what it reserved until it is called or dropped.
    fn let_go(&mut self)
    where
        S: Clone,
    {
        if mem::take(&mut self.is_ready) {
            let fresh = self.inner.clone();
            self.inner = fresh;
        }
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

impl<S: Clone, C, M> Clone for Idempotency<S, C, M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), local: self.local.clone(), is_ready: false }
    }
}

impl<S: fmt::Debug, C, M> fmt::Debug for Idempotency<S, C, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, C, M, Req> Service<Req> for Idempotency<S, C, M>
where
    S: Service<Req> + Clone,
    S::Response: Send + Sync + 'static,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response>,
    M: Remember<S::Response>,
{
    type Response = C::Response;
    type Error = Error;
    type Future = ResponseFuture<S, S::Future, Req, C, M>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.is_ready && !self.local.shared.is_invalid() {
            ready!(self.inner.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
            self.is_ready = true;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let Local { shared, classifier, .. } = &*self.local;
        let mut call = classifier.classify(&request);
        if call.effect_kind() > Effect::ReadOnly && call.action_id().is_none() {
            // Without a name nobody could ask later what came of it.
            call = call.action(ActionId::fresh());
            classifier.attach(&mut request, &call);
        }
        let (pass, looks_up) = match shared.admit(&call) {
            Admit::Pass => (None, false),
            Admit::Run(pass) => (Some(pass), false),
            Admit::LookUp(pass) => (Some(pass), true),
            Admit::Replay(stored) => {
                self.let_go();
                return ResponseFuture::replayed(stored, call, &self.local);
            }
            Admit::Refuse(error) => {
                self.let_go();
                return ResponseFuture::refused(error, call, &self.local);
            }
        };
        if self.is_ready && !looks_up {
            self.is_ready = false;
            return ResponseFuture::calling(self.inner.call(request), call, pass, &self.local);
        }
        let look_up = shared.look_up().filter(|_| looks_up).map(|service| service.oneshot(call.clone()));
        self.let_go();
        let before = Before::new(self.inner.clone(), request, look_up);
        ResponseFuture::before(before, call, pass, &self.local)
    }
}
