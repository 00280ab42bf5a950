use std::task::Poll;

use http::Request;
use tower::{Layer, ServiceExt};
use tower_test::{assert_request_eq, mock};

use super::*;
use crate::{
    call::{Call, Name},
    classify::{classify_fn, classify_http},
    testing::{Scripted, Step},
};

fn service() -> Scripted<Request<()>, ()> {
    Scripted::by(|_| Step::answer(()))
}

fn request() -> Request<()> {
    Request::post("https://crm.example/refund?token=secret").body(()).expect("a request")
}

fn seen(service: &Scripted<Request<()>, ()>) -> Call {
    let request = service.take_requests().pop().expect("a request was sent");
    request.extensions().get::<Call>().expect("a call is attached").clone()
}

#[tokio::test]
async fn the_layers_inside_see_the_call() {
    let inner = service();
    IdentifyLayer::new().layer(inner.clone()).oneshot(request()).await.expect("an answer");
    assert_eq!(seen(&inner).name(Name::Target), Some("crm.example"));
}

#[tokio::test]
async fn an_attached_call_stays_whatever_the_layer_would_have_found() {
    let inner = service();
    let mut request = request();
    request.extensions_mut().insert(Call::to("billing").attempt(2));
    IdentifyLayer::new().layer(inner.clone()).oneshot(request).await.expect("an answer");
    let call = seen(&inner);
    assert_eq!((call.name(Name::Target), call.attempt_number()), (Some("billing"), 2));
}

#[tokio::test]
async fn a_classifier_refines_what_is_attached() {
    let inner = service();
    let layer = IdentifyLayer::new().classifier(classify_http(|_, call: Call| call.tenant("acme")));
    let mut request = request();
    request.extensions_mut().insert(Call::to("billing").attempt(2));
    layer.layer(inner.clone()).oneshot(request).await.expect("an answer");
    let call = seen(&inner);
    assert_eq!((call.name(Name::Tenant), call.name(Name::Target)), (Some("acme"), Some("billing")));
    assert_eq!(call.attempt_number(), 2);
}

#[tokio::test]
async fn a_request_that_cannot_carry_a_call_passes_unchanged() {
    let layer = IdentifyLayer::new().classifier(classify_fn(|_: &&'static str| Call::to("tool")));
    let (mut service, mut handle) = mock::spawn_with(|mock| layer.layer(mock));
    assert!(service.poll_ready().is_ready());
    let answer = service.call("lookup");
    assert_request_eq!(handle, "lookup").send_response(7);
    assert_eq!(answer.await.expect("an answer"), 7);
}

#[tokio::test]
async fn readiness_is_the_inner_services() {
    let layer = IdentifyLayer::new().classifier(classify_fn(|_: &()| Call::new()));
    let (mut service, mut handle) = mock::spawn_with::<(), (), _, _>(|mock| layer.layer(mock));
    handle.allow(0);
    assert_eq!(service.poll_ready().map(|ready| ready.is_ok()), Poll::Pending);
    handle.send_error("gone");
    assert_eq!(service.poll_ready().map(|ready| ready.is_ok()), Poll::Ready(false));
}
