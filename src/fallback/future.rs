//! The future of a call that may be answered by something else.

use std::{
    any::Any,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use tower::{BoxError, ServiceExt, util::Oneshot};
use tower_service::Service;

use super::{
    Degraded, Fallen, LAYER, Why,
    state::{Decision, of_refusal, of_verdict},
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
        Falling { other: Pin<Box<Oneshot<F, Fallen<Req>>>>, first: Option<Result<Res, Error>>, code: &'static str },
        Done,
    }
}

/// What is needed when the call comes to nothing.
pub(super) struct Spare<F, Req, C> {
    pub(super) fallback: F,
    pub(super) classifier: C,
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
                    let Some((why, in_doubt)) = spare.came_to_nothing(&first) else { break first };
                    let (code, fallback) = (why.code(), spare.fallback.clone());
                    let fallen = Fallen { request: spare.copy.take(), call: spare.call.clone(), why, in_doubt };
                    let other = Box::pin(fallback.oneshot(fallen));
                    this.state.set(State::Falling { other, first: Some(first), code });
                }
                StateProj::Falling { other, first, code } => {
                    let answer = ready!(other.as_mut().poll(cx));
                    let first = first.take().expect("polled after it was ready");
                    break match answer {
                        Ok(mut answer) => {
                            tracing::debug!(layer = LAYER, code, "answered by the fallback");
                            metrics::counter!("belay_fallbacks_total", "outcome" => "answered").increment(1);
                            mark(&mut answer, code);
                            Ok(answer)
                        }
                        // The call's own error is the one that explains.
                        Err(error) => {
                            tracing::debug!(layer = LAYER, code, error = %error.into(), "the fallback failed too");
                            metrics::counter!("belay_fallbacks_total", "outcome" => "failed").increment(1);
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
    /// Why, and whether it is in doubt, where something else may answer.
    fn came_to_nothing<Res>(&self, ended: &Result<Res, Error>) -> Option<(Why, bool)>
    where
        C: Classifier<Req, Res>,
    {
        let effect = self.call.effect_kind();
        let (decision, why) = match ended {
            Ok(response) => match self.classifier.head(&self.call, response) {
                Head::Decided(verdict) | Head::Provisional(verdict) => {
                    (of_verdict(&verdict, effect), Why::Failed(verdict))
                }
                Head::Open => return None,
            },
            Err(error) => match error.rejected() {
                Some(rejected) => (of_refusal(rejected, effect), Why::Refused(rejected.clone())),
                None => {
                    let verdict = match error.failure() {
                        Some(Failure { verdict, .. }) => verdict.clone(),
                        None => self.classifier.error(&self.call, error),
                    };
                    (of_verdict(&verdict, effect), Why::Failed(verdict))
                }
            },
        };
        match decision {
            Decision::Pass => None,
            Decision::Fall => Some((why, false)),
            Decision::InDoubt => Some((why, true)),
        }
    }
}

/// Lets whoever gets the answer see that it is a substitute.
fn mark<Res: 'static>(answer: &mut Res, code: &'static str) {
    if let Some(response) = (answer as &mut dyn Any).downcast_mut::<Response<WatchedBody>>() {
        response.extensions_mut().insert(Degraded { code });
    }
}

impl<I, F: Service<Fallen<Req>>, Req, C, Res> fmt::Debug for ResponseFuture<I, F, Req, C, Res> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
