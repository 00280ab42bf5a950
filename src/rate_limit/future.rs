//! The future of a call that keeps to a rate.

use std::{
    any::Any,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::BoxError;
use tower_service::Service;

use super::{
    limiter::{Place, Share},
    service::Local,
};
use crate::{
    body::{Completion, End, WatchedBody},
    call::Call,
    classify::{ClassifyError, ClassifyResponse, Head},
    error::Error,
    reason::Reason,
};

pin_project! {
    /// The future of a call through a [`RateLimit`](super::RateLimit).
    ///
    /// Dropping it gives up its place among those who wait.
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

/// What a call has taken.
pub(super) struct Held<C> {
    local: Arc<Local<C>>,
    call: Call,
    share: Option<Share>,
}

impl<C> Held<C> {
    pub(super) const fn new(local: Arc<Local<C>>, call: Call, share: Share) -> Self {
        Self { local, call, share: Some(share) }
    }
}

/// Whether a call that was not sent yet has had its turn.
pub(super) enum Turn {
    Awaited(Place),
    Come(Share),
}

struct Unsent<Req, C> {
    request: Req,
    local: Arc<Local<C>>,
    call: Call,
    turn: Turn,
}

pin_project! {
    /// A call that waits for its turn, and then for the inner service.
    pub(super) struct Waiting<S, Req, C> {
        service: S,
        // None once it was sent.
        unsent: Option<Unsent<Req, C>>,
        #[pin]
        sleep: Option<Sleep>,
    }
}

/// What the inner service answers with, and what the call holds meanwhile.
type Sent<F, C> = Result<(F, Held<C>), Error>;

impl<S, Req, C> Waiting<S, Req, C> {
    pub(super) const fn new(service: S, request: Req, local: Arc<Local<C>>, call: Call, turn: Turn) -> Self {
        Self { service, unsent: Some(Unsent { request, local, call, turn }), sleep: None }
    }

    fn poll_sent(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Sent<S::Future, C>>
    where
        S: Service<Req>,
        S::Error: Into<BoxError>,
    {
        let mut this = self.project();
        let unsent = this.unsent.as_mut().expect("polled after it was ready");
        while let Turn::Awaited(place) = &mut unsent.turn {
            let again = match place.turn(cx) {
                Ok(share) => {
                    unsent.turn = Turn::Come(share);
                    break;
                }
                Err(again) => again,
            };
            if Instant::now() >= place.until {
                return Poll::Ready(Err(unsent.local.shared.waited_too_long(&unsent.call, place)));
            }
            match this.sleep.as_mut().as_pin_mut() {
                Some(sleep) if sleep.deadline() == again => {}
                Some(sleep) => sleep.reset(again),
                None => this.sleep.set(Some(sleep_until(again))),
            }
            if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
                ready!(sleep.poll(cx));
            }
        }
        ready!(this.service.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
        let Some(Unsent { request, local, call, turn: Turn::Come(mut share) }) = this.unsent.take() else {
            unreachable!("its turn has come")
        };
        share.sent();
        Poll::Ready(Ok((this.service.call(request), Held::new(local, call, share))))
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
    S::Response: 'static,
    S::Error: Into<BoxError>,
    C: ClassifyResponse<S::Response>,
{
    type Output = Result<C::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let ended = match this.state.as_mut().project() {
                StateProj::Calling { inner, held } => match ready!(inner.poll(cx)) {
                    Ok(response) => Ok(answered(held, response)),
                    Err(error) => Err(failed(held, Error::from_boxed(error.into()))),
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
            this.state.set(State::Done);
            return Poll::Ready(ended);
        }
    }
}

fn answered<Res: 'static, C: ClassifyResponse<Res>>(held: &mut Held<C>, response: Res) -> C::Response {
    let Held { local, call, share } = held;
    let Some(share) = share.take() else { return local.classifier.watch(call, response, Completion::none()) };
    if let Some(response) = (&response as &dyn Any).downcast_ref::<Response<WatchedBody>>() {
        share.limiter().hear(response.headers());
    }
    let completion = match local.classifier.head(call, &response) {
        Head::Decided(verdict) => {
            share.settle(&verdict);
            Completion::none()
        }
        Head::Provisional(_) | Head::Open => {
            let mut owed = Some(share);
            // Dropped without a verdict, what it took stays taken.
            Completion::new(move |end: End<'_>| {
                if let (End::Over(verdict), Some(share)) = (end, owed.take()) {
                    share.settle(verdict);
                }
            })
        }
    };
    local.classifier.watch(call, response, completion)
}

fn failed<C: ClassifyError>(held: &mut Held<C>, error: Error) -> Error {
    let Some(share) = held.share.take() else { return error };
    if let Some(rejected) = error.rejected() {
        // Unless somebody further in repeats calls, and an attempt before this one was sent.
        if rejected.last_verdict().is_none() {
            share.give_back();
        }
        return error;
    }
    let verdict = held.local.classifier.error(&held.call, &error);
    match verdict.reason {
        Reason::ConnectFailed => share.give_back(),
        _ => share.settle(&verdict),
    }
    error
}

impl<S, F, Req, C> fmt::Debug for ResponseFuture<S, F, Req, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
