//! The future of a call that may be attempted again.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower::BoxError;
use tower_service::Service;

use super::{GaveUp, service::Local, state::Decision};
use crate::{
    amend::{Amend, Amendment},
    body::Completion,
    call::{ActionId, Call},
    classify::{Classifier, Head},
    error::{Error, Failure},
    verdict::Verdict,
};

pin_project! {
    /// The future of a call through a [`Retry`](super::Retry). Dropping it ends the call; nothing goes on behind it.
    pub struct ResponseFuture<S, C, A, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        state: State<S, S::Future>,
        attempts: Attempts<S, C, A, Req>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F> {
        Calling { #[pin] inner: F },
        Waiting { #[pin] wait: Sleep },
        Readying { service: S },
    }
}

/// The call, however often it is attempted.
struct Attempts<S, C, A, Req> {
    local: Arc<Local<S, C, A>>,
    call: Call,
    attempt: u32,
    /// What to send if it is attempted again.
    copy: Option<Req>,
    /// Another layer outside repeats this call.
    acts: bool,
    last: Option<Verdict>,
}

impl<S: Service<Req>, C, A, Req> ResponseFuture<S, C, A, Req> {
    pub(super) fn new(inner: S::Future, local: Arc<Local<S, C, A>>, call: Call, copy: Option<Req>, acts: bool) -> Self {
        let attempts = Attempts { local, call, attempt: 1, copy, acts, last: None };
        Self { state: State::Calling { inner }, attempts }
    }
}

impl<S, C, A, Req> Future for ResponseFuture<S, C, A, Req>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response>,
    A: Amend<Req>,
{
    type Output = Result<C::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Calling { inner } => {
                    let wait = match ready!(inner.poll(cx)) {
                        Ok(response) => match this.attempts.answered::<S::Response>(&response) {
                            Some(wait) => wait,
                            None => return Poll::Ready(Ok(this.attempts.hand_on(response))),
                        },
                        Err(error) => match this.attempts.failed::<S::Response>(Error::from_boxed(error.into())) {
                            Ok(wait) => wait,
                            Err(error) => return Poll::Ready(Err(error)),
                        },
                    };
                    State::Waiting { wait: sleep(wait) }
                }
                StateProj::Waiting { wait } => {
                    ready!(wait.poll(cx));
                    State::Readying { service: this.attempts.spare() }
                }
                StateProj::Readying { service } => {
                    ready!(service.poll_ready(cx)).map_err(|error| Error::from_boxed(error.into()))?;
                    let request = this.attempts.next_request::<S::Response>();
                    State::Calling { inner: service.call(request) }
                }
            };
            this.state.set(next);
        }
    }
}

impl<S, C, A, Req> Attempts<S, C, A, Req>
where
    A: Amend<Req>,
{
    /// An answer came: how long to wait before the next attempt, if there is to be one.
    fn answered<Res>(&mut self, response: &Res) -> Option<Duration>
    where
        C: Classifier<Req, Res>,
    {
        match self.local.classifier.head(&self.call, response) {
            Head::Decided(verdict) if !verdict.is_success() => self.repeat(verdict).ok(),
            _ => None,
        }
    }

    fn hand_on<Res>(&self, response: Res) -> C::Response
    where
        C: Classifier<Req, Res>,
    {
        self.local.classifier.watch(&self.call, response, Completion::none())
    }

    /// An error came: how long to wait before the next attempt, or the error of the call.
    fn failed<Res>(&mut self, error: Error) -> Result<Duration, Error>
    where
        C: Classifier<Req, Res>,
    {
        // A refusal further in is final, and no outcome: what came of the attempt before is told with it.
        if let Some(rejected) = error.rejected() {
            return Err(match self.last.take() {
                Some(last) => rejected.clone().with_last(last).into(),
                None => error,
            });
        }
        let verdict = self.local.classifier.error(&self.call, &error);
        self.repeat(verdict).map_err(|verdict| match error.failure() {
            Some(failure) if failure.verdict.reason == verdict.reason => error,
            _ => Failure::new(verdict).caused_by(error).into(),
        })
    }

    /// Prepares the next attempt, or gives up with the verdict.
    fn repeat(&mut self, verdict: Verdict) -> Result<Duration, Verdict> {
        if !self.acts {
            return Err(verdict);
        }
        let shared = &self.local.shared;
        let prepared = match shared.decide(&self.call, &verdict, self.attempt) {
            Decision::GiveUp(why) => Err(why),
            Decision::Again(_) if self.copy.is_none() => Err(GaveUp::NoReplay),
            Decision::Again(wait) => Ok((wait, None)),
            Decision::Amended(wait) => self.amended(&verdict).map(|request| (wait, Some(request))),
        };
        // The budget is asked last: what is not sent spends nothing.
        let prepared = prepared.and_then(|next| if shared.spend() { Ok(next) } else { Err(GaveUp::Budget) });
        match prepared {
            Ok((wait, amended)) => {
                shared.repeats(&verdict, self.attempt);
                if amended.is_some() {
                    // Another request is another intent.
                    self.call = mem::take(&mut self.call).action(ActionId::fresh());
                    self.copy = amended;
                }
                self.attempt += 1;
                self.call = mem::take(&mut self.call).attempt(self.attempt);
                self.last = Some(verdict);
                Ok(wait)
            }
            Err(why) => {
                shared.gave_up(&verdict, why);
                Err(verdict)
            }
        }
    }

    fn amended(&self, verdict: &Verdict) -> Result<Req, GaveUp> {
        let copy = self.copy.as_ref().ok_or(GaveUp::NoReplay)?;
        let amendment = Amendment::after(verdict, self.attempt).ok_or(GaveUp::NoAmendment)?;
        self.local.amend.amend(copy, &amendment).ok_or(GaveUp::NoAmendment)
    }

    /// The request of the next attempt; a copy stays for one more.
    fn next_request<Res>(&mut self) -> Req
    where
        C: Classifier<Req, Res>,
    {
        let mut request = self.copy.take().expect("an attempt is prepared only with a request to send");
        self.local.classifier.attach(&mut request, &self.call);
        self.copy = self.local.classifier.replay(&request);
        request
    }

    fn spare(&self) -> S
    where
        S: Clone,
    {
        self.local.spare.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<S: Service<Req>, C, A, Req> fmt::Debug for ResponseFuture<S, C, A, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("attempt", &self.attempts.attempt).finish_non_exhaustive()
    }
}
