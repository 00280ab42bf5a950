//! The future of a call that is watched.

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
    observe::{Got, ReadOutput},
    shared::{Pending, Shared},
};
use crate::error::Error;

pin_project! {
    /// The future of a call through a [`LoopDetector`](super::LoopDetector). Dropping it leaves the call without a
    /// result: it is then neither new nor a repetition.
    pub struct ResponseFuture<F, O> {
        #[pin]
        state: State<F, O>,
    }
}

type Watched<O> = (Pending, Arc<Shared>, O);

pin_project! {
    #[project = StateProj]
    enum State<F, O> {
        Calling { #[pin] inner: F, watched: Option<Watched<O>> },
        Refused { error: Option<Error> },
        Done,
    }
}

impl<F, O> ResponseFuture<F, O> {
    pub(super) const fn calling(inner: F, watched: Option<Watched<O>>) -> Self {
        Self { state: State::Calling { inner, watched } }
    }

    pub(super) const fn refused(error: Error) -> Self {
        Self { state: State::Refused { error: Some(error) } }
    }
}

impl<F, O, Res, E> Future for ResponseFuture<F, O>
where
    F: Future<Output = Result<Res, E>>,
    E: Into<BoxError>,
    O: ReadOutput<Res>,
{
    type Output = Result<Res, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let ended = match this.state.as_mut().project() {
            StateProj::Calling { inner, watched } => {
                let result = ready!(inner.poll(cx)).map_err(|error| Error::from_boxed(error.into()));
                match watched.take() {
                    Some(watched) => settled(&watched, result),
                    None => result,
                }
            }
            StateProj::Refused { error } => Err(error.take().expect("polled after it was ready")),
            StateProj::Done => panic!("polled after it was ready"),
        };
        this.state.set(State::Done);
        Poll::Ready(ended)
    }
}

fn settled<Res, O: ReadOutput<Res>>(watched: &Watched<O>, result: Result<Res, Error>) -> Result<Res, Error> {
    let (pending, shared, observer) = watched;
    match result {
        Ok(response) => match observer.got(&response).and_then(|got| shared.settle(pending, got)) {
            Some(text) => Ok(observer.annotate(response, &text)),
            None => Ok(response),
        },
        // A refusal is no result. Any other error is one, although nothing can be added to it: the next call of this
        // kind is refused, and the refusal says why.
        Err(error) => {
            if error.rejected().is_none() {
                shared.settle(pending, Got::error(&error.to_string()));
            }
            Err(error)
        }
    }
}

impl<F, O> fmt::Debug for ResponseFuture<F, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
