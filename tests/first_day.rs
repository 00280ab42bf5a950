//! What people write on their first day with a breaker. That it compiles is most of the test.

use std::{convert::Infallible, error::Error as StdError, fmt, io, sync::Arc, time::Duration};

use tower::{
    BoxError, Layer, Service, ServiceBuilder, ServiceExt,
    buffer::BufferLayer,
    load_shed::LoadShedLayer,
    retry::{Policy, RetryLayer},
    service_fn,
    timeout::TimeoutLayer,
    util::{BoxCloneSyncService, BoxService, option_layer},
};
use tower_belay::{
    Auto, Call, Effect, Error, Reason, Refusal, SemanticBreakerLayer, TripCard, Verdict, WatchedBody, classify_fn,
    classify_http,
    semantic_breaker::{BreakerHandle, Denials, Failures, ResponseFuture, SemanticBreaker, State},
};

#[derive(Debug, Clone)]
struct Lookup(u32);

#[derive(Debug)]
struct NoSuchOrder(u32);

impl fmt::Display for NoSuchOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no order {}", self.0)
    }
}

impl StdError for NoSuchOrder {}

async fn look_up(lookup: Lookup) -> Result<String, NoSuchOrder> {
    if lookup.0 == 0 { Err(NoSuchOrder(0)) } else { Ok(format!("order {}", lookup.0)) }
}

fn orders() -> Call {
    Call::to("orders").effect(Effect::ReadOnly)
}

fn breaker() -> SemanticBreakerLayer {
    SemanticBreakerLayer::new(TripCard::default())
}

// === Closures without annotations ===

