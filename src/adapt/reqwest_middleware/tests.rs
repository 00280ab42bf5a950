use std::{
    error::Error as StdError,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use pin_project_lite::pin_project;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tower::ServiceExt;

use super::*;
use crate::{
    call::{Call, Scope},
    error::{Refusal, Rejected, find},
    reason::Reason,
    semantic_breaker::{SemanticBreakerLayer, TripCard},
};

/// Lets some requests through and refuses the rest; the count is the layer's.
#[derive(Clone)]
struct Allow {
    left: Arc<AtomicUsize>,
}

impl Allow {
    fn some(count: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(count)) }
    }
}

impl<S> Layer<S> for Allow {
    type Service = Allowed<S>;

    fn layer(&self, inner: S) -> Allowed<S> {
        Allowed { inner, allow: self.clone() }
    }
}

struct Allowed<S> {
    inner: S,
    allow: Allow,
}

pin_project! {
    struct AllowedFuture<F> {
        #[pin]
        inner: Option<F>,
    }
}

impl<S, Req> Service<Req> for Allowed<S>
where
    S: Service<Req>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = AllowedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(|error| Error::from_boxed(error.into()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let left = self.allow.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        AllowedFuture { inner: left.is_ok().then(|| self.inner.call(request)) }
    }
}

impl<F, T, E> Future for AllowedFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().inner.as_pin_mut() {
            Some(inner) => inner.poll(cx).map_err(|error| Error::from_boxed(error.into())),
            None => Poll::Ready(Err(Rejected::new("allow", Refusal::Gated, Scope::GLOBAL, &Call::new()).into())),
        }
    }
}

/// Answers by itself, so that nothing is sent; writes down what it finds in the extensions.
struct Canned(Result<u16, Refusal>);

impl Middleware for Canned {
    fn handle<'a, 'b, 'c, 'd>(
        &'a self,
        _: reqwest::Request,
        extensions: &'b mut Extensions,
        _: Next<'c>,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'd>>
    where
        Self: 'd,
        'a: 'd,
        'b: 'd,
        'c: 'd,
    {
        let from_outside = extensions.get::<&str>().copied().unwrap_or("");
        extensions.insert("changed");
        let rejected = |code| Rejected::new("inner", code, Scope::GLOBAL, &Call::new());
        Box::pin(std::future::ready(match self.0 {
            Ok(status) => {
                let response = http::Response::builder().status(status).body(from_outside.to_owned());
                Ok(response.expect("a response").into())
            }
            Err(code) => Err(reqwest_middleware::Error::middleware(rejected(code))),
        }))
    }
}

fn client(layer: Allow, inner: Canned) -> ClientWithMiddleware {
    client_of(layer, inner)
}

fn client_of<L>(layer: L, inner: Canned) -> ClientWithMiddleware
where
    BelayMiddleware<L>: Middleware,
{
    ClientBuilder::new(reqwest::Client::new()).with(BelayMiddleware::new(layer)).with(inner).build()
}

async fn get(client: &ClientWithMiddleware) -> Answer {
    client.get("http://crm.example/?key=secret").with_extension("outside").send().await
}

#[tokio::test]
async fn a_layer_passes_and_refuses_and_its_state_outlives_a_request() {
    let client = client(Allow::some(2), Canned(Ok(200)));
    for _ in 0..2 {
        let response = get(&client).await.expect("an answer");
        assert_eq!(response.text().await.expect("a text"), "outside");
    }
    let error = get(&client).await.expect_err("a refusal");
    assert!(find::<Rejected>(&error).is_some());
    let error = Error::from_boxed(error.into());
    assert_eq!(error.rejected().map(Rejected::code), Some(Refusal::Gated));
}

#[tokio::test]
async fn a_bare_refusal_of_middleware_further_in_is_found() {
    let error = get(&client(Allow::some(1), Canned(Err(Refusal::Killed)))).await.expect_err("a refusal");
    assert_eq!(find::<Rejected>(&error).map(Rejected::code), Some(Refusal::Killed));
}

#[tokio::test]
async fn an_error_of_the_client_is_judged_and_holds_no_url() {
    let chain = ClientBuilder::new(reqwest::Client::builder().no_proxy().build().expect("a client"))
        .with(BelayMiddleware::new(Allow::some(1)))
        .build();
    let error = chain.get("http://127.0.0.1:1/?key=secret").send().await.expect_err("nobody listens");
    assert!(!format!("{error} {error:?}").contains("secret"));
    assert!(error.source().is_some());
    let error = Error::from_boxed(error.into());
    assert_eq!(error.failure().map(Failure::reason), Some(Reason::ConnectionLost));
}

#[tokio::test]
async fn layers_go_around_the_whole_chain_bare() {
    let chain = ClientBuilder::new(reqwest::Client::new()).with(Canned(Ok(200))).build();
    let guarded = tower::ServiceBuilder::new().layer(Allow::some(1)).service(chain);
    let request = reqwest::Request::new(http::Method::GET, "http://crm.example/".parse().expect("a URL"));
    assert_eq!(guarded.oneshot(request).await.expect("an answer").status(), 200);
}

#[tokio::test]
async fn the_breaker_opens_inside_a_chain() {
    let breaker = SemanticBreakerLayer::new(TripCard::default());
    let broken = client_of(breaker.clone(), Canned(Ok(500)));
    let read = || broken.get("http://crm.example/?key=secret").send();
    for _ in 0..5 {
        assert_eq!(read().await.expect("an answer").status(), 500);
    }
    let error = Error::from_boxed(read().await.expect_err("a refusal").into());
    assert_eq!(error.rejected().map(Rejected::code), Some(Refusal::Open));
}
