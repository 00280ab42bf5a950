//! The service.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use super::{
    ResponseFuture, ToolCalls,
    observe::{ReadCall, ReadOutput},
    shared::Shared,
};
use crate::{
    classify::{Auto, Classify},
    error::Error,
};

/// A service whose runs do not go in circles. See the [module](super).
#[derive(Clone)]
pub struct LoopDetector<S, C = Auto, O = ToolCalls> {
    inner: S,
    shared: Arc<Shared>,
    classifier: C,
    observer: O,
}

impl<S, C, O> LoopDetector<S, C, O> {
    pub(super) const fn new(inner: S, shared: Arc<Shared>, classifier: C, observer: O) -> Self {
        Self { inner, shared, classifier, observer }
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

impl<S: fmt::Debug, C, O> fmt::Debug for LoopDetector<S, C, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopDetector").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, C, O, Req> Service<Req> for LoopDetector<S, C, O>
where
    S: Service<Req>,
    S::Error: Into<BoxError>,
    C: Classify<Req>,
    O: ReadCall<Req> + ReadOutput<S::Response> + Clone,
{
    type Response = S::Response;
    type Error = Error;
    type Future = ResponseFuture<S::Future, O>;

    /// Ready when the inner service is; one that refuses whatever comes does not ask it.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.shared.refuses_all() {
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_ready(cx).map_err(|error| Error::from_boxed(error.into()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let call = self.classifier.classify(&request);
        match self.shared.admit(call, self.observer.asked(&request)) {
            Ok(pending) => {
                let watched = pending.map(|pending| (pending, self.shared.clone(), self.observer.clone()));
                ResponseFuture::calling(self.inner.call(request), watched)
            }
            Err(error) => ResponseFuture::refused(error),
        }
    }
}