#[tokio::test(start_paused = true)]
async fn a_closure_in_a_stack_needs_no_types() -> Result<(), Error> {
    let service = ServiceBuilder::new()
        .layer(breaker().classifier(classify_fn(|_| Call::to("orders"))))
        .service(service_fn(look_up));
    assert_eq!(service.oneshot(Lookup(1)).await?, "order 1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_closure_in_a_variable_needs_no_types() -> Result<(), Error> {
    let names = classify_fn(|_| Call::to("orders"));
    let layer = breaker().classifier(names);
    let handle = layer.handle();
    let service = layer.layer(service_fn(look_up));
    service.oneshot(Lookup(1)).await?;
    assert_eq!(handle.state(&Call::to("orders")), State::Closed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_looks_into_the_request_names_its_type_once() -> Result<(), Error> {
    let names = classify_fn(|lookup: &Lookup| orders().operation(if lookup.0 > 9 { "many" } else { "few" }))
        .judge(|text: &String| if text.is_empty() { Reason::EmptyAnswer } else { Reason::Completed });
    let service = breaker().classifier(names).layer(service_fn(look_up));
    assert_eq!(service.oneshot(Lookup(10)).await?, "order 10");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn http_calls_are_refined_without_types() -> Result<(), Error> {
    let service = ServiceBuilder::new()
        .layer(breaker().classifier(classify_http(|_, call| call.tenant("acme").effect(Effect::ReadOnly))))
        .service(service_fn(|_: http::Request<String>| async {
            Ok::<_, Infallible>(http::Response::new("hi".to_owned()))
        }));
    assert_eq!(service.oneshot(http::Request::new(String::new())).await?.status(), 200);
    Ok(())
}

// === Errors ===

#[tokio::test(start_paused = true)]
async fn errors_go_through_question_marks() {
    async fn into_anyhow(id: u32) -> anyhow::Result<String> {
        let names = classify_fn(|_: &Lookup| orders());
        Ok(breaker().classifier(names).layer(service_fn(look_up)).oneshot(Lookup(id)).await?)
    }
    async fn into_box(id: u32) -> Result<String, Box<dyn StdError>> {
        let names = classify_fn(|_: &Lookup| orders());
        Ok(breaker().classifier(names).layer(service_fn(look_up)).oneshot(Lookup(id)).await?)
    }
    async fn into_box_error(id: u32) -> Result<String, BoxError> {
        let names = classify_fn(|_: &Lookup| orders());
        Ok(breaker().classifier(names).layer(service_fn(look_up)).oneshot(Lookup(id)).await?)
    }
    assert_eq!(into_anyhow(1).await.expect("an answer"), "order 1");
    let failed = into_anyhow(0).await.expect_err("a failure");
    assert!(failed.chain().any(|cause| cause.is::<NoSuchOrder>()), "{failed:?}");
    assert!(format!("{failed:#}").ends_with("no order 0"), "{failed:#}");
    assert!(failed.downcast_ref::<Error>().is_some());
    assert!(into_box(0).await.is_err() && into_box_error(0).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_tools_own_error_is_found_again() {
    let names = classify_fn(|_: &Lookup| orders());
    let failed = breaker().classifier(names).layer(service_fn(look_up)).oneshot(Lookup(0)).await;
    let error = failed.expect_err("a failure");
    assert_eq!(error.find::<NoSuchOrder>().map(|error| error.0), Some(0));
    assert_eq!(error.failure().map(|failure| failure.reason()), Some(Reason::Unclassified));
    assert!(error.rejected().is_none());
}

#[tokio::test(start_paused = true)]
async fn tools_may_fail_with_anyhow_and_boxes() {
    let names = || classify_fn(|_: &u32| orders());
    let by_anyhow =
        service_fn(|_: u32| async { Err::<(), _>(anyhow::Error::new(NoSuchOrder(7)).context("looking up")) });
    let error = breaker().classifier(names()).layer(by_anyhow).oneshot(7).await.expect_err("a failure");
    assert_eq!(error.find::<NoSuchOrder>().map(|error| error.0), Some(7));

    let boxed = service_fn(|_: u32| async { Err::<(), BoxError>(Box::new(NoSuchOrder(7))) });
    let error = breaker().classifier(names()).layer(boxed).oneshot(7).await.expect_err("a failure");
    assert_eq!(error.find::<NoSuchOrder>().map(|error| error.0), Some(7));

    let text = service_fn(|_: u32| async { Err::<(), _>("only a text") });
    let error = breaker().classifier(names()).layer(text).oneshot(7).await.expect_err("a failure");
    let source = error.source().and_then(StdError::source).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("only a text"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_tells_what_to_do() {
    let layer = breaker().classifier(classify_fn(|_: &Lookup| orders()));
    for _ in 0..5 {
        layer.layer(service_fn(look_up)).oneshot(Lookup(0)).await.expect_err("a failure");
    }
    let error = layer.layer(service_fn(look_up)).oneshot(Lookup(1)).await.expect_err("a refusal");
    let rejected = error.rejected().expect("a refusal");
    assert_eq!((rejected.code(), rejected.retry_after()), (Refusal::Open, Some(Duration::from_secs(600))));
    assert!(rejected.model_text().starts_with("The call was not sent."));
    assert_eq!(error.to_string(), "refused by semantic_breaker (open), not sent");
}

// === Names for types ===

/// A field that names its service.
struct Agent {
    model: SemanticBreaker<BoxCloneSyncService<http::Request<String>, http::Response<WatchedBody>, BoxError>>,
    tool: BoxCloneSyncService<Lookup, String, Error>,
    handle: BreakerHandle,
}

/// Helpers over any service.
fn guard<S>(service: S) -> SemanticBreaker<S> {
    breaker().layer(service)
}

fn guard_and_limit<S>(service: S) -> impl Service<http::Request<String>, Error = Error, Response: fmt::Debug>
where
    S: Service<http::Request<String>, Response = http::Response<String>, Error: Into<BoxError>>,
{
    guard(service)
}

#[tokio::test(start_paused = true)]
async fn services_have_names() -> Result<(), Error> {
    let model = service_fn(|_: http::Request<String>| async {
        Ok::<_, BoxError>(http::Response::new(WatchedBody::from("hi".to_owned())))
    });
    let layer = breaker().classifier(classify_fn(|_: &Lookup| orders()));
    let mut agent = Agent {
        model: guard(BoxCloneSyncService::new(model)),
        handle: layer.handle(),
        tool: BoxCloneSyncService::new(layer.layer(service_fn(look_up))),
    };
    assert_eq!(agent.model.ready().await?.call(http::Request::new(String::new())).await?.status(), 200);
    assert_eq!(agent.tool.ready().await?.call(Lookup(1)).await?, "order 1");
    assert_eq!(agent.handle.unhealthy(), 0);
    let limited = guard_and_limit(service_fn(|request: http::Request<String>| async {
        Ok::<_, Infallible>(http::Response::new(request.into_body()))
    }));
    limited.oneshot(http::Request::new(String::new())).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn services_are_trait_objects() -> Result<(), Error> {
    let layer = breaker().classifier(classify_fn(|_: &Lookup| orders()));
    let mut tools: Vec<BoxService<Lookup, String, Error>> =
        vec![BoxService::new(layer.layer(service_fn(look_up))), layer.layer(service_fn(look_up)).boxed()];
    for tool in &mut tools {
        assert_eq!(tool.ready().await?.call(Lookup(1)).await?, "order 1");
    }
    type Answer<F, C> = ResponseFuture<F, C>;
    type Looking<F, C> = dyn Service<Lookup, Response = String, Error = Error, Future = Answer<F, C>>;
    fn erased<S, C>(service: SemanticBreaker<S, C>) -> Box<Looking<S::Future, C>>
    where
        S: Service<Lookup, Response = String, Error: Into<BoxError>> + 'static,
        C: tower_belay::classify::Classifier<Lookup, String, Response = String> + Send + Sync + 'static,
    {
        Box::new(service)
    }
    let mut tool = erased(layer.layer(service_fn(look_up)));
    assert_eq!(tool.ready().await?.call(Lookup(1)).await?, "order 1");
    Ok(())
}

#[test]
fn everything_can_be_sent_and_shared() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    fn cloned<T: Clone>(_: &T) {}
    let layer = breaker();
    shared(&layer);
    shared(&layer.handle());
    let mut http = layer.layer(service_fn(|_: http::Request<String>| async {
        Ok::<_, Infallible>(http::Response::new(WatchedBody::empty()))
    }));
    shared(&http);
    cloned(&http);
    shared(&Service::call(&mut http, http::Request::new(String::new())));
    shared(&WatchedBody::empty());
    shared(&Error::from_boxed("a text".into()));
    shared(&Verdict::completed());
    shared(&orders());
    let named = layer.classifier(classify_fn(|_: &Lookup| orders()));
    shared(&named);
    cloned(&named);
    shared(&named.layer(service_fn(look_up)));
}

// === Among tower's own layers ===

#[derive(Clone)]
struct Again(u32);

impl<Res> Policy<Lookup, Res, Error> for Again {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut Lookup, result: &mut Result<Res, Error>) -> Option<Self::Future> {
        // A refusal was not sent: it is no attempt, and repeating it at once changes nothing.
        let failed = result.as_ref().is_err_and(|error| error.rejected().is_none());
        self.0 = self.0.checked_sub(1)?;
        failed.then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, lookup: &Lookup) -> Option<Lookup> {
        Some(lookup.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn towers_layers_go_outside() {
    let layer = breaker().classifier(classify_fn(|_: &Lookup| orders()));
    let service = ServiceBuilder::new()
        .layer(BufferLayer::new(8))
        .layer(LoadShedLayer::new())
        .layer(TimeoutLayer::new(Duration::from_secs(9)))
        .concurrency_limit(4)
        .layer(RetryLayer::new(Again(9)))
        .layer(layer.clone())
        .service(service_fn(look_up));
    assert_eq!(service.clone().oneshot(Lookup(1)).await.expect("an answer"), "order 1");
    // Five attempts fail, the sixth is refused, and the refusal is found through all of them.
    let refused = Error::from_boxed(service.oneshot(Lookup(0)).await.expect_err("a refusal"));
    assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::Open));
    assert_eq!(layer.handle().state(&orders()), State::Open);
}

#[tokio::test(start_paused = true)]
async fn towers_layers_go_inside() {
    let layer = breaker().classifier(classify_fn(|_: &Lookup| orders()));
    let service = ServiceBuilder::new()
        .layer(layer.clone())
        .layer(BufferLayer::new(8))
        .layer(LoadShedLayer::new())
        .layer(TimeoutLayer::new(Duration::from_secs(9)))
        .service(service_fn(|_: Lookup| std::future::pending::<Result<String, NoSuchOrder>>()));
    for _ in 0..5 {
        let late = service.clone().oneshot(Lookup(1)).await.expect_err("a timeout");
        assert_eq!(late.failure().map(|failure| failure.reason()), Some(Reason::Timeout));
    }
    assert_eq!(layer.handle().state(&orders()), State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_may_be_left_out() -> Result<(), BoxError> {
    for card in [None, Some(TripCard::default())] {
        let layer = card.map(|card| SemanticBreakerLayer::new(card).classifier(classify_fn(|_: &Lookup| orders())));
        // tower asks for one type of error, with the breaker and without.
        let service = ServiceBuilder::new().layer(option_layer(layer)).map_err(Error::new).service(service_fn(look_up));
        assert_eq!(service.oneshot(Lookup(1)).await?, "order 1");
    }
    // And for one type of response.
    let hi = service_fn(|_: http::Request<String>| async { Ok::<_, Infallible>(http::Response::new("hi".to_owned())) });
    let service = ServiceBuilder::new()
        .layer(option_layer(Some(breaker())))
        .map_response(|response: http::Response<String>| response.map(WatchedBody::from))
        .map_err(Error::new)
        .service(hi);
    assert_eq!(service.oneshot(http::Request::new(String::new())).await?.status(), 200);
    Ok(())
}

#[tokio::test]
async fn it_lives_in_spawned_tasks() -> Result<(), BoxError> {
    let service = breaker().classifier(classify_fn(|_: &Lookup| orders())).layer(service_fn(look_up));
    let asking = (1..9).map(|order| tokio::spawn(service.clone().oneshot(Lookup(order))));
    for answer in asking.collect::<Vec<_>>() {
        assert!(answer.await??.starts_with("order"));
    }
    let mut shared = service.clone();
    tokio::spawn(async move { shared.ready().await?.call(Lookup(1)).await }).await??;
    Ok(())
}

// === Configuration ===

#[test]
fn a_card_is_set_row_by_row_and_an_impossible_one_is_named() {
    let card = TripCard::default().failures(Failures::count(3, 10)).denials(Denials::off());
    assert!(SemanticBreakerLayer::try_new(card).is_ok());
    let never = TripCard::default().failures(Failures::count(30, 20));
    let error = SemanticBreakerLayer::try_new(never).expect_err("it can never be reached");
    assert!(error.to_string().contains("failures.count"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_error_type_from_inner_io() -> Result<(), Error> {
    let tool = service_fn(|_: Arc<str>| async { Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused)) });
    let error = breaker().classifier(classify_fn(|_: &Arc<str>| orders())).layer(tool).oneshot("x".into()).await;
    let error = error.expect_err("a failure");
    assert_eq!(error.failure().map(|failure| failure.reason()), Some(Reason::ConnectFailed));
    assert_eq!(error.find::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused));
    Ok(())
}

#[test]
fn the_default_classifier_has_a_name() {
    let _: SemanticBreakerLayer<Auto> = breaker();
}
