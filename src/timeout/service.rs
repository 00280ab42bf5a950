//! The service.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::{LAYER, ResponseFuture, TimeoutConfig};
use crate::{
    call::{Call, Scope},
    classify::{Auto, Classifier},
    config_error::ConfigError,
    coverage::{Coverage, Guard, Mode, Part},
    error::{Error, Refusal, Rejected},
    teller::Teller,
};

/// A service whose calls may take so long and no longer. See the [module](super).
#[derive(Clone)]
pub struct Timeout<S, C = Auto> {
    inner: S,
    shared: Arc<Shared>,
    classifier: C,
}

pub(super) struct Shared {
    pub(super) config: TimeoutConfig,
    pub(super) invalid: Option<ConfigError>,
    pub(super) teller: Teller,
}

impl Shared {
    /// By when the answer to `call` must be over; an error where it need not even be sent.
    fn due(&self, call: &Call) -> Result<Option<Instant>, Error> {
        if let Some(invalid) = &self.invalid {
            let rejected = Rejected::new(LAYER, Refusal::Misconfigured, Scope::GLOBAL, call);
            return Err(self.teller.refuse(rejected.with_source(invalid.clone())));
        }
        let deadline = call.deadline_at();
        if !self.config.enabled && deadline.is_none() {
            return Ok(None);
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(self.teller.refuse(Rejected::new(LAYER, Refusal::DeadlinePassed, Scope::GLOBAL, call)));
        }
        let own = if self.config.enabled { now.checked_add(self.config.total) } else { None };
        Ok(own.into_iter().chain(deadline).min())
    }
}

impl<S, C> Timeout<S, C> {
    pub(super) const fn new(inner: S, shared: Arc<Shared>, classifier: C) -> Self {
        Self { inner, shared, classifier }
    }

    /// The inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Timeout<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// === impl Service ===

impl<S, C, Req> Service<Req> for Timeout<S, C>
where
    S: Service<Req>,
    S::Error: Into<BoxError>,
    C: Classifier<Req, S::Response> + Clone,
{
    type Response = C::Response;
    type Error = Error;
    type Future = ResponseFuture<S::Future, C>;

    /// Ready when the inner service is; one that refuses whatever comes does not ask it.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.shared.invalid.is_some() {
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_ready(cx).map_err(|error| Error::from_boxed(error.into()))
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let mut call = self.classifier.classify(&request);
        match self.shared.due(&call) {
            Ok(due) => {
                if due.is_some() {
                    call = call.deadline(due);
                    self.classifier.attach(&mut request, &call);
                }
                ResponseFuture::calling(self.inner.call(request), call, due, self.classifier.clone())
            }
            Err(error) => ResponseFuture::refused(error),
        }
    }
}

impl<S: Guard, C> Guard for Timeout<S, C> {
    fn report(&self, coverage: &mut Coverage) {
        let mode = match &*self.shared {
            Shared { invalid: Some(_), .. } => Mode::Misconfigured,
            Shared { config, .. } if !config.enabled => Mode::Off,
            _ => Mode::Enforcing,
        };
        coverage.add(Part::Timeout, mode);
        self.inner.report(coverage);
    }
}
