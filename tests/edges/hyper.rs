//! Around hyper-util's client.

use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tower::{Layer, ServiceExt};

use super::*;

pub(crate) fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

#[tokio::test]
async fn bare() {
    let guarded = breaker().layer(client());
    holds(async |url| Seen::whole(guarded.clone().oneshot(get(&url)).await).await).await;
}

#[tokio::test]
async fn a_refused_connection_is_known_without_naming_the_client() {
    let guarded = breaker().layer(client());
    let write = || Request::post("http://127.0.0.1:1/refund").body(Full::default()).expect("a request");
    for _ in 0..FAILURES {
        let seen = Seen::whole(guarded.clone().oneshot(write()).await).await;
        assert_eq!(seen, Seen::Failed(Reason::ConnectFailed));
    }
    let refused = Seen::whole(guarded.clone().oneshot(write()).await).await;
    assert_eq!(refused, Seen::Refused(Refusal::Open));
}
