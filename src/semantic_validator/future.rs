//! The future of a call whose answer is looked at.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use tower::BoxError;

use super::judge::Judge;
use crate::{
    body::WatchedBody,
    call::Call,
    error::{Error, Failure},
    provider::Answer,
};

pin_project! {
    /// The future of a call through a [`SemanticValidator`](super::SemanticValidator).
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        judge: Arc<Judge>,
        call: Call,
        is_question: bool,
    }
}

impl<F> ResponseFuture<F> {
    pub(super) const fn new(inner: F, judge: Arc<Judge>, call: Call, is_question: bool) -> Self {
        Self { inner, judge, call, is_question }
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<WatchedBody>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<WatchedBody>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx)).map_err(|error| Error::from_boxed(error.into()))?;
        let answer = response.extensions().get::<Answer>().cloned();
        // An error status was judged already, and what was never read is judged only where a model was asked.
        if !response.status().is_success() || (answer.is_none() && !*this.is_question) {
            return Poll::Ready(Ok(response));
        }
        Poll::Ready(looked_at(response, answer, this.judge, this.call, *this.is_question).map_err(Error::from))
    }
}

fn looked_at(
    response: Response<WatchedBody>,
    answer: Option<Answer>,
    judge: &Arc<Judge>,
    call: &Call,
    is_question: bool,
) -> Result<Response<WatchedBody>, Failure> {
    let look = move |verdict: &_, judge: &Judge, call: &Call, answer: Option<&Answer>| {
        let reading = answer.and_then(Answer::reading);
        if reading.is_none() && !is_question { Ok(Clone::clone(verdict)) } else { judge.judge(call, reading, verdict) }
    };
    match response.body().verdict() {
        Some(verdict) => {
            let revised = look(&verdict, judge, call, answer.as_ref())?;
            Ok(response.map(|body| body.revised(revised)))
        }
        None => {
            let (judge, call) = (judge.clone(), call.clone());
            let check = move |verdict: &_| look(verdict, &judge, &call, answer.as_ref());
            Ok(response.map(|body| body.checked(Box::new(check))))
        }
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
