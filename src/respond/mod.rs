//! Turns every error of the services inside into an answer, so that a server has none left.
//!
//! - A refusal by one of our layers and a judged failure are answered by the tables below; any other error is read
//!   like a layer reads it, and is `unclassified` if it says nothing.
//! - The answer holds our own words and numbers only: the text that is safe to show a model, never the text of an
//!   error. The error itself lies in the extensions of the response, as [`Answered`], for whoever logs outside.
//! - HTTP requests get `application/problem+json` (RFC 9457) with the members `code`, `layer` (of a refusal) and
//!   `retry_after_ms`, and a `retry-after` in whole seconds, rounded up.
//! - gRPC requests, known by their content type, get their status in the head and nothing after it, with
//!   `grpc-retry-pushback-ms`: the wait, or -1 where the call must not be repeated.
//! - A wait is stated only where nothing was applied: it invites to repeat the call. A refused attempt after one that
//!   may have been applied states none, and its gRPC status is 2 UNKNOWN.
//!
//! It belongs outermost on a server, around everything that may refuse, since axum and tonic want a service that
//! cannot fail. Its responses have the body type of the inner service, which must be made of
//! [`Bytes`](bytes::Bytes). axum's is, and so is the [`WatchedBody`](crate::WatchedBody) of our layers that watch
//! answers; tonic's own is not, so that around tonic's routes one of those layers must lie inside. The inner
//! service's readiness is kept; if it fails to get ready, the next request is answered with that error.
//!
//! | refusal | HTTP | gRPC |
//! |---|---|---|
//! | `open` | 503 | 14 UNAVAILABLE |
//! | `degraded` | 503 | 14 UNAVAILABLE |
//! | `writes_open` | 503 | 9 FAILED_PRECONDITION |
//! | `probing` | 503 | 14 UNAVAILABLE |
//! | `awaiting_probe` | 503 | 9 FAILED_PRECONDITION |
//! | `recovering` | 503 | 14 UNAVAILABLE |
//! | `gated` | 429 | 8 RESOURCE_EXHAUSTED |
//! | `already_done` | 409 | 9 FAILED_PRECONDITION |
//! | `in_progress` | 409 | 10 ABORTED |
//! | `in_doubt` | 409 | 9 FAILED_PRECONDITION |
//! | `action_conflict` | 409 | 9 FAILED_PRECONDITION |
//! | `too_many_writes` | 503 | 9 FAILED_PRECONDITION |
//! | `actor_blocked` | 403 | 7 PERMISSION_DENIED |
//! | `credential_open` | 503 | 9 FAILED_PRECONDITION |
//! | `forced_open` | 503 | 9 FAILED_PRECONDITION |
//! | `rate_limit` | 429 | 8 RESOURCE_EXHAUSTED |
//! | `bulkhead_full` | 503 | 8 RESOURCE_EXHAUSTED |
//! | `bulkhead_wait` | 503 | 8 RESOURCE_EXHAUSTED |
//! | `budget_spent` | 402 | 8 RESOURCE_EXHAUSTED |
//! | `steps_spent` | 402 | 8 RESOURCE_EXHAUSTED |
//! | `time_spent` | 402 | 8 RESOURCE_EXHAUSTED |
//! | `unpriced` | 503 | 9 FAILED_PRECONDITION |
//! | `deadline_passed` | 504 | 4 DEADLINE_EXCEEDED |
//! | `repeated` | 409 | 9 FAILED_PRECONDITION |
//! | `poll_too_soon` | 429 | 8 RESOURCE_EXHAUSTED |
//! | `loop_ended` | 409 | 9 FAILED_PRECONDITION |
//! | `misconfigured` | 503 | 9 FAILED_PRECONDITION |
//! | `killed` | 503 | 9 FAILED_PRECONDITION |
//!
//! | failure | HTTP | gRPC |
//! |---|---|---|
//! | `completed` | 502 | 13 INTERNAL |
//! | `paused` | 502 | 13 INTERNAL |
//! | `accepted` | 502 | 13 INTERNAL |
//! | `connect_failed` | 502 | 14 UNAVAILABLE |
//! | `overloaded` | 503 | 14 UNAVAILABLE |
//! | `server_error` | 502 | 13 INTERNAL |
//! | `warming_up` | 503 | 14 UNAVAILABLE |
//! | `conflict` | 409 | 10 ABORTED |
//! | `invalid_request` | 400 | 3 INVALID_ARGUMENT |
//! | `not_found` | 404 | 5 NOT_FOUND |
//! | `context_overflow` | 413 | 3 INVALID_ARGUMENT |
//! | `failed` | 502 | 13 INTERNAL |
//! | `timeout` | 504 | 4 DEADLINE_EXCEEDED |
//! | `connection_lost` | 502 | 2 UNKNOWN |
//! | `cut` | 502 | 2 UNKNOWN |
//! | `unproven` | 502 | 2 UNKNOWN |
//! | `hung` | 504 | 4 DEADLINE_EXCEEDED |
//! | `abandoned` | 502 | 2 UNKNOWN |
//! | `unclassified` | 502 | 2 UNKNOWN |
//! | `unauthenticated` | 502 | 9 FAILED_PRECONDITION |
//! | `quota_exhausted` | 502 | 9 FAILED_PRECONDITION |
//! | `not_entitled` | 502 | 9 FAILED_PRECONDITION |
//! | `permission_denied` | 403 | 7 PERMISSION_DENIED |
//! | `cross_tenant` | 403 | 7 PERMISSION_DENIED |
//! | `policy_denied` | 403 | 7 PERMISSION_DENIED |
//! | `content_filtered` | 422 | 9 FAILED_PRECONDITION |
//! | `refused` | 422 | 9 FAILED_PRECONDITION |
//! | `unparsable` | 502 | 13 INTERNAL |
//! | `empty_answer` | 502 | 13 INTERNAL |
//! | `output_limit` | 502 | 13 INTERNAL |
//! | `schema_violation` | 502 | 13 INTERNAL |
//! | `bad_arguments` | 502 | 13 INTERNAL |
//! | `unknown_tool` | 502 | 13 INTERNAL |
//! | `tool_call_invalid` | 502 | 13 INTERNAL |
//! | `rate_limited` | 429 | 8 RESOURCE_EXHAUSTED |
//!
//! ```
//! use http::{Request, Response};
//! use tower::{Layer, ServiceExt, service_fn};
//! use tower_belay::{Call, Error, Refusal, Rejected, Scope, WatchedBody, respond::RespondLayer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let inner = service_fn(|request: Request<()>| async move {
//!     match request.uri().path() {
//!         "/ok" => Ok(Response::new(WatchedBody::empty())),
//!         _ => Err(Error::from(Rejected::new("semantic_breaker", Refusal::Open, Scope::TARGET, &Call::to("crm")))),
//!     }
//! });
//! let server = RespondLayer::new().layer(inner);
//!
//! let Ok(passed) = server.clone().oneshot(Request::get("/ok").body(()).unwrap()).await;
//! assert_eq!(passed.status(), 200);
//!
//! let Ok(refused) = server.oneshot(Request::get("/").body(()).unwrap()).await;
//! assert_eq!(refused.status(), 503);
//! assert_eq!(refused.headers()["content-type"], "application/problem+json");
//! # }
//! ```
//!
//! A route of axum, guarded. The URI of a request to a server names no target, so the classifier does; who asks comes
//! from an extension, where an authenticating layer outside of the route left it:
//!
//! ```
//! use axum::{Router, body::Body, http::{Request, StatusCode}, routing::post};
//! use tower::{ServiceBuilder, ServiceExt};
//! use tower_belay::{Call, RespondLayer, SemanticBreakerLayer, TripCard, classify::RequestHead, classify_http};
//!
//! #[derive(Clone)]
//! struct Principal {
//!     tenant: &'static str,
//!     user: &'static str,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let names = classify_http(|head: &RequestHead<'_>, call: Call| {
//!     let call = call.target("crm").operation("refund");
//!     match head.extensions.get::<Principal>() {
//!         Some(who) => call.tenant(who.tenant).actor(who.user),
//!         None => call,
//!     }
//! });
//! let breaker = SemanticBreakerLayer::new(TripCard::default()).classifier(names);
//! let guard = ServiceBuilder::new().layer(RespondLayer::new()).layer(breaker);
//! let app = Router::new().route("/refund", post(|| async { StatusCode::FORBIDDEN }).layer(guard));
//!
//! let mallory = || {
//!     let mut request = Request::post("/refund").body(Body::empty())?;
//!     request.extensions_mut().insert(Principal { tenant: "acme", user: "mallory" });
//!     Ok::<_, axum::http::Error>(request)
//! };
//! for _ in 0..3 {
//!     app.clone().oneshot(mallory()?).await?;
//! }
//! // Denied three times: the fourth request does not reach the handler, and is told when to come again.
//! let blocked = app.oneshot(mallory()?).await?;
//! assert_eq!(blocked.headers()["content-type"], "application/problem+json");
//! assert_eq!(blocked.headers()["retry-after"], "600");
//! # Ok(())
//! # }
//! ```

pub(crate) mod answer;
mod future;
mod layer;
pub(crate) mod problem;
mod service;
#[cfg(test)]
mod tests;

pub use self::{
    future::{Answered, ResponseFuture},
    layer::RespondLayer,
    service::Respond,
};
