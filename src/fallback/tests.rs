use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use tokio::time::timeout;
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};

use super::*;
use crate::{
    body::WatchedBody,
    call::{Call, Effect, Scope},
    classify::{Classifier, RequestHead, classify_fn, classify_http},
    error::{Error, Refusal, Rejected},
    reason::Reason,
    retry::{RetryLayer, RetryPolicy},
    testing::{BodyScript, Scripted, Step},
};

mod outcomes;

fn named(effect: Effect) -> impl Classifier<u8, Reason, Response = Reason> + Clone + Send + Sync + 'static {
    classify_fn(move |_: &u8| Call::to("crm").effect(effect)).replay_clones().judge(|reason: &Reason| *reason)
}

/// What a call gets whose own answer is `first`, and whether the other service was asked.
async fn falls(first: Step<Reason>, effect: Effect) -> (Result<Reason, Error>, bool) {
    let other = Scripted::new([Step::answer(Reason::Paused)]);
    let layer = FallbackLayer::to(other.clone()).classifier(named(effect));
    let answer = layer.layer(Scripted::new([first])).oneshot(7).await;
    (answer, !other.take_requests().is_empty())
}

#[tokio::test(start_paused = true)]
async fn what_came_to_nothing_is_answered_by_the_other_service_and_nothing_else_is() {
    for (first, asks) in [
        (Reason::Completed, false),
        (Reason::ServerError, true),
        (Reason::RateLimited, true),
        (Reason::EmptyAnswer, true),
        (Reason::Timeout, true),
        (Reason::QuotaExhausted, true),
        (Reason::PermissionDenied, false),
        (Reason::ContentFiltered, false),
        (Reason::InvalidRequest, false),
    ] {
        let (answer, asked) = falls(Step::answer(first), Effect::ReadOnly).await;
        assert_eq!((answer.ok(), asked), (Some(if asks { Reason::Paused } else { first }), asks), "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_may_have_been_applied_is_sent_nowhere_else() {
    let (answer, asked) = falls(Step::answer(Reason::Timeout), Effect::Consequential).await;
    assert_eq!((answer.ok(), asked), (Some(Reason::Timeout), false));
    let (answer, asked) = falls(Step::answer(Reason::ConnectFailed), Effect::Consequential).await;
    assert_eq!((answer.ok(), asked), (Some(Reason::Paused), true));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_falls_by_its_advice() {
    for (code, asks) in [
        (Refusal::Open, true),
        (Refusal::BulkheadFull, true),
        (Refusal::CredentialOpen, true),
        (Refusal::ActorBlocked, false),
        (Refusal::Killed, false),
    ] {
        let rejected = Rejected::new("layer", code, Scope::TARGET, &Call::to("crm").effect(Effect::ReadOnly));
        let (answer, asked) = falls(Step::fail(Error::from(rejected)), Effect::ReadOnly).await;
        assert_eq!((answer.is_ok(), asked), (asks, asks), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_both_fail_the_first_error_is_given_and_each_was_asked_once() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let fails = service_fn(move |_: Fallen<u8>| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Err::<Reason, BoxError>("worse".into()))
    });
    let rejected = Rejected::new("layer", Refusal::Open, Scope::TARGET, &Call::to("crm"));
    let layer = FallbackLayer::new(fails).classifier(named(Effect::ReadOnly));
    let error = layer.layer(Scripted::<u8, Reason>::new([Step::fail(Error::from(rejected))])).oneshot(7).await;
    assert_eq!(error.err().and_then(|error| error.rejected().map(Rejected::code)), Some(Refusal::Open));
    let answer = layer.layer(Scripted::new([Step::answer(Reason::Overloaded)])).oneshot(7).await;
    assert_eq!((answer.ok(), asked.load(Ordering::SeqCst)), (Some(Reason::Overloaded), 2));
}

#[tokio::test(start_paused = true)]
async fn all_attempts_come_before_the_fallback() {
    let server = Scripted::new((0..9).map(|_| Step::answer(Reason::Overloaded)));
    let other = Scripted::new([Step::answer(Reason::Completed)]);
    let stack = ServiceBuilder::new()
        .layer(FallbackLayer::to(other.clone()).classifier(named(Effect::ReadOnly)))
        .layer(RetryLayer::new(RetryPolicy::default()).classifier(named(Effect::ReadOnly)))
        .service(server.clone());
    assert_eq!(stack.oneshot(7).await.ok(), Some(Reason::Completed));
    assert_eq!((server.take_requests().len(), other.take_requests().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_substitute_is_marked_and_a_request_that_cannot_be_copied_is_not_there() {
    let named = classify_http(|_: &RequestHead<'_>, call: Call| call.effect(Effect::ReadOnly));
    let honest = service_fn(|fallen: Fallen<Request<WatchedBody>>| async move {
        assert!(fallen.request.is_none());
        Ok::<_, BoxError>(Response::new(WatchedBody::from(fallen.wording())))
    });
    let down = service_fn(|_: Request<WatchedBody>| {
        let response = Response::builder().status(503).body(WatchedBody::empty());
        std::future::ready(Ok::<_, Infallible>(response.expect("a response")))
    });
    let service = FallbackLayer::new(honest).classifier(named.clone()).layer(down);
    let streamed = || Request::new(WatchedBody::new(BodyScript::new().data("x")));
    let answer = service.oneshot(streamed()).await.expect("a substitute");
    assert_eq!(answer.extensions().get::<Degraded>().map(|it| it.code), Some("overloaded"));
    assert_eq!(answer.status(), 200);

    let elsewhere = FallbackLayer::to(down).classifier(named).layer(down);
    let own = elsewhere.oneshot(streamed()).await.expect("its own answer");
    assert_eq!((own.status().as_u16(), own.extensions().get::<Degraded>()), (503, None));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_drops_whichever_is_under_way() {
    let other = Scripted::<u8, Reason>::new([Step::stall()]);
    let layer = FallbackLayer::to(other.clone()).classifier(named(Effect::ReadOnly));
    let hangs = layer.layer(Scripted::new([Step::stall()]));
    assert!(timeout(Duration::from_secs(1), hangs.oneshot(1)).await.is_err());
    assert!(other.take_requests().is_empty());
    let falls = layer.layer(Scripted::new([Step::answer(Reason::Overloaded)]));
    assert!(timeout(Duration::from_secs(1), falls.oneshot(1)).await.is_err());
    assert_eq!(other.take_requests().len(), 1);
}
