//! Around a reqwest-middleware chain and inside it.

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tower::{Layer, ServiceExt};
use tower_belay::adapt::BelayMiddleware;

use super::*;

fn chain() -> ClientBuilder {
    ClientBuilder::new(super::reqwest::client().build().expect("a client"))
}

pub(crate) fn guarded_inside(breaker: SemanticBreakerLayer) -> ClientWithMiddleware {
    chain().with(BelayMiddleware::new(breaker)).build()
}

pub(crate) async fn read(answer: Result<::reqwest::Response, impl Into<BoxError>>) -> Seen {
    match answer {
        Ok(answer) => Seen::whole(Ok(Response::<::reqwest::Body>::from(answer))).await,
        Err(error) => Seen::of(error),
    }
}

#[tokio::test]
async fn inside_the_chain() {
    let breaker = breaker();
    // Each call by a client of its own: the state is the layer's.
    holds(async |url| read(guarded_inside(breaker.clone()).get(url).send().await).await).await;
}

#[tokio::test]
async fn around_the_chain() {
    let guarded = breaker().layer(chain().build());
    holds(async |url| {
        let request = ::reqwest::Request::new(http::Method::GET, url.parse().expect("a URL"));
        read(guarded.clone().oneshot(request).await).await
    })
    .await;
}
