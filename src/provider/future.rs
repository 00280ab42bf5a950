//! The future of a call whose answer is read.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Response, header, response::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

use super::{
    intake::{Head, Intake},
    meter::Question,
    reader::Reader,
};
use crate::{
    body::{Completion, WatchedBody},
    classify::grpc::{ends_in_status, is_grpc},
    error::{Error, Failure},
    reason::Reason,
};

pin_project! {
    /// The future of a call through a [`Provider`](super::Provider).
    pub struct ResponseFuture<F, B> {
        #[pin]
        state: State<F, B>,
        question: Question,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, B> {
        Calling { #[pin] inner: F, #[pin] first_byte: Option<Sleep> },
        Reading { parts: Option<Parts>, reader: Option<Pin<Box<Reader<B>>>>, release: Option<Instant> },
    }
}

impl<F, B> ResponseFuture<F, B> {
    pub(super) const fn new(inner: F, question: Question) -> Self {
        Self { state: State::Calling { inner, first_byte: None }, question }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<WatchedBody>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Calling { inner, mut first_byte } => {
                    let config = &this.question.config;
                    match inner.poll(cx).map_err(|error| Error::from_boxed(error.into()))? {
                        Poll::Ready(response) if is_grpc(response.headers()) => {
                            let call = &this.question.call;
                            let grpc = ends_in_status(response.status(), response.headers());
                            let watch = |body| WatchedBody::watch(body, call, || grpc, Completion::none());
                            return Poll::Ready(Ok(response.map(watch)));
                        }
                        Poll::Ready(response) => {
                            let due = first_byte.as_pin_mut().map(|sleep| sleep.deadline());
                            begin(response, this.question.clone(), due)
                        }
                        Poll::Pending => {
                            let limit = config.first_byte_limit().filter(|_| !this.question.grpc);
                            let Some(limit) = limit else { return Poll::Pending };
                            if first_byte.is_none() {
                                first_byte.set(Some(sleep(limit)));
                            }
                            if let Some(sleep) = first_byte.as_pin_mut() {
                                ready!(sleep.poll(cx));
                            }
                            return Poll::Ready(Err(Failure::new(Reason::Timeout).into()));
                        }
                    }
                }
                StateProj::Reading { parts, reader, release } => {
                    let (Some(open), true) = (reader.as_mut(), parts.is_some()) else {
                        panic!("polled after it was ready")
                    };
                    let head = ready!(open.as_mut().poll_head(cx, release))?;
                    let (Some(parts), Some(reader)) = (parts.take(), reader.take()) else {
                        unreachable!("both were there a moment ago")
                    };
                    return Poll::Ready(Ok(hand_on(parts, reader, head)));
                }
            };
            this.state.set(next);
        }
    }
}

fn begin<F, B>(response: Response<B>, question: Question, due: Option<Instant>) -> State<F, B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (parts, body) = response.into_parts();
    let config = &question.config;
    let due = due.or_else(|| Instant::now().checked_add(config.first_byte_limit()?));
    let intake = Intake::new(question, &parts);
    State::Reading { parts: Some(parts), reader: Some(Box::pin(Reader::new(body, intake, due))), release: None }
}

fn hand_on<B>(mut parts: Parts, reader: Pin<Box<Reader<B>>>, head: Head) -> Response<WatchedBody>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    parts.extensions.insert(reader.answer());
    // A stream is over with its terminator, whatever length it was to have; and an event of it may be hidden.
    if reader.is_stream() {
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    let body = match head {
        Head::Whole(bytes, verdict) => WatchedBody::judged(bytes, verdict),
        Head::Judged(verdict) => WatchedBody::judged_before_its_end(reader, verdict),
        Head::Live => WatchedBody::observe(reader),
    };
    Response::from_parts(parts, body)
}

impl<F, B> fmt::Debug for ResponseFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
