//! The service.

use std::{
    fmt,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use super::{ResponseFuture, shared::Shared};
use crate::{
    amend::{Amend, NoAmend},
    call::ActionId,
    classify::{Auto, Classifier},
    coverage::{Coverage, Guard, Mode, Part},
    error::Error,
};

/// A service whose failed calls are attempted again. See the [module](super).
pub struct Retry<S, C = Auto, A = NoAmend> {
    inner: S,
    local: Arc<Local<S, C, A>>,
}

/// What the calls of one clone of a service share, on cache lines of its own: one count for all clones would be
/// written to by every call. The inner service is kept to be cloned when a call is attempted again, so that a call that
/// is not costs no clone.
#[repr(align(128))]
pub(super) struct Local<S, C, A> {
    pub(super) shared: Arc<Shared>,
    pub(super) classifier: C,
    pub(super) amend: A,
    pub(super) spare: Mutex<S>,
}

impl<S: Clone, C, A> Retry<S, C, A> {
    pub(super) fn new(inner: S, shared: Arc<Shared>, classifier: C, amend: A) -> Self {
        let spare = Mutex::new(inner.clone());
        Self { inner, local: Arc::new(Local { shared, classifier, amend, spare }) }
    }
}

impl<S: Clone, C: Clone, A: Clone> Clone for Retry<S, C, A> {
    fn clone(&self) -> Self {
        let Local { shared, classifier, amend, .. } = &*self.local;
        Self::new(self.inner.clone(), shared.clone(), classifier.clone(), amend.clone())
    }
}

impl<S: fmt::Debug, C, A> fmt::Debug for Retry<S, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, C, A, Req> Service<Req> for Retry<S, C, A>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response>,
    A: Amend<Req>,
{
    type Response = C::Response;
    type Error = Error;
    type Future = ResponseFuture<S, C, A, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(|error| Error::from_boxed(error.into()))
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let Local { shared, classifier, .. } = &*self.local;
        let mut call = classifier.classify(&request);
        // Of nested retries the outermost acts, or attempts would multiply.
        let acts = shared.may_repeat() && call.begin_attempts();
        let mut copy = None;
        if acts {
            shared.begin();
            if call.action_id().is_none() {
                call = call.action(ActionId::fresh());
            }
            classifier.attach(&mut request, &call);
            copy = classifier.replay(&request);
        }
        ResponseFuture::new(self.inner.call(request), self.local.clone(), call, copy, acts)
    }
}

impl<S: Guard, C, A> Guard for Retry<S, C, A> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::Retry, if self.local.shared.may_repeat() { Mode::Enforcing } else { Mode::Off });
        self.inner.report(coverage);
    }
}
