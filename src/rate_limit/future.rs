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

use super::{limiter::Share, service::Local, shared::Admit};
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
    /// Dropping it before the call was sent gives back what it took.
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
    pub(super) fn new(local: Arc<Local<C>>, call: Call, share: Share) -> Self {
        Self { local, call, share: Some(share) }
    }
}

pin_project! {
    /// A call that waits for its turn, and then for the inner service.
    pub(super) struct Waiting<S, Req, C> {
        service: S,
        request: Option<Req>,
        // None once it was sent.
        held: Option<Held<C>>,
        since: Instant,
        #[pin]
        sleep: Option<Sleep>,
    }

    impl<S, Req, C> PinnedDrop for Waiting<S, Req, C> {
        fn drop(this: Pin<&mut Self>) {
            // It was not sent.
            if let Some(share) = this.project().held.as_mut().and_then(|held| held.share.take()) {
                share.give_back();
            }
        }
    }
}

/// What the inner service answers with, and what the call holds meanwhile.
type Sent<F, C> = Result<(F, Held<C>), Error>;

impl<S, Req, C> Waiting<S, Req, C> {
    pub(super) fn new(service: S, request: Req, held: Held<C>, at: Option<Instant>) -> Self {
        let (since, sleep) = (Instant::now(), at.map(sleep_until));
        Self { service, request: Some(request), held: Some(held), since, sleep }
    }

    fn poll_sent(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Sent<S::Future, C>>
    where
        S: Service<Req>,
        S::Error: Into<BoxError>,
    {
        let mut this = self.project();
        while let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
            ready!(sleep.poll(cx));
            this.sleep.set(None);
            let held = this.held.as_mut().expect("polled after it was ready");
            let share = held.share.take().expect("a call that waits has its share");
            match held.local.shared.again(&held.call, *this.since, share) {
                Admit::Now(share) => held.share = Some(share),
                Admit::At(share, at) => {
                    held.share = Some(share);
                    this.sleep.set(Some(sleep_until(at)));
                }
                Admit::Refuse(error) => return Poll::Ready(Err(error)),
            }
        }
        ready!(this.service.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
        let (Some(request), Some(held)) = (this.request.take(), this.held.take()) else {
            panic!("polled after it was ready")
        };
        Poll::Ready(Ok((this.service.call(request), held)))
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
        share.limiter().hear(response.headers(), Instant::now());
    }
    let completion = match local.classifier.head(call, &response) {
        Head::Decided(verdict) => {
            share.settle(&verdict);
            Completion::none()
        }
        Head::Provisional(_) | Head::Open => {
            let mut owed = Some(share);
            // Abandoned, what it took stays taken.
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
    if error.rejected().is_some() {
        share.give_back();
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
