//! Around an axum server.

use ::axum::{error_handling::HandleErrorLayer, routing::get as route};
use http::StatusCode;
use tower::ServiceBuilder;
use tower_belay::{Call, RespondLayer, classify_http, semantic_breaker::State};

use super::*;

/// Eight clients, each with connections of its own.
fn clients() -> Vec<::reqwest::Client> {
    (0..8).map(|_| ::reqwest::Client::builder().no_proxy().build().expect("a client")).collect()
}

async fn status(client: &::reqwest::Client, url: String) -> u16 {
    let answer = client.get(url).send().await.expect("an answer");
    let status = answer.status().as_u16();
    let _ = answer.bytes().await;
    status
}

#[tokio::test]
async fn eight_connections_share_one_breaker() {
    let breaker = breaker();
    let layers = ServiceBuilder::new().layer(RespondLayer::new()).layer(breaker.clone());
    let target = Target::behind(|router| router.layer(layers)).await;
    let clients = clients();
    for client in &clients {
        assert_eq!(status(client, target.url("/ok")).await, 200);
    }
    for client in &clients[..FAILURES] {
        assert_eq!(status(client, target.url("/fail")).await, 500);
    }
    // A request to a server has no authority, and nobody named a target: all routes are one.
    assert_eq!(breaker.handle().state(&Call::new()), State::Open);
    let sent = target.hits();
    assert_eq!(sent, 8 + FAILURES);
    let refused = tokio::join!(
        status(&clients[0], target.url("/ok")),
        status(&clients[5], target.url("/ok")),
        status(&clients[6], target.url("/ok")),
        status(&clients[7], target.url("/fail")),
    );
    assert_eq!((refused, target.hits()), ((503, 503, 503, 503), sent));
}

#[tokio::test]
async fn a_refusal_is_a_problem_that_says_how_long() {
    let breaker = breaker();
    let layers = ServiceBuilder::new().layer(RespondLayer::new()).layer(breaker);
    let target = Target::behind(|router| router.layer(layers)).await;
    let clients = clients();
    for client in &clients[..FAILURES] {
        status(client, target.url("/fail")).await;
    }
    let refused = clients[7].get(target.url("/ok")).send().await.expect("an answer");
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    assert!(refused.headers().contains_key("retry-after"));
    assert!(refused.text().await.expect("a text").contains(r#""code":"open""#));
}

#[tokio::test]
async fn an_answer_that_breaks_off_in_the_handler_counts_at_its_end() {
    let breaker = breaker();
    let layers = ServiceBuilder::new().layer(RespondLayer::new()).layer(breaker);
    let target = Target::behind(|router| router.layer(layers)).await;
    let clients = clients();
    for client in &clients[..FAILURES] {
        assert_eq!(status(client, target.url("/cut")).await, 200);
    }
    assert_eq!((status(&clients[7], target.url("/ok")).await, target.hits()), (503, FAILURES));
}

#[tokio::test]
async fn routes_that_code_names_have_a_breaker_each() {
    let by_path = classify_http(|head, call| call.target("shop").operation(head.uri.path()));
    let layers = ServiceBuilder::new().layer(RespondLayer::new()).layer(breaker().classifier(by_path));
    let target = Target::behind(|router| router.layer(layers)).await;
    let client = &clients()[0];
    for _ in 0..FAILURES {
        assert_eq!(status(client, target.url("/fail")).await, 500);
    }
    assert_eq!(status(client, target.url("/fail")).await, 503);
    assert_eq!(status(client, target.url("/ok")).await, 200);
}

#[tokio::test]
async fn a_server_may_answer_refusals_by_itself() {
    let teapot = HandleErrorLayer::new(|error: Error| async move {
        match error.rejected() {
            Some(_) => StatusCode::IM_A_TEAPOT,
            None => StatusCode::BAD_GATEWAY,
        }
    });
    let layers = ServiceBuilder::new().layer(teapot).layer(breaker());
    let target = Target::behind(|router| router.layer(layers)).await;
    let client = &clients()[0];
    for _ in 0..FAILURES {
        assert_eq!(status(client, target.url("/fail")).await, 500);
    }
    assert_eq!((status(client, target.url("/ok")).await, target.hits()), (418, FAILURES));
}

#[tokio::test]
async fn a_router_applies_the_layer_once_a_route_and_all_share_its_state() {
    let breaker = breaker();
    let layers = ServiceBuilder::new().layer(RespondLayer::new()).layer(breaker.clone());
    let router = ::axum::Router::new()
        .route("/a", route(|| async { StatusCode::INTERNAL_SERVER_ERROR }).layer(layers.clone()))
        .route("/b", route(|| async { "well" }).layer(layers));
    let ask = async |path: &str| {
        let Ok(answer) = tower::ServiceExt::oneshot(router.clone(), get::<::axum::body::Body>(path)).await;
        answer.status().as_u16()
    };
    for _ in 0..FAILURES {
        assert_eq!(ask("/a").await, 500);
    }
    assert_eq!(ask("/b").await, 503);
}
