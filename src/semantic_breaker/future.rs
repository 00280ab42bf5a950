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
    decide::NotAdmitted,
    probing::{ProbeSlot, run_probes},
    shared::Shared,
};
use crate::{
    body::Completion,
    call::Call,
    classify::{ClassifyError, ClassifyResponse, Head},
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
        Refused { error: Option<Error> },
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
        Self { state: State::Refused { error: Some(error) } }
    }

    pub(super) fn not_admitted(refused: NotAdmitted, shared: &Arc<Shared>, call: Call) -> Self {
        match refused {
            NotAdmitted::Refused(error) => Self::refused(error),
            NotAdmitted::Probe(lease) => {
                let probes = run_probes(ProbeSlot::new(shared, &call, lease));
                Self { state: State::Probing { refusal: Mutex::new(Box::pin(probes)) } }
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
        let ended = match this.state.as_mut().project() {
            StateProj::Calling { inner, admission } => match inner.poll(cx) {
                Poll::Pending => {
                    admission.waits();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(response)) => {
                    admission.answered();
                    match admission.classifier().head(admission.call(), &response) {
                        Head::Decided(verdict) => {
                            admission.settle(&verdict);
                            Ok(admission.classifier().watch(admission.call(), response, Completion::none()))
                        }
                        head => Ok(watched(this.state.as_mut(), response, head)),
                    }
                }
                Poll::Ready(Err(error)) => Err(failed(admission, Error::from_boxed(error.into()))),
            },
            StateProj::Probing { refusal } => {
                let refusal = refusal.get_mut().unwrap_or_else(PoisonError::into_inner);
                Err(ready!(refusal.as_mut().poll(cx)))
            }
            StateProj::Refused { error } => Err(error.take().expect("polled after it was ready")),
            StateProj::Done => panic!("polled after it was ready"),
        };
        this.state.set(State::Done);
        Poll::Ready(ended)
    }
}

/// The end is not known yet: the admission goes with the body.
fn watched<F, C, Res>(state: Pin<&mut State<F, C>>, response: Res, head: Head) -> C::Response
where
    C: ClassifyResponse<Res> + Send + Sync + 'static,
{
    let StateOwned::Calling { mut admission, .. } = state.project_replace(State::Done) else {
        unreachable!("only a call in progress gives an answer")
    };
    if let Head::Provisional(verdict) = head {
        admission.stands(verdict);
    }
    let (local, call) = (admission.local().clone(), admission.call().clone());
    local.classifier.watch(&call, response, Completion::new(admission))
}

fn failed<C: ClassifyError>(admission: &mut Admission<C>, error: Error) -> Error {
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
