//! A call whose error becomes its answer.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Response};
use pin_project_lite::pin_project;
use tower::BoxError;

use super::answer::Answer;
use crate::error::Error;

pin_project! {
    /// The response of a [`Respond`](super::Respond) service.
    pub struct ResponseFuture<F> {
        #[pin]
        state: State<F>,
        // The content type of a gRPC request.
        grpc: Option<HeaderValue>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        Called { #[pin] inner: F },
        NotReady { error: Option<Error> },
    }
}

/// The error behind an answer, in the extensions of the response, for whoever logs outside of [`Respond`].
///
/// [`Respond`]: super::Respond
#[derive(Debug, Clone)]
pub struct Answered(Arc<Error>);

impl Answered {
    /// The error that was answered.
    pub fn error(&self) -> &Error {
        &self.0
    }
}

// === impl ResponseFuture ===

impl<F> ResponseFuture<F> {
    pub(super) const fn new(inner: F, grpc: Option<HeaderValue>) -> Self {
        Self { state: State::Called { inner }, grpc }
    }

    pub(super) const fn not_ready(error: Error, grpc: Option<HeaderValue>) -> Self {
        Self { state: State::NotReady { error: Some(error) }, grpc }
    }
}

impl<F, B, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: From<Bytes>,
{
    type Output = Result<Response<B>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let error = match this.state.project() {
            StateProj::Called { inner } => match ready!(inner.poll(cx)) {
                Ok(response) => return Poll::Ready(Ok(response)),
                Err(error) => Error::from_boxed(error.into()),
            },
            StateProj::NotReady { error } => error.take().expect("not polled after it was ready"),
        };
        let answer = Answer::to(&error);
        let mut response = match this.grpc.take() {
            Some(content_type) => answer.grpc(content_type),
            None => answer.http(),
        };
        response.extensions_mut().insert(Answered(Arc::new(error)));
        Poll::Ready(Ok(response))
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
