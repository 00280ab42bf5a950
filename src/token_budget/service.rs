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
    account::Path,
    config::Budget,
    estimate::{ByBody, Estimate},
    future::Held,
    shared::Till,
};
use crate::{
    amend::{Amend, NoAmend},
    classify::{Auto, Classifier},
    coverage::{Coverage, Guard, Part},
    error::Error,
};

/// A service behind a token budget. See the [module](super).
pub struct TokenBudget<S, C = Auto, A = NoAmend, E = ByBody> {
    inner: S,
    local: Arc<Local<C, A, E>>,
    /// The accounts of the call before.
    last: Option<Path>,
    /// The budget as it was then, and which it was.
    known: (u64, Arc<Budget>),
    readiness: Readiness,
}

/// What the calls of one clone of a service share.
pub(super) struct Local<C, A, E> {
    pub(super) till: Arc<Till>,
    pub(super) counts: Counts,
    pub(super) dry_run: bool,
    pub(super) classifier: C,
    pub(super) amend: A,
    pub(super) estimate: E,
}

/// What a call counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    Tokens,
    Steps,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// The inner service said that it is ready for one call.
    Inner,
    NotAsked,
}

impl<S, C, A, E> TokenBudget<S, C, A, E> {
    pub(super) fn new(inner: S, local: Local<C, A, E>) -> Self {
        let known = local.till.0.known();
        Self { inner, local: Arc::new(local), last: None, known, readiness: Readiness::NotAsked }
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

    /// Whether every call is refused, whatever it is.
    fn refuses_all(&self) -> bool {
        self.local.till.0.is_invalid() && !self.local.dry_run
    }
}

impl<S: Clone, C: Clone, A: Clone, E: Clone> Clone for TokenBudget<S, C, A, E> {
    fn clone(&self) -> Self {
        let Local { till, counts, dry_run, classifier, amend, estimate } = &*self.local;
        let local = Local {
            till: Till::new(&till.0),
            counts: *counts,
            dry_run: *dry_run,
            classifier: classifier.clone(),
            amend: amend.clone(),
            estimate: estimate.clone(),
        };
        Self {
            inner: self.inner.clone(),
            local: Arc::new(local),
            last: self.last.clone(),
            known: self.known.clone(),
            readiness: Readiness::NotAsked,
        }
    }
}

impl<S: fmt::Debug, C, A, E> fmt::Debug for TokenBudget<S, C, A, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBudget").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, C, A, E, Req> Service<Req> for TokenBudget<S, C, A, E>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response>,
    A: Amend<Req>,
    E: Estimate<Req>,
{
    type Response = C::Response;
    type Error = Error;
    type Future = ResponseFuture<S::Future, C, A, E>;

    /// Ready when the inner service is. A budget that refuses whatever comes does not ask it: it may hang.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.readiness == Readiness::NotAsked && !self.refuses_all() {
            ready!(self.inner.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
            self.readiness = Readiness::Inner;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let call = self.local.classifier.classify(&request);
        let refuses_all = self.refuses_all();
        let shared = &self.local.till.0;
        let refused = match mem::replace(&mut self.readiness, Readiness::NotAsked) {
            Readiness::Inner if !refuses_all => {
                shared.refresh(&mut self.known);
                let path = shared.path(&call, &mut self.last);
                match self.local.admit(request, &call, path, &self.known.1) {
                    Ok((request, reservation)) => {
                        let held = Held::new(self.local.clone(), call, reservation);
                        return ResponseFuture::calling(self.inner.call(request), held);
                    }
                    Err(rejected) => *rejected,
                }
            }
            _ => shared.misconfigured(&call),
        };
        let error = shared.teller.refuse(refused);
        // A service that was ready keeps what it reserved until it is called or dropped. This call is not sent, so the
        // ready service makes room for a fresh clone.
        let fresh = self.inner.clone();
        drop(mem::replace(&mut self.inner, fresh));
        ResponseFuture::refused(error)
    }
}

impl<S: Guard, C, A, E> Guard for TokenBudget<S, C, A, E> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::TokenBudget, self.local.till.0.mode(self.local.dry_run));
        self.inner.report(coverage);
    }
}
