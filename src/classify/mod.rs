//! Tells every layer what a request is and what came of it.
//!
//! Each layer is generic over one classifier and holds [`Auto`] unless `.classifier(c)` replaces it. [`Auto`] knows
//! `http` requests and answers. Everything else is told in a closure, see [`classify_fn`].
//!
//! A classifier is made of small traits: [`Classify`] looks at requests, [`ClassifyResponse`] at answers and
//! [`ClassifyError`] at errors; [`Classifier`] is all of them. A layer that only looks at requests asks for
//! [`Classify`] alone.
//!
//! ```
//! use http::{Request, Response};
//! use tower_belay::{Auto, Effect, Name, Reason, classify::{Classify, ClassifyResponse, Head}};
//!
//! let read = Auto.classify(&Request::get("https://crm.example/orders/17").body(()).unwrap());
//! assert_eq!((read.name(Name::Target), read.effect_kind()), (Some("crm.example"), Effect::ReadOnly));
//! let write = Auto.classify(&Request::post("https://crm.example/orders").body(()).unwrap());
//! assert_eq!(write.effect_kind(), Effect::Sensitive);
//!
//! let answer = |status| Response::builder().status(status).body(String::new()).unwrap();
//! assert_eq!(Auto.head(&read, &answer(200)), Head::Decided(Reason::Completed.into()));
//! // The same answer proves that a read failed, and leaves open whether a write was applied.
//! assert_eq!(Auto.head(&read, &answer(500)), Head::Decided(Reason::ServerError.into()));
//! assert_eq!(Auto.head(&write, &answer(500)), Head::Decided(Reason::Unproven.into()));
//! ```

mod auto;
mod closure;
mod endpoint;
mod errors;
pub(crate) mod grpc;
#[cfg(feature = "reqwest")]
mod reqwest;
pub(crate) mod status;
pub(crate) mod wait;

use std::error::Error as StdError;

#[cfg(feature = "reqwest")]
pub(crate) use self::reqwest::{Redirects, reqwest_reason};
pub use auto::{Auto, RequestHead};
pub use closure::{ClassifyFn, ClassifyHttp, Judge, Plain, classify_fn, classify_http};
pub use errors::error_verdict;

pub use crate::body::{Completion, End, OnEnd};
use crate::{call::Call, verdict::Verdict};

/// Tells what a request is.
pub trait Classify<Req> {
    /// What `request` is: its names and its effect.
    fn classify(&self, request: &Req) -> Call;

    /// Keeps `call` with the request for the layers inside; by default nothing.
    fn attach(&self, request: &mut Req, call: &Call) {
        let _ = (request, call);
    }

    /// A copy to send again; by default none, and the request goes once.
    fn replay(&self, request: &Req) -> Option<Req> {
        let _ = request;
        None
    }
}

/// Tells what came of a call that ended in an error.
pub trait ClassifyError {
    /// The verdict on `error`, which is no refusal of ours: layers ask about those first.
    fn error(&self, call: &Call, error: &(dyn StdError + 'static)) -> Verdict;
}

/// Tells what came of a call that got a response.
pub trait ClassifyResponse<Res>: ClassifyError {
    /// `Res` itself, or `Res` with its body watched to the end.
    type Response;

    /// What the head of the response already says.
    fn head(&self, call: &Call, response: &Res) -> Head;

    /// Hands `response` on; its end is reported to `completion`. A response whose head was decided usually comes with
    /// an empty completion.
    fn watch(&self, call: &Call, response: Res, completion: Completion) -> Self::Response;
}

/// How much of the outcome is known when the head of a response is there.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Head {
    /// All of it.
    Decided(Verdict),
    /// This, if the rest is never read.
    Provisional(Verdict),
    /// Nothing: the end decides.
    Open,
}

/// A whole classifier, for requests and for responses.
pub trait Classifier<Req, Res>: Classify<Req> + ClassifyResponse<Res> {}

impl<C, Req, Res> Classifier<Req, Res> for C where C: Classify<Req> + ClassifyResponse<Res> {}
