//! Bodies that know when their answer is over.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower::BoxError;

use crate::{
    call::Call,
    classify::{error_verdict, grpc::grpc_verdict},
    error::{Error, Failure},
    reason::Reason,
    verdict::Verdict,
};

/// A body that judges its own answer.
pub(crate) trait Observed: Send {
    /// The next frame. Sets `over` as soon as the answer is over, which may be long before the last frame, and at
    /// the latest with an error or the end.
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        over: &mut Option<Verdict>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>>;

    /// Whether there will be no further frame and no error.
    fn is_end_stream(&self) -> bool;

    /// How much is left.
    fn size_hint(&self) -> SizeHint;

    /// The verdict that stands if the reader goes away now.
    fn provisional(&self) -> Option<Verdict> {
        None
    }
}

/// The verdict on a body that broke off: what its error says, else that the answer is cut.
pub(crate) fn broken(call: &Call, error: impl Into<BoxError>) -> (Verdict, Error) {
    let error = Error::from_boxed(error.into());
    let mut verdict = error_verdict(call, &error);
    if matches!(verdict.reason, Reason::Unclassified | Reason::ConnectFailed | Reason::ConnectionLost) {
        verdict.reason = Reason::Cut;
    }
    let failure = Failure::new(verdict.clone()).caused_by(error);
    (verdict, failure.into())
}

pin_project! {
    /// An HTTP or gRPC body without a protocol of its own inside.
    pub(super) struct Observing<B> {
        #[pin]
        body: B,
        call: Call,
        grpc: bool,
    }
}

impl<B> Observing<B> {
    pub(super) fn new(body: B, call: &Call, grpc: bool) -> Self {
        Self { body, call: call.clone(), grpc }
    }
}

impl<B> Observed for Observing<B>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        over: &mut Option<Verdict>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(cx));
        if over.is_some() {
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| broken(this.call, error).1)));
        }
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                match frame.trailers_ref() {
                    Some(trailers) if *this.grpc => *over = grpc_verdict(this.call, trailers),
                    Some(_) => *over = Some(Verdict::completed()),
                    // A reader may trust `is_end_stream` and never ask for the end.
                    None if !*this.grpc && this.body.is_end_stream() => *over = Some(Verdict::completed()),
                    None => {}
                }
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                let (verdict, error) = broken(this.call, error);
                *over = Some(verdict);
                Some(Err(error))
            }
            None if *this.grpc => {
                let verdict = Verdict::new(Reason::Cut);
                *over = Some(verdict.clone());
                Some(Err(Failure::new(verdict).into()))
            }
            None => {
                *over = Some(Verdict::completed());
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        // A gRPC body without its status must be asked once more, to hear that it was cut.
        !self.grpc && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
