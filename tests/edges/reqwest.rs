//! Around reqwest, under `http` types and bare.

use tower::{Layer, Service, ServiceExt, util::BoxCloneSyncService};
use tower_belay::adapt::ReqwestService;

use super::*;

pub(crate) fn client() -> ::reqwest::ClientBuilder {
    ::reqwest::Client::builder().no_proxy()
}

#[tokio::test]
async fn under_http_types() {
    let guarded = breaker().layer(ReqwestService::new(client()).expect("a client"));
    holds(async |url| Seen::whole(guarded.clone().oneshot(get::<Bytes>(&url)).await).await).await;
}

#[tokio::test]
async fn in_a_box_whose_type_names_the_body() {
    let guarded = breaker().layer(ReqwestService::new(client()).expect("a client"));
    let mut guarded = BoxCloneSyncService::<Request<String>, _, _>::new(guarded);
    let target = Target::listen().await;
    let request = Request::get(target.url("/ok")).body(String::new()).expect("a request");
    let answer = guarded.ready().await.expect("a client that is ready").call(request).await;
    assert_eq!(Seen::whole(answer).await, Seen::Whole(200));
}

#[tokio::test]
async fn bare() {
    let guarded = breaker().layer(client().build().expect("a client"));
    holds(async |url| {
        let request = ::reqwest::Request::new(http::Method::GET, url.parse().expect("a URL"));
        let answer = guarded.clone().oneshot(request).await.map(Response::<::reqwest::Body>::from);
        Seen::whole(answer).await
    })
    .await;
}

#[tokio::test]
async fn writes_to_where_nobody_listens_were_not_sent_and_trip_as_failures() {
    let guarded = breaker().layer(ReqwestService::new(client()).expect("a client"));
    let post = || Request::post("http://127.0.0.1:1/refund").body("{}").expect("a request");
    for _ in 0..FAILURES {
        let seen = Seen::whole(guarded.clone().oneshot(post()).await).await;
        assert_eq!(seen, Seen::Failed(Reason::ConnectFailed));
    }
    let refused = Seen::whole(guarded.clone().oneshot(post()).await).await;
    assert_eq!(refused, Seen::Refused(Refusal::Open));
}

#[tokio::test]
async fn two_unproven_writes_stop_writes_and_reads_go_on() {
    let guarded = breaker().layer(ReqwestService::new(client()).expect("a client"));
    let target = Target::listen().await;
    let ask = async |method, path: &str| {
        let request = Request::builder().method(method).uri(target.url(path)).body("{}").expect("a request");
        Seen::whole(guarded.clone().oneshot(request).await).await
    };
    for _ in 0..2 {
        assert_eq!(ask("POST", "/fail").await, Seen::Whole(500));
    }
    assert_eq!((ask("POST", "/ok").await, target.hits()), (Seen::Refused(Refusal::WritesOpen), 2));
    assert_eq!((ask("GET", "/ok").await, target.hits()), (Seen::Whole(200), 3));
}
