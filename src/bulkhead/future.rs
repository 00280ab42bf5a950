//! The future of a call through the bulkhead.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::BoxError;
use tower_service::Service;

use super::{
    gate::{Permit, Place},
    service::Local,
};
use crate::{
    body::{Completion, End},
    call::Call,
    classify::{Classify, ClassifyResponse, Head},
    error::Error,
};

pin_project! {
    /// The future of a call through a [`Bulkhead`](super::Bulkhead).
    ///
    /// Dropping it gives up its place in the queue, or its permit.
    pub struct ResponseFuture<S, F, Req, C> {
        #[pin]
        state: State<S, F, Req, C>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F, Req, C> {
        Calling { #[pin] inner: F, held: Held<C> },
        // Off the fast path, and larger than all the rest.
        Waiting { waiting: Pin<Box<Waiting<S, Req, C>>> },
        Refused { error: Option<Error> },
        Done,
    }
}

/// What a call holds while it is in the bulkhead.
pub(super) struct Held<C> {
    local: Arc<Local<C>>,
    call: Call,
    /// None while it waits for its turn.
    permit: Option<Permit>,
}

impl<C> Held<C> {
    pub(super) const fn new(local: Arc<Local<C>>, call: Call, permit: Option<Permit>) -> Self {
        Self { local, call, permit }
    }
}

/// What the inner service answers with, once it has the call.
type Sent<F, C> = Result<(F, Held<C>), Error>;

pin_project! {
    /// A call that waits for its turn, and then for the inner service.
    pub(super) struct Waiting<S, Req, C> {
        service: S,
        request: Option<Req>,
        held: Option<Held<C>>,
        place: Option<Place>,
        until: Option<Instant>,
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl<S, Req, C> Waiting<S, Req, C> {
    pub(super) fn new(service: S, request: Req, held: Held<C>, place: Option<Place>) -> Self {
        let until = place.as_ref().and_then(|place| place.until);
        Self { service, request: Some(request), held: Some(held), place, until, sleep: None }
    }

    fn poll_sent(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Sent<S::Future, C>>
    where
        S: Service<Req>,
        S::Error: Into<BoxError>,
        C: Classify<Req>,
    {
        let mut this = self.project();
        let held = this.held.as_mut().expect("polled after it was ready");
        let turn = match this.place {
            Some(place) => place.poll(cx).map(|(permit, others)| {
                held.permit = Some(permit);
                held.call = held.call.clone().queue(others);
            }),
            None => Poll::Ready(()),
        };
        if turn.is_ready() {
            *this.place = None;
            if this.service.poll_ready(cx).map_err(|error| Error::from_boxed(error.into()))?.is_ready() {
                let (Some(mut request), Some(held)) = (this.request.take(), this.held.take()) else {
                    unreachable!("both are taken together")
                };
                if held.call.queue_length() > 0 {
                    held.local.classifier.attach(&mut request, &held.call);
                }
                return Poll::Ready(Ok((this.service.call(request), held)));
            }
        }
        let Some(until) = *this.until else { return Poll::Pending };
        if this.sleep.is_none() {
            this.sleep.set(Some(sleep_until(until)));
        }
        if let Some(sleep) = this.sleep.as_pin_mut() {
            ready!(sleep.poll(cx));
        }
        Poll::Ready(Err(held.local.shared.waited_too_long(&held.call)))
    }
}

impl<S, F, Req, C> ResponseFuture<S, F, Req, C> {
    pub(super) const fn calling(inner: F, held: Held<C>) -> Self {
        Self { state: State::Calling { inner, held } }
    }

    pub(super) fn waiting(waiting: Waiting<S, Req, C>) -> Self {
        Self { state: State::Waiting { waiting: Box::pin(waiting) } }
    }

    pub(super) const fn refused(error: Error) -> Self {
        Self { state: State::Refused { error: Some(error) } }
    }
}

impl<S, Req, C> Future for ResponseFuture<S, S::Future, Req, C>
where
    S: Service<Req>,
    S::Error: Into<BoxError>,
    C: Classify<Req> + ClassifyResponse<S::Response>,
{
    type Output = Result<C::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let ended = match this.state.as_mut().project() {
                StateProj::Calling { inner, held } => match ready!(inner.poll(cx)) {
                    Ok(response) => Ok(answered(held, response)),
                    Err(error) => Err(Error::from_boxed(error.into())),
                },
                StateProj::Waiting { waiting } => match ready!(waiting.as_mut().poll_sent(cx)) {
                    Ok((inner, held)) => {
                        this.state.set(State::Calling { inner, held });
                        continue;
                    }
                    Err(error) => Err(error),
                },
                StateProj::Refused { error } => Err(error.take().expect("polled after it was ready")),
                StateProj::Done => panic!("polled after it was ready"),
            };
            // What the call still holds comes free here.
            this.state.set(State::Done);
            return Poll::Ready(ended);
        }
    }
}

/// An answer that is not over keeps the permit until it is.
fn answered<Res, C: ClassifyResponse<Res>>(held: &mut Held<C>, response: Res) -> C::Response {
    let classifier = &held.local.classifier;
    let completion = match classifier.head(&held.call, &response) {
        Head::Decided(_) => Completion::none(),
        Head::Provisional(_) | Head::Open => {
            let mut permit = held.permit.take();
            Completion::new(move |_: End<'_>| drop(permit.take()))
        }
    };
    classifier.watch(&held.call, response, completion)
}

impl<S, F, Req, C> fmt::Debug for ResponseFuture<S, F, Req, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
