//! The future of a call that holds a reservation.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::BoxError;

use super::{
    account::Reservation,
    need::Settlement,
    service::Local,
    settle::{When, by_error, by_verdict},
};
use crate::{
    body::{Completion, End},
    call::Call,
    classify::{ClassifyResponse, Head},
    error::Error,
};

pin_project! {
    /// The future of a call through a [`TokenBudget`](super::TokenBudget).
    ///
    /// Dropping it books all that was reserved: the call may have been sent.
    pub struct ResponseFuture<F, C, A, E> {
        #[pin]
        state: State<F, C, A, E>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, C, A, E> {
        Calling { #[pin] inner: F, held: Option<Held<C, A, E>> },
        Refused { error: Option<Error> },
        Done,
    }
}

/// What a call holds until its answer is there.
pub(super) struct Held<C, A, E> {
    local: Arc<Local<C, A, E>>,
    call: Call,
    reservation: Reservation,
}

impl<C, A, E> Held<C, A, E> {
    pub(super) const fn new(local: Arc<Local<C, A, E>>, call: Call, reservation: Reservation) -> Self {
        Self { local, call, reservation }
    }

    /// An answer that is not over keeps the reservation until it is.
    fn answered<Res>(self, response: Res) -> C::Response
    where
        C: ClassifyResponse<Res>,
    {
        let Self { local, call, reservation } = self;
        let completion = match local.classifier.head(&call, &response) {
            Head::Decided(verdict) => {
                let settlement = by_verdict(&verdict, When::AtHead, &reservation.need);
                reservation.settle(&settlement);
                Completion::none()
            }
            Head::Provisional(_) | Head::Open => {
                let mut reservation = Some(reservation);
                Completion::new(move |end: End<'_>| {
                    if let Some(reservation) = reservation.take() {
                        let settlement = at_end(end, &reservation);
                        reservation.settle(&settlement);
                    }
                })
            }
        };
        local.classifier.watch(&call, response, completion)
    }

    fn failed<Res>(self, error: Error) -> Error
    where
        C: ClassifyResponse<Res>,
    {
        let Self { local, call, reservation } = self;
        let settlement = by_error(&error, |error| local.classifier.error(&call, error), &reservation.need);
        reservation.settle(&settlement);
        error
    }
}

fn at_end(end: End<'_>, reservation: &Reservation) -> Settlement {
    match end {
        End::Over(verdict) => by_verdict(verdict, When::AtEnd, &reservation.need),
        End::Abandoned { .. } => Settlement::AtLeast(*reservation.amount()),
    }
}

impl<F, C, A, E> ResponseFuture<F, C, A, E> {
    pub(super) const fn calling(inner: F, held: Held<C, A, E>) -> Self {
        Self { state: State::Calling { inner, held: Some(held) } }
    }

    pub(super) const fn refused(error: Error) -> Self {
        Self { state: State::Refused { error: Some(error) } }
    }
}

impl<F, C, A, E, Res, Err> Future for ResponseFuture<F, C, A, E>
where
    F: Future<Output = Result<Res, Err>>,
    Err: Into<BoxError>,
    C: ClassifyResponse<Res>,
{
    type Output = Result<C::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let ended = match this.state.as_mut().project() {
            StateProj::Calling { inner, held } => {
                let answer = ready!(inner.poll(cx));
                let held = held.take().expect("it is held until there is an answer");
                match answer {
                    Ok(response) => Ok(held.answered(response)),
                    Err(error) => Err(held.failed::<Res>(Error::from_boxed(error.into()))),
                }
            }
            StateProj::Refused { error } => Err(error.take().expect("polled after it was ready")),
            StateProj::Done => panic!("polled after it was ready"),
        };
        this.state.set(State::Done);
        Poll::Ready(ended)
    }
}

impl<F, C, A, E> fmt::Debug for ResponseFuture<F, C, A, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
