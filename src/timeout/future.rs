//! The future of a call whose time is limited.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::BoxError;

use super::LAYER;
use crate::{
    body::{Completion, End, OnEnd},
    call::Call,
    classify::{ClassifyResponse, Head},
    error::{Error, Failure},
    reason::Reason,
};

pin_project! {
    /// The future of a call through a [`Timeout`](super::Timeout).
    pub struct ResponseFuture<F, C> {
        #[pin]
        state: State<F, C>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, C> {
        Calling { #[pin] inner: F, #[pin] sleep: Option<Sleep>, due: Option<Instant>, call: Call, classifier: C },
        Refused { error: Option<Error> },
        Done,
    }
}

impl<F, C> ResponseFuture<F, C> {
    pub(super) const fn calling(inner: F, call: Call, due: Option<Instant>, classifier: C) -> Self {
        Self { state: State::Calling { inner, sleep: None, due, call, classifier } }
    }

    pub(super) const fn refused(error: Error) -> Self {
        Self { state: State::Refused { error: Some(error) } }
    }
}

impl<F, C, Res, E> Future for ResponseFuture<F, C>
where
    F: Future<Output = Result<Res, E>>,
    E: Into<BoxError>,
    C: ClassifyResponse<Res>,
{
    type Output = Result<C::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let ended = match this.state.as_mut().project() {
            StateProj::Calling { inner, mut sleep, due, call, classifier } => match (inner.poll(cx), *due) {
                (Poll::Ready(Ok(response)), due) => Ok(answered(response, classifier, call, due)),
                (Poll::Ready(Err(error)), _) => Err(Error::from_boxed(error.into())),
                (Poll::Pending, None) => return Poll::Pending,
                (Poll::Pending, Some(due)) => {
                    if sleep.is_none() {
                        sleep.set(Some(sleep_until(due)));
                    }
                    if let Some(sleep) = sleep.as_pin_mut() {
                        ready!(sleep.poll(cx));
                    }
                    timed_out();
                    Err(Failure::new(Reason::Timeout).into())
                }
            },
            StateProj::Refused { error } => Err(error.take().expect("polled after it was ready")),
            StateProj::Done => panic!("polled after it was ready"),
        };
        // A call that took too long is given up here.
        this.state.set(State::Done);
        Poll::Ready(ended)
    }
}

fn answered<Res, C>(response: Res, classifier: &C, call: &Call, due: Option<Instant>) -> C::Response
where
    C: ClassifyResponse<Res>,
{
    let completion = match (classifier.head(call, &response), due) {
        // There is nothing left to wait for.
        (Head::Decided(verdict), _) if verdict.is_success() => Completion::none(),
        (_, None) => Completion::none(),
        // An error's body, too, may never end.
        (_, Some(due)) => Completion::new(Due(due)),
    };
    classifier.watch(call, response, completion)
}

fn timed_out() {
    tracing::debug!(layer = LAYER, "call timed out");
    metrics::counter!("belay_timeouts_total", "layer" => LAYER).increment(1);
}

/// Tells whoever watches the body when its time is up.
struct Due(Instant);

impl OnEnd for Due {
    fn end(&mut self, end: End<'_>) {
        if matches!(end, End::Over(verdict) if verdict.reason == Reason::Timeout && self.0 <= Instant::now()) {
            timed_out();
        }
    }

    fn due(&self) -> Option<Instant> {
        Some(self.0)
    }
}

impl<F, C> fmt::Debug for ResponseFuture<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
