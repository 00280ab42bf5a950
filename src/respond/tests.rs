use std::{
    io,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{Router, routing::get};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tower::{BoxError, Layer, ServiceExt};
use tower_service::Service;
use tower_test::mock;

use super::{
    answer::{of_reason, of_refusal},
    problem::{percent_encoded, quote},
    *,
};
use crate::{
    body::WatchedBody,
    call::{Call, Scope},
    error::{Error, Failure, Refusal, Rejected},
    reason::{Class, Reason},
    testing::{Scripted, Step},
    verdict::Verdict,
};

type Body = Full<Bytes>;

async fn answer_to(error: impl Into<BoxError>, content_type: &'static str) -> Response<Body> {
    let inner = Scripted::new([Step::<Response<Body>>::fail(error)]);
    let request = Request::post("/x").header("content-type", content_type).body(()).expect("a request");
    let Ok(response) = RespondLayer::new().layer(inner).oneshot(request).await;
    response
}

async fn json(response: Response<Body>) -> serde_json::Value {
    let Ok(body) = response.into_body().collect().await;
    serde_json::from_slice(&body.to_bytes()).expect("JSON")
}

fn rejected(code: Refusal) -> Rejected {
    Rejected::new("semantic_breaker", code, Scope::TARGET, &Call::to("crm"))
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_problem_with_a_wait_rounded_up() {
    let wait = Duration::from_millis(1_200);
    let response = answer_to(rejected(Refusal::Open).with_retry_at(Instant::now() + wait), "application/json").await;
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "2");
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let problem = json(response).await;
    assert_eq!(problem["type"], "about:blank");
    assert_eq!(problem["title"], "Service Unavailable");
    assert_eq!(problem["status"], 503);
    assert_eq!(problem["code"], "open");
    assert_eq!(problem["layer"], "semantic_breaker");
    assert_eq!(problem["retry_after_ms"], 1_200);
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.starts_with("The call was not sent.") && !detail.contains("crm"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_never_zero_and_absent_where_nobody_knows_it() {
    let now = answer_to(rejected(Refusal::Gated).with_retry_at(Instant::now()), "").await;
    assert_eq!((now.status(), &now.headers()["retry-after"]), (StatusCode::TOO_MANY_REQUESTS, &"1".parse().unwrap()));
    let unknown = answer_to(rejected(Refusal::Killed), "").await;
    assert!(!unknown.headers().contains_key("retry-after"));
    assert!(json(unknown).await.get("retry_after_ms").is_none());
}

#[tokio::test(start_paused = true)]
async fn only_what_was_not_applied_may_invite_to_repeat_it() {
    for reason in Reason::ALL {
        let verdict = Verdict::new(*reason).with_retry_at(Instant::now() + Duration::from_secs(3));
        let response = answer_to(Failure::new(verdict), "").await;
        let unknown = reason.class() == Class::Unknown;
        assert_eq!(response.headers().contains_key("retry-after"), !unknown, "{reason}");
        if unknown {
            assert!(!matches!(response.status().as_u16(), 429 | 503), "{reason}");
            let detail = json(response).await["detail"].to_string();
            assert!(detail.contains("may or may not"), "{detail}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_an_attempt_that_may_have_been_applied_invites_to_nothing() {
    let refusal = || {
        let refusal = rejected(Refusal::Open).with_retry_at(Instant::now() + Duration::from_secs(3));
        refusal.with_last(Verdict::new(Reason::Timeout))
    };
    let response = answer_to(refusal(), "").await;
    assert_eq!((response.status().as_u16(), response.headers().get("retry-after")), (503, None));
    let response = answer_to(refusal(), "application/grpc").await;
    assert_eq!(
        (&response.headers()["grpc-status"], &response.headers()["grpc-retry-pushback-ms"]),
        (&v("2"), &v("-1"))
    );
}

#[tokio::test]
async fn an_error_that_nobody_judged_is_answered_without_its_text() {
    let secret = answer_to(io::Error::other("token sk-secret at https://x.example?key=1"), "").await;
    assert_eq!(secret.status(), 502);
    let logged = secret.extensions().get::<Answered>().expect("the cause is kept").error().to_string();
    assert!(logged.contains("sk-secret"));
    let problem = json(secret).await;
    assert_eq!(problem["code"], "unclassified");
    assert!(!problem.to_string().contains("secret"));

    let elapsed = tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await.expect_err("a timeout");
    assert_eq!(answer_to(elapsed, "").await.status(), 504);
}

#[tokio::test(start_paused = true)]
async fn grpc_requests_get_a_status_without_a_message() {
    let at = Instant::now() + Duration::from_millis(2_500);
    let response = answer_to(rejected(Refusal::Gated).with_retry_at(at), "application/grpc+proto").await;
    assert_eq!(response.status(), 200);
    let headers = response.headers();
    assert_eq!(headers["content-type"], "application/grpc+proto");
    assert_eq!(headers["grpc-status"], "8");
    assert_eq!(headers["grpc-retry-pushback-ms"], "2500");
    assert!(headers["grpc-message"].to_str().expect("ASCII").starts_with("The call was not sent."));
    assert_eq!(http_body::Body::size_hint(response.body()).exact(), Some(0));

    let killed = answer_to(rejected(Refusal::Killed), "application/grpc").await;
    assert_eq!((&killed.headers()["grpc-status"], &killed.headers()["grpc-retry-pushback-ms"]), (&v("9"), &v("-1")));
    let unknown = answer_to(Failure::new(Reason::ConnectionLost), "application/grpc").await;
    assert_eq!((&unknown.headers()["grpc-status"], &unknown.headers()["grpc-retry-pushback-ms"]), (&v("2"), &v("-1")));
    let unsent = answer_to(Failure::new(Reason::ConnectFailed), "application/grpc").await;
    assert_eq!(unsent.headers()["grpc-status"], "14");
    assert!(!unsent.headers().contains_key("grpc-retry-pushback-ms"));
}

fn v(text: &'static str) -> HeaderValue {
    HeaderValue::from_static(text)
}

#[test]
fn a_failing_readiness_answers_the_next_request_and_pending_stays_pending() {
    let (mut service, mut handle) = mock::spawn_with::<Request<()>, Response<Body>, _, _>(Respond::new);
    handle.allow(0);
    assert!(service.poll_ready::<Request<()>>().is_pending());
    handle.send_error(rejected(Refusal::ActorBlocked));
    assert!(service.poll_ready::<Request<()>>().is_ready());
    let mut answer = Box::pin(service.call(Request::new(())));
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(response)) => assert_eq!(response.status(), 403),
        Poll::Pending => panic!("there is nothing to wait for"),
    }
}

/// Refuses everything, as a breaker would.
#[derive(Clone)]
struct Refuse;

impl<S: Service<Req>, Req> Service<Req> for Refusing<S> {
    type Response = S::Response;
    type Error = Error;
    type Future = std::future::Ready<Result<S::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Req) -> Self::Future {
        std::future::ready(Err(rejected(Refusal::Degraded).into()))
    }
}

#[derive(Clone)]
// Never called: it only makes the refusing service look as if it wrapped another.
struct Refusing<S>(#[allow(dead_code)] S);

impl<S> Layer<S> for Refuse {
    type Service = Refusing<S>;

    fn layer(&self, inner: S) -> Refusing<S> {
        Refusing(inner)
    }
}

#[tokio::test]
async fn axum_routes_compile_and_answer() {
    let guarded = get(|| async { "hi" }).layer((RespondLayer::new(), Refuse));
    let app = Router::new().route("/guarded", guarded).route("/", get(|| async { "hi" }).layer(RespondLayer::new()));
    let Ok(passed) = app.clone().oneshot(Request::get("/").body(axum::body::Body::empty()).expect("a request")).await;
    assert_eq!(passed.status(), 200);
    let request = Request::get("/guarded").body(axum::body::Body::empty()).expect("a request");
    let Ok(refused) = app.oneshot(request).await;
    assert_eq!(refused.status(), 503);
    let body = refused.into_body().collect().await.expect("a body").to_bytes();
    assert!(body.starts_with(br#"{"type":"about:blank","title":"Service Unavailable","status":503,"#));
}

#[tokio::test]
async fn watched_bodies_are_answered_as_they_are() {
    let inner = Scripted::new([Step::<Response<WatchedBody>>::fail(rejected(Refusal::Open))]);
    let Ok(response) = RespondLayer::new().layer(inner).oneshot(Request::new(())).await;
    assert_eq!(response.status(), 503);
}

#[test]
fn the_tables_in_the_docs_are_those_in_the_code() {
    let docs = include_str!("mod.rs");
    let refusals = Refusal::ALL.iter().map(|refusal| (refusal.code(), of_refusal(*refusal)));
    let reasons = Reason::ALL.iter().map(|reason| (reason.code(), of_reason(*reason)));
    for (code, (status, grpc)) in refusals.chain(reasons) {
        let row = format!("//! | `{code}` | {} | {} ", status.as_u16(), grpc as u8);
        assert!(docs.contains(&row), "no row `{row}`");
    }
}

#[test]
fn texts_are_escaped() {
    let mut json = String::new();
    quote(&mut json, "a \"b\" \\ \n\u{1}é");
    assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), "a \"b\" \\ \n\u{1}é");
    assert_eq!(percent_encoded("5 % é\n"), "5 %25 %C3%A9%0A");
}
