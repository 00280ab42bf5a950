use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::*;
use crate::{
    SemanticBreakerLayer, TripCard, WatchedBody,
    call::Call,
    classify::classify_fn,
    error::{Error, Refusal, Rejected},
    semantic_breaker::{SlowCalls, State},
    testing::{BodyScript, Scripted, Step},
};

const TOTAL: Duration = Duration::from_secs(5);

fn layer() -> TimeoutLayer {
    TimeoutLayer::new(TimeoutConfig::default().total(TOTAL))
}

fn reason(error: &Error) -> Option<crate::Reason> {
    error.failure().map(crate::Failure::reason)
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_time_passes_and_one_that_is_late_is_given_up() {
    let inner = Scripted::new([Step::answer(1).after(TOTAL - Duration::from_millis(1)), Step::stall()]);
    let mut service = layer().classifier(classify_fn(|_: &&str| Call::to("search"))).layer(inner.clone());
    assert_eq!(service.ready().await.expect("ready").call("first").await.expect("in time"), 1);
    let begun = Instant::now();
    let error = service.ready().await.expect("ready").call("second").await.expect_err("too late");
    assert_eq!((reason(&error), begun.elapsed()), (Some(crate::Reason::Timeout), TOTAL));
}

/// Works without a timer driver: one that was touched would panic.
#[test]
fn an_answer_that_is_there_at_once_touches_no_timer() {
    let service =
        layer().layer(service_fn(|_: Request<()>| async { Ok::<_, BoxError>(Response::new("a".to_owned())) }));
    let stream = layer().layer(service_fn(|_: Request<()>| async {
        Ok::<_, BoxError>(Response::new(BodyScript::new().data("a").data("b")))
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        assert!(service.oneshot(Request::new(())).await.is_ok());
        let response = stream.oneshot(Request::new(())).await.expect("a head");
        assert_eq!(response.into_body().collect().await.expect("whole").to_bytes(), "ab");
    });
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_call_shortens_its_time_and_goes_on_inside() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inner = seen.clone();
    let service = layer().layer(service_fn(move |request: Request<()>| {
        inner.lock().expect("no panic").push(request.extensions().get::<Call>().and_then(Call::deadline_at));
        async {
            std::future::pending::<()>().await;
            Ok::<_, BoxError>(Response::new(String::new()))
        }
    }));
    let begun = Instant::now();
    let sooner = begun + Duration::from_secs(2);
    let mut request = Request::new(());
    request.extensions_mut().insert(Call::to("llm").deadline(sooner));
    let error = service.clone().oneshot(request).await.expect_err("too late");
    assert_eq!((reason(&error), begun.elapsed()), (Some(crate::Reason::Timeout), Duration::from_secs(2)));
    assert!(service.oneshot(Request::new(())).await.is_err());
    assert_eq!(*seen.lock().expect("no panic"), [Some(sooner), Some(sooner + TOTAL)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_deadline_has_passed_is_not_sent() {
    let inner = Scripted::<&str, ()>::new([]);
    let names = classify_fn(|_: &&str| Call::to("search").deadline(Instant::now()));
    let error = layer().classifier(names).layer(inner.clone()).oneshot("late").await.expect_err("refused");
    assert_eq!(error.rejected().map(Rejected::code), Some(Refusal::DeadlinePassed));
    assert_eq!(inner.calls(), 0);
}

fn endless(status: StatusCode) -> impl Service<Request<()>, Response = Response<WatchedBody>, Error = Error> + Clone {
    layer().layer(service_fn(move |_: Request<()>| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut response = Response::new(BodyScript::new().data("a").pause(Duration::from_secs(1)).data("b").stall());
        *response.status_mut() = status;
        Ok::<_, BoxError>(response)
    }))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_in_time_is_an_error_for_its_reader() {
    for status in [StatusCode::OK, StatusCode::BAD_GATEWAY] {
        let begun = Instant::now();
        let mut body = endless(status).oneshot(Request::new(())).await.expect("a head").into_body();
        for expected in ["a", "b"] {
            let frame = body.frame().await.expect("a frame").expect("no error");
            assert_eq!(frame.into_data().expect("data"), expected);
        }
        let error = body.frame().await.expect("an end").expect_err("it never comes");
        assert_eq!((reason(&error), begun.elapsed()), (Some(crate::Reason::Timeout), TOTAL));
        assert!(body.frame().await.is_none());
        assert_eq!(body.verdict().map(|verdict| verdict.reason), Some(crate::Reason::Timeout));
    }
}

#[tokio::test(start_paused = true)]
async fn the_breaker_outside_counts_a_body_that_took_too_long() {
    let breaker = SemanticBreakerLayer::new(TripCard::default().slow_calls(SlowCalls::default()));
    let handle = breaker.handle();
    let mut service = ServiceBuilder::new().layer(breaker).service(endless(StatusCode::OK));
    let request = || Request::get("https://api.example/x").body(()).expect("a request");
    for _ in 0..5 {
        let response = service.ready().await.expect("ready").call(request()).await.expect("a head");
        assert!(response.into_body().collect().await.is_err());
    }
    assert_eq!(handle.state(&Call::to("api.example")), State::Open);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_body_in_progress_is_no_timeout() {
    let mut body = endless(StatusCode::OK).oneshot(Request::new(())).await.expect("a head").into_body();
    assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
    assert!(body.verdict().is_none());
    drop(body);
}

#[tokio::test(start_paused = true)]
async fn switched_off_only_deadlines_hold() {
    let long = Duration::from_secs(86_400);
    let inner = Scripted::new([Step::answer(()).after(long)]);
    let names = classify_fn(|_: &()| Call::to("search"));
    assert!(TimeoutLayer::new(TimeoutConfig::off()).classifier(names).layer(inner).oneshot(()).await.is_ok());
}

#[tokio::test]
async fn an_impossible_configuration_refuses_every_call() {
    let config = TimeoutConfig::default().total(Duration::ZERO);
    assert_eq!(TimeoutLayer::try_new(config.clone()).expect_err("zero").field(), "total");
    let inner = Scripted::<(), ()>::new([]);
    let names = classify_fn(|_: &()| Call::to("search"));
    let error = TimeoutLayer::new(config).classifier(names).layer(inner).oneshot(()).await.expect_err("refused");
    assert_eq!(error.rejected().map(Rejected::code), Some(Refusal::Misconfigured));
}
