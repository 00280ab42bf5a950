//! What a fallback is told.

use std::{
    error::Error as StdError,
    fmt,
    task::{Context, Poll},
};

use tower::{BoxError, ServiceExt, util::Oneshot};
use tower_service::Service;

use crate::{call::Call, error::Rejected, verdict::Verdict};

/// A call that came to nothing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fallen<Req> {
    /// The request, where it could be copied.
    pub request: Option<Req>,
    /// What it was.
    pub call: Call,
    /// Why it came to nothing.
    pub why: Why,
    /// Whether it may have been applied: then it can be answered for, and must not be sent.
    pub in_doubt: bool,
}

/// Why a call came to nothing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Why {
    /// It was not sent.
    Refused(Rejected),
    /// It failed.
    Failed(Verdict),
}

impl Why {
    /// The stable code of the refusal or of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(rejected) => rejected.code().code(),
            Self::Failed(verdict) => verdict.reason.code(),
        }
    }
}

impl<Req> Fallen<Req> {
    /// What people may quote about this call: the same for every attempt at it, and for whoever asks later.
    pub fn reference(&self) -> Option<String> {
        self.call.reference()
    }

    /// What can honestly be said: that this is no full answer, why, and by which reference to ask again.
    pub fn wording(&self) -> String {
        let doubt = if self.in_doubt {
            "It is not known whether the request was carried out. Do not send it again."
        } else {
            "The request was not answered in full; this is a substitute."
        };
        let why = match &self.why {
            Why::Refused(_) => "The service is not available at the moment.",
            Why::Failed(verdict) => verdict.reason.meaning(),
        };
        match self.reference().filter(|_| self.in_doubt) {
            Some(reference) => format!("{doubt} ({why}) Reference: {reference}."),
            None => format!("{doubt} ({why})"),
        }
    }
}

/// Sends what came to nothing to another service, see [`FallbackLayer::to`](super::FallbackLayer::to).
#[derive(Debug, Clone)]
pub struct Elsewhere<S>(pub(super) S);

/// There is nothing that may be sent elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct NothingToSend;

impl fmt::Display for NothingToSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request cannot be copied, or may have been applied")
    }
}

impl StdError for NothingToSend {}

impl<S, Req> Service<Fallen<Req>> for Elsewhere<S>
where
    S: Service<Req> + Clone,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = futures::ElsewhereFuture<Oneshot<S, Req>>;

    /// Ready at any time: the service is waited for in the future of a call, which is rare.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, fallen: Fallen<Req>) -> Self::Future {
        let request = fallen.request.filter(|_| !fallen.in_doubt);
        futures::ElsewhereFuture { inner: request.map(|request| self.0.clone().oneshot(request)) }
    }
}

pub(super) mod futures {
    use std::{
        future::Future,
        pin::Pin,
        task::{Context, Poll},
    };

    use pin_project_lite::pin_project;
    use tower::BoxError;

    use super::NothingToSend;

    pin_project! {
        /// The future of an [`Elsewhere`](super::Elsewhere).
        #[derive(Debug)]
        pub struct ElsewhereFuture<F> {
            #[pin]
            pub(super) inner: Option<F>,
        }
    }

    impl<F, Res, E> Future for ElsewhereFuture<F>
    where
        F: Future<Output = Result<Res, E>>,
        E: Into<BoxError>,
    {
        type Output = Result<Res, BoxError>;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            match self.project().inner.as_pin_mut() {
                Some(inner) => inner.poll(cx).map_err(Into::into),
                None => Poll::Ready(Err(NothingToSend.into())),
            }
        }
    }
}
