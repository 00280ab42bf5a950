//! The future of a call through the breaker.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::BoxError;

use super::{
    admission::Admission,
    shared::{NotAdmitted, Shared},
};
use crate::{
    body::Completion,
    call::Call,
    classify::{ClassifyResponse, Head},
    error::{Error, Failure},
};

pin_project! {
    /// The future of a call through a [`SemanticBreaker`](super::SemanticBreaker).
    ///
    /// Dropping it settles the call once: as a failure if its answer was awaited for `hung_after`, else as nothing.
    pub struct ResponseFuture<F, C> {
        #[pin]
        state: State<F, C>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<F, C> {
        Calling { #[pin] inner: F, admission: Admission<C> },
        Refused { error: Error },
        // Off the fast path: the one call in many that tests the target instead of being sent. The mutex is never
        // locked: it makes the future `Sync`, which a probe need not be.
        Probing { refusal: Mutex<Pin<Box<dyn Future<Output = Error> + Send>>> },
        Done,
    }
}

impl<F, C> ResponseFuture<F, C> {
    pub(super) fn calling(inner: F, admission: Admission<C>) -> Self {
        Self { state: State::Calling { inner, admission } }
    }

    pub(super) fn refused(error: Error) -> Self {
        Self { state: State::Refused { error } }
    }

    pub(super) fn not_admitted(refused: NotAdmitted, shared: &Arc<Shared>, call: Call) -> Self {
        match refused {
            NotAdmitted::Refused(error) => Self::refused(error),
            NotAdmitted::Probe(lease) => {
                Self { state: State::Probing { refusal: Mutex::new(Box::pin(shared.clone().run_probes(call, lease))) } }
            }
        }
    }
}

impl<F, C, Res, E> Future for ResponseFuture<F, C>
where
    F: Future<Output = Result<Res, E>>,
    E: Into<BoxError>,
    C: ClassifyResponse<Res> + Send + Sync + 'static,
{
    type Output = Result<C::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let answer = match this.state.as_mut().project() {
            StateProj::Calling { inner, admission } => match inner.poll(cx) {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    admission.waits();
                    return Poll::Pending;
                }
            },
            StateProj::Probing { refusal } => {
                let refusal = refusal.get_mut().unwrap_or_else(PoisonError::into_inner);
                let error = ready!(refusal.as_mut().poll(cx));
                this.state.project_replace(State::Done);
                return Poll::Ready(Err(error));
            }
            StateProj::Refused { .. } | StateProj::Done => match this.state.project_replace(State::Done) {
                StateOwned::Refused { error } => return Poll::Ready(Err(error)),
                _ => panic!("polled after it was ready"),
            },
        };
        let StateOwned::Calling { admission, .. } = this.state.project_replace(State::Done) else {
            unreachable!("only a call in progress gives an answer")
        };
        Poll::Ready(match answer {
            Ok(response) => Ok(answered(admission, response)),
            Err(error) => Err(failed(admission, Error::from_boxed(error.into()))),
        })
    }
}

fn answered<C, Res>(mut admission: Admission<C>, response: Res) -> C::Response
where
    C: ClassifyResponse<Res> + Send + Sync + 'static,
{
    admission.answered();
    match admission.classifier().head(admission.call(), &response) {
        Head::Decided(verdict) => {
            admission.settle(&verdict);
            admission.classifier().watch(admission.call(), response, Completion::none())
        }
        Head::Provisional(verdict) => {
            admission.stands(verdict);
            watched(admission, response)
        }
        Head::Open => watched(admission, response),
    }
}

fn watched<C, Res>(admission: Admission<C>, response: Res) -> C::Response
where
    C: ClassifyResponse<Res> + Send + Sync + 'static,
{
    let local = admission.local().clone();
    let call = admission.call().clone();
    local.classifier.watch(&call, response, Completion::new(admission))
}

fn failed<C>(mut admission: Admission<C>, error: Error) -> Error
where
    C: crate::classify::ClassifyError,
{
    // A refusal further in is not an outcome: nothing was sent.
    if error.rejected().is_some() {
        admission.release();
        return error;
    }
    let verdict = admission.classifier().error(admission.call(), &error);
    admission.settle(&verdict);
    match error.failure() {
        Some(failure) if failure.verdict.reason == verdict.reason => error,
        _ => Failure::new(verdict).caused_by(error).into(),
    }
}

impl<F, C> fmt::Debug for ResponseFuture<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
