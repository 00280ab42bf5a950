//! One layer value around every client at once.

use http_body_util::Full;
use tower::{Layer, ServiceExt, service_fn};
use tower_belay::{Call, Effect, adapt::ReqwestService, classify_fn};

use super::*;

#[tokio::test]
async fn what_one_client_met_stops_every_client_of_the_layer() {
    let breaker = breaker();
    let target = Target::listen().await;
    let authority = target.url("").replace("http://", "");
    let url = || target.url("/fail");
    let read = || ::reqwest::Request::new(http::Method::GET, url().parse().expect("a URL"));

    let http = breaker.layer(ReqwestService::new(super::reqwest::client()).expect("a client"));
    let bare = breaker.layer(super::reqwest::client().build().expect("a client"));
    let hyper = breaker.layer(super::hyper::client());
    let chain = super::middleware::guarded_inside(breaker.clone());
    let named = classify_fn(|authority: &String| Call::to(authority).effect(Effect::ReadOnly));
    let closure = breaker.clone().classifier(named).layer(service_fn(|_: String| async { Err::<(), _>("no answer") }));

    let each = async || {
        [
            Seen::whole(http.clone().oneshot(get::<Bytes>(&url())).await).await,
            super::middleware::read(bare.clone().oneshot(read()).await).await,
            Seen::whole(hyper.clone().oneshot(get::<Full<Bytes>>(&url())).await).await,
            super::middleware::read(chain.get(url()).send().await).await,
            closure.clone().oneshot(authority.clone()).await.map_or_else(Seen::of, |()| Seen::Whole(200)),
        ]
    };
    let failed = || Seen::Whole(500);
    // Five failures, one of each.
    assert_eq!(each().await, [failed(), failed(), failed(), failed(), Seen::Failed(Reason::Unclassified)]);
    let sent = target.hits();
    assert!(each().await.iter().all(|seen| *seen == Seen::Refused(Refusal::Open)));
    assert_eq!((sent, target.hits()), (4, sent));
}
