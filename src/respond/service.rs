//! Answers what goes wrong, also where it goes wrong before there is a call.

use std::{
    convert::Infallible,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, header};
use tower::BoxError;
use tower_service::Service;

use super::ResponseFuture;
use crate::{
    classify::grpc::is_grpc,
    coverage::{Coverage, Guard, Mode, Part},
    error::Error,
};

/// Answers every error of `S`, see [`RespondLayer`](super::RespondLayer).
#[derive(Debug)]
pub struct Respond<S> {
    inner: S,
    /// Why `inner` is not ready. It is the answer to the next request, since readiness cannot fail.
    not_ready: Option<Error>,
}

// === impl Respond ===

impl<S> Respond<S> {
    /// Answers every error of `inner`.
    pub const fn new(inner: S) -> Self {
        Self { inner, not_ready: None }
    }
}

impl<S: Clone> Clone for Respond<S> {
    fn clone(&self) -> Self {
        // A clone asks for its own readiness.
        Self::new(self.inner.clone())
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for Respond<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    S::Error: Into<BoxError>,
    ResBody: From<Bytes>,
{
    type Response = Response<ResBody>;
    type Error = Infallible;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.not_ready.is_none() {
            self.not_ready = ready!(self.inner.poll_ready(cx)).err().map(|error| Error::from_boxed(error.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let headers = request.headers();
        let grpc = if is_grpc(headers) { headers.get(header::CONTENT_TYPE).cloned() } else { None };
        match self.not_ready.take() {
            Some(error) => ResponseFuture::not_ready(error, grpc),
            None => ResponseFuture::new(self.inner.call(request), grpc),
        }
    }
}

impl<S: Guard> Guard for Respond<S> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::Respond, Mode::Enforcing);
        self.inner.report(coverage);
    }
}
