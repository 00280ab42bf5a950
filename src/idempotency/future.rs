//! The future of a call whose write is remembered.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::{BoxError, util::Oneshot};
use tower_service::Service;

use super::{
    Found, Remember,
    service::Local,
    shared::{LookUp, Pass, Stored},
};
use crate::{
    body::{Completion, End},
    call::Call,
    classify::{Classifier, Head},
    error::{Error, Refusal},
};

pin_project! {
    /// The future of a call through an [`Idempotency`](super::Idempotency).
    ///
    /// Dropping it before the write was answered leaves the write in doubt.
    pub struct ResponseFuture<S, F, Req, C, M> {
        #[pin]
        state: State<S, F, Req>,
        local: Arc<Local<C, M>>,
        call: Call,
        pass: Option<Pass>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F, Req> {
        Calling { #[pin] inner: F },
        // Off the fast path, and larger than all the rest.
        Before { before: Pin<Box<Before<S, Req>>> },
        Replayed { stored: Option<Stored> },
        Refused { error: Option<Error> },
        Done,
    }
}

pin_project! {
    /// What comes before a call is sent: it is looked up, and the inner service gets ready.
    pub(super) struct Before<S, Req> {
        service: S,
        request: Option<Req>,
        #[pin]
        look_up: Option<Oneshot<LookUp, Call>>,
    }
}

impl<S, Req> Before<S, Req> {
    pub(super) fn new(service: S, request: Req, look_up: Option<Oneshot<LookUp, Call>>) -> Self {
        Self { service, request: Some(request), look_up }
    }

    /// The inner future; or what was found where the request must not be sent.
    fn poll_sent(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Result<S::Future, Found>, Error>>
    where
        S: Service<Req>,
        S::Error: Into<BoxError>,
    {
        let mut this = self.project();
        if let Some(look_up) = this.look_up.as_mut().as_pin_mut() {
            let found = ready!(look_up.poll(cx)).unwrap_or_else(|error| {
                tracing::warn!(%error, "a write in doubt could not be looked up");
                Found::Unknown
            });
            if found != Found::NotApplied {
                return Poll::Ready(Ok(Err(found)));
            }
            this.look_up.set(None);
        }
        ready!(this.service.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
        let request = this.request.take().expect("polled after it was ready");
        Poll::Ready(Ok(Ok(this.service.call(request))))
    }
}

impl<S, F, Req, C, M> ResponseFuture<S, F, Req, C, M> {
    pub(super) fn calling(inner: F, call: Call, pass: Option<Pass>, local: &Arc<Local<C, M>>) -> Self {
        Self { state: State::Calling { inner }, local: local.clone(), call, pass }
    }

    pub(super) fn before(before: Before<S, Req>, call: Call, pass: Option<Pass>, local: &Arc<Local<C, M>>) -> Self {
        Self { state: State::Before { before: Box::pin(before) }, local: local.clone(), call, pass }
    }

    pub(super) fn replayed(stored: Stored, call: Call, local: &Arc<Local<C, M>>) -> Self {
        Self { state: State::Replayed { stored: Some(stored) }, local: local.clone(), call, pass: None }
    }

    pub(super) fn refused(error: Error, call: Call, local: &Arc<Local<C, M>>) -> Self {
        Self { state: State::Refused { error: Some(error) }, local: local.clone(), call, pass: None }
    }
}

impl<S, Req, C, M> Future for ResponseFuture<S, S::Future, Req, C, M>
where
    S: Service<Req>,
    S::Response: Send + Sync + 'static,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response>,
    M: Remember<S::Response>,
{
    type Output = Result<C::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Local { shared, classifier, remember } = &**this.local;
        let ended = loop {
            match this.state.as_mut().project() {
                StateProj::Calling { inner } => {
                    break match ready!(inner.poll(cx)) {
                        Ok(response) => Ok(answered(classifier, remember, this.call, this.pass.take(), response)),
                        Err(error) => {
                            Err(failed(classifier, this.call, this.pass.take(), Error::from_boxed(error.into())))
                        }
                    };
                }
                StateProj::Before { before } => match ready!(before.as_mut().poll_sent(cx)) {
                    Ok(Ok(inner)) => this.state.set(State::Calling { inner }),
                    Ok(Err(Found::Applied)) => {
                        this.pass.take().into_iter().for_each(Pass::was_applied);
                        break Err(shared.refuse(Refusal::AlreadyDone, this.call, None));
                    }
                    Ok(Err(_)) => {
                        *this.pass = None;
                        break Err(shared.refuse(Refusal::InDoubt, this.call, None));
                    }
                    // The inner service is not there: nothing was sent.
                    Err(error) => {
                        this.pass.take().into_iter().for_each(Pass::not_sent);
                        break Err(error);
                    }
                },
                StateProj::Replayed { stored } => {
                    let stored = stored.take().expect("polled after it was ready");
                    let copy = stored.downcast_ref::<S::Response>().and_then(|answer| remember.copy(answer));
                    break match copy {
                        Some(answer) => Ok(classifier.watch(this.call, answer, Completion::none())),
                        None => Err(shared.refuse(Refusal::AlreadyDone, this.call, None)),
                    };
                }
                StateProj::Refused { error } => break Err(error.take().expect("polled after it was ready")),
                StateProj::Done => panic!("polled after it was ready"),
            }
        };
        this.state.set(State::Done);
        Poll::Ready(ended)
    }
}

fn answered<Res, Req, C, M>(classifier: &C, remember: &M, call: &Call, pass: Option<Pass>, response: Res) -> C::Response
where
    Res: Send + Sync + 'static,
    C: Classifier<Req, Res>,
    M: Remember<Res>,
{
    let Some(pass) = pass else { return classifier.watch(call, response, Completion::none()) };
    let store = || remember.copy(&response).map(|answer| Arc::new(answer) as Stored);
    let completion = match classifier.head(call, &response) {
        Head::Decided(verdict) => {
            pass.settle(&verdict, store);
            Completion::none()
        }
        Head::Provisional(_) | Head::Open => {
            let mut owed = Some((pass, store()));
            Completion::new(move |end: End<'_>| {
                if let (End::Over(verdict), Some((pass, stored))) = (end, owed.take()) {
                    pass.settle(verdict, || stored);
                }
            })
        }
    };
    classifier.watch(call, response, completion)
}

fn failed<C: crate::classify::ClassifyError>(classifier: &C, call: &Call, pass: Option<Pass>, error: Error) -> Error {
    let Some(pass) = pass else { return error };
    match error.rejected() {
        // An earlier attempt may have been applied; dropped, the write is in doubt.
        Some(rejected) if rejected.is_in_doubt() => drop(pass),
        Some(_) => pass.not_sent(),
        None => pass.settle(&classifier.error(call, &error), || None),
    }
    error
}

impl<S, F, Req, C, M> fmt::Debug for ResponseFuture<S, F, Req, C, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
