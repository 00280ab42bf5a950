//! Names each request before it is sent on.

use std::task::{Context, Poll};

use tower_service::Service;

use crate::{
    classify::Classify,
    coverage::{Coverage, Guard, Mode, Part},
};

/// Attaches to each request the [`Call`](crate::Call) that it is, see [`IdentifyLayer`](super::IdentifyLayer).
#[derive(Debug, Clone, Copy)]
pub struct Identify<S, C> {
    inner: S,
    classifier: C,
}

impl<S, C> Identify<S, C> {
    /// Identifies the requests of `inner` with `classifier`.
    pub const fn new(inner: S, classifier: C) -> Self {
        Self { inner, classifier }
    }
}

impl<S, C, Req> Service<Req> for Identify<S, C>
where
    S: Service<Req>,
    C: Classify<Req>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> S::Future {
        let call = self.classifier.classify(&request);
        self.classifier.attach(&mut request, &call);
        self.inner.call(request)
    }
}

impl<S: Guard, C> Guard for Identify<S, C> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::Identify, Mode::Enforcing);
        self.inner.report(coverage);
    }
}
