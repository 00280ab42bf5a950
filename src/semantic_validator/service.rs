//! Sends a request on, and has its answer looked at.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Method, Request, Response};
use tower::BoxError;
use tower_service::Service;

use super::{ResponseFuture, judge::Judge};
use crate::{
    body::WatchedBody,
    classify::{Auto, Classify},
    coverage::{Coverage, Guard, Mode, Part},
    error::Error,
    provider::KeepText,
    wire::protocol_of,
};

/// A service whose answers are looked at before they are used. See the [module](super).
pub struct SemanticValidator<S, C = Auto> {
    inner: S,
    judge: Arc<Judge>,
    classifier: C,
}

impl<S, C> SemanticValidator<S, C> {
    pub(super) const fn new(inner: S, judge: Arc<Judge>, classifier: C) -> Self {
        Self { inner, judge, classifier }
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

impl<S: Clone, C: Clone> Clone for SemanticValidator<S, C> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.judge.clone(), self.classifier.clone())
    }
}

impl<S: fmt::Debug, C> fmt::Debug for SemanticValidator<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemanticValidator").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, C, B> Service<Request<B>> for SemanticValidator<S, C>
where
    S: Service<Request<B>, Response = Response<WatchedBody>>,
    S::Error: Into<BoxError>,
    C: Classify<Request<B>>,
{
    type Response = Response<WatchedBody>;
    type Error = Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(|error| Error::from_boxed(error.into()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let call = self.classifier.classify(&request);
        // What is no question to a model has no answer of one.
        let is_question = *request.method() == Method::POST && protocol_of(request.uri().path()).is_some();
        if self.judge.needs_text() {
            request.extensions_mut().insert(KeepText);
        }
        ResponseFuture::new(self.inner.call(request), self.judge.clone(), call, is_question)
    }
}

impl<S: Guard, C> Guard for SemanticValidator<S, C> {
    fn report(&self, coverage: &mut Coverage) {
        let mode = if self.judge.is_dry_run() { Mode::DryRun } else { Mode::Enforcing };
        coverage.add(Part::SemanticValidator, mode);
        self.inner.report(coverage);
    }
}
