//! The future of a call that may be answered by something else.

use std::{
    any::Any,
    error::Error as StdError,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use tower::{BoxError, ServiceExt, util::Oneshot};
use tower_service::Service;

use super::{
    Degraded, Fallen, Fell, Outcome, Why,
    fallen::NothingToSend,
    service::Substitutes,
    state::{Decision, of_refusal, of_verdict},
    told::Shared,
};
use crate::{
    body::{Completion, WatchedBody},
    call::Call,
    classify::{Classifier, Head},
    error::{Error, Failure},
};

pin_project! {
    /// The future of a call through a [`Fallback`](super::Fallback). Dropping it ends the call, and what answers for it.
    pub struct ResponseFuture<I, F, Req, C, Res>
    where
        F: Service<Fallen<Req>>,
    {
        #[pin]
        state: State<I, F, Req, Res>,
        spare: Spare<F, Req, C>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<I, F, Req, Res>
    where
        F: Service<Fallen<Req>>,
    {
        Calling { #[pin] inner: I },
        // Rare, and larger than all the rest.
        Falling { other: Pin<Box<Oneshot<F, Fallen<Req>>>>, first: Option<Result<Res, Error>>, code: &'static str, sends: Sends },
        Done,
    }
}

/// Whether a call that came to nothing may be sent to another service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sends {
    MaySend,
    MustNot,
}

/// What is needed when the call comes to nothing.
pub(super) struct Spare<F, Req, C> {
    pub(super) fallback: F,
    pub(super) classifier: C,
    pub(super) substitutes: Substitutes,
    pub(super) shared: Arc<Shared>,
    pub(super) call: Call,
    pub(super) copy: Option<Req>,
}

impl<I, F: Service<Fallen<Req>>, Req, C, Res> ResponseFuture<I, F, Req, C, Res> {
    pub(super) const fn new(inner: I, spare: Spare<F, Req, C>) -> Self {
        Self { state: State::Calling { inner }, spare }
    }
}

impl<I, F, Req, C, Res, E> Future for ResponseFuture<I, F, Req, C, Res>
where
    I: Future<Output = Result<Res, E>>,
    E: Into<BoxError>,
    Res: 'static,
    F: Service<Fallen<Req>, Response = Res> + Clone,
    F::Error: Into<BoxError>,
    C: Classifier<Req, Res>,
{
    type Output = Result<C::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let spare = this.spare;
        let ended = loop {
            match this.state.as_mut().project() {
                StateProj::Calling { inner } => {
                    let first = ready!(inner.poll(cx)).map_err(|error| Error::from_boxed(error.into()));
                    let Some((why, decision)) = spare.came_to_nothing(&first) else { break first };
                    let (code, fallback) = (why.code(), spare.fallback.clone());
                    if spare.shared.dry_run.load(Ordering::Acquire) {
                        spare.tell(code, Outcome::WouldAnswer, None);
                        break first;
                    }
                    let request = spare.copy.take().filter(|_| decision != Decision::Explain);
                    let in_doubt = decision == Decision::InDoubt;
                    let fallen = Fallen { request, call: spare.call.clone(), why, in_doubt };
                    let sends = if decision == Decision::Fall { Sends::MaySend } else { Sends::MustNot };
                    let other = Box::pin(fallback.oneshot(fallen));
                    this.state.set(State::Falling { other, first: Some(first), code, sends });
                }
                StateProj::Falling { other, first, code, sends } => {
                    let answer = ready!(other.as_mut().poll(cx)).map_err(Into::into);
                    let first = first.take().expect("polled after it was ready");
                    break match spare.judged(answer) {
                        Ok(mut answer) => {
                            spare.tell(code, Outcome::Answered, None);
                            mark(&mut answer, Degraded { code, reference: spare.call.reference() });
                            Ok(answer)
                        }
                        // The call's own error is the one that explains.
                        Err(error) => {
                            let outcome = match (error.is::<NothingToSend>(), sends) {
                                (true, Sends::MaySend) => Outcome::NoReplay,
                                (true, Sends::MustNot) => Outcome::NotSent,
                                (false, _) => Outcome::Failed,
                            };
                            spare.tell(code, outcome, Some(&*error));
                            first
                        }
                    };
                }
                StateProj::Done => panic!("polled after it was ready"),
            }
        };
        this.state.set(State::Done);
        Poll::Ready(ended.map(|answer| spare.classifier.watch(&spare.call, answer, Completion::none())))
    }
}

impl<F, Req, C> Spare<F, Req, C> {
    /// The answer of the fallback, unless it is known to be as bad as the call's own.
    fn judged<Res>(&self, answer: Result<Res, BoxError>) -> Result<Res, BoxError>
    where
        C: Classifier<Req, Res>,
    {
        let answer = answer?;
        if self.substitutes == Substitutes::AsTheyAre {
            return Ok(answer);
        }
        match self.classifier.head(&self.call, &answer) {
            Head::Decided(verdict) | Head::Provisional(verdict) if !verdict.is_success() => {
                Err(Failure::new(verdict).into())
            }
            _ => Ok(answer),
        }
    }

    fn tell(&self, code: &'static str, outcome: Outcome, error: Option<&(dyn StdError + 'static)>) {
        let reference = self.call.reference();
        self.shared.tell(&Fell { code, reference: reference.as_deref(), outcome, error });
    }

    /// Why, and what may be done, where something else may answer.
    fn came_to_nothing<Res>(&self, ended: &Result<Res, Error>) -> Option<(Why, Decision)>
    where
        C: Classifier<Req, Res>,
    {
        let (config, effect) = (&self.shared.config, self.call.effect_kind());
        let (decision, why) = match ended {
            Ok(response) => match self.classifier.head(&self.call, response) {
                Head::Decided(verdict) | Head::Provisional(verdict) => {
                    (of_verdict(config, &verdict, effect), Why::Failed(verdict))
                }
                Head::Open => return None,
            },
            Err(error) => match error.rejected() {
                Some(rejected) => (of_refusal(config, rejected, effect), Why::Refused(rejected.clone())),
                None => {
                    let verdict = match error.failure() {
                        Some(Failure { verdict, .. }) => verdict.clone(),
                        None => self.classifier.error(&self.call, error),
                    };
                    (of_verdict(config, &verdict, effect), Why::Failed(verdict))
                }
            },
        };
        (decision != Decision::Pass).then_some((why, decision))
    }
}

/// Lets whoever gets the answer see that it is a substitute.
fn mark<Res: 'static>(answer: &mut Res, degraded: Degraded) {
    if let Some(response) = (answer as &mut dyn Any).downcast_mut::<Response<WatchedBody>>() {
        response.extensions_mut().insert(degraded);
    }
}

impl<I, F: Service<Fallen<Req>>, Req, C, Res> fmt::Debug for ResponseFuture<I, F, Req, C, Res> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
