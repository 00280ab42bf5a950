//! Around tonic, at the client and at the server. A gRPC call is what its status says, and that comes last.

mod server;

use ::tonic::{Code, Status, client::Grpc, transport::Channel};
use http::uri::PathAndQuery;
use tower::{Layer, ServiceBuilder};
use tower_belay::{Call, Effect, RespondLayer, classify_http, semantic_breaker::State};

use self::server::{Text, Tickets};
use super::*;

/// Asks through `channel`, and reads a stream to its end.
async fn ask<T>(channel: T, origin: &str, method: &'static str, text: &str) -> Result<String, Status>
where
    T: ::tonic::client::GrpcService<::tonic::body::Body>,
    T::ResponseBody: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    T::Error: std::fmt::Display,
{
    let mut client = Grpc::with_origin(channel, origin.parse().expect("a URI"));
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let request = ::tonic::Request::new(text.to_owned());
    let path = PathAndQuery::from_static(method);
    if method == server::GET {
        return client.unary(request, path, Text).await.map(::tonic::Response::into_inner);
    }
    let mut stream = client.server_streaming(request, path, Text).await?.into_inner();
    let mut all = String::new();
    while let Some(piece) = stream.message().await? {
        all += &piece;
    }
    Ok(all)
}

/// The default breaker, told that these calls only read.
macro_rules! guarded {
    ($breaker:expr, $channel:expr) => {{
        let read = classify_http(|_, call: Call| call.effect(Effect::ReadOnly));
        ServiceBuilder::new()
            .map_err(Status::from)
            .layer($breaker.clone().classifier(read))
            .service(Channel::clone(&$channel))
    }};
}

/// Five calls fail as `text` asks for, then the next is refused and does not reach the server.
async fn trips(method: &'static str, text: &str, code: Code) {
    let tickets = Tickets::listen(tower::layer::util::Identity::new()).await;
    let (breaker, channel) = (breaker(), tickets.channel());
    let ask = async |text: &str| ask(guarded!(breaker, channel), &tickets.origin(), method, text).await;
    for _ in 1..FAILURES {
        assert_eq!(ask(text).await.expect_err("a failure").code(), code);
        assert_eq!(ask("ok").await.expect("an answer"), "ok");
    }
    assert_eq!(ask(text).await.expect_err("a failure").code(), code);
    let sent = tickets.hits();
    let refused = ask("ok").await.expect_err("a refusal");
    assert_eq!((refused.code(), tickets.hits()), (Code::Unavailable, sent));
    assert!(refused.message().starts_with("The call was not sent."), "{refused}");
    assert!(refused.metadata().contains_key("grpc-retry-pushback-ms"));
    assert_eq!(sent, 2 * FAILURES - 1);
}

#[tokio::test]
async fn a_unary_call() {
    trips(server::GET, "down", Code::Unavailable).await;
}

#[tokio::test]
async fn a_stream_that_has_its_status_in_the_head() {
    trips(server::LIST, "down", Code::Unavailable).await;
}

#[tokio::test]
async fn a_stream_that_begins_well_and_ends_unavailable() {
    trips(server::LIST, "down at the end", Code::Unavailable).await;
}

#[tokio::test]
async fn a_stream_that_breaks_off_with_the_code_that_tonic_gives_it() {
    trips(server::LIST, "cut", Code::Internal).await;
}

#[tokio::test]
async fn a_stream_without_status() {
    let tickets = Tickets::listen(tower::layer::util::Identity::new()).await;
    let (breaker, channel) = (breaker(), tickets.channel());
    let ask = async |text: &str| ask(guarded!(breaker, channel), &tickets.origin(), server::LIST, text).await;
    for _ in 0..FAILURES {
        assert!(ask("no status").await.is_err());
    }
    assert_eq!((ask("ok").await.expect_err("a refusal").code(), tickets.hits()), (Code::Unavailable, FAILURES));
}

#[tokio::test]
async fn streams_that_end_well_count_nothing() {
    let tickets = Tickets::listen(tower::layer::util::Identity::new()).await;
    let (breaker, channel) = (breaker(), tickets.channel());
    for _ in 0..3 * FAILURES {
        let answer = ask(guarded!(breaker, channel), &tickets.origin(), server::LIST, "ok").await;
        assert_eq!(answer.expect("an answer"), "ok");
    }
    assert_eq!((breaker.handle().unhealthy(), tickets.hits()), (0, 3 * FAILURES));
}

#[tokio::test]
async fn two_unavailable_writes_are_unknown_and_stop_writes() {
    let tickets = Tickets::listen(tower::layer::util::Identity::new()).await;
    let (breaker, channel) = (breaker(), tickets.channel());
    // Nobody said that this only reads.
    let write = ServiceBuilder::new().map_err(Status::from).layer(breaker.clone()).service(channel);
    for _ in 0..2 {
        let failed = ask(write.clone(), &tickets.origin(), server::GET, "down").await;
        assert_eq!(failed.expect_err("a failure").code(), Code::Unavailable);
    }
    let refused = ask(write, &tickets.origin(), server::GET, "ok").await.expect_err("a refusal");
    assert_eq!((refused.code(), tickets.hits()), (Code::FailedPrecondition, 2));
    let target = tickets.origin().replace("http://", "");
    let writes = Call::to(&target).operation(server::GET).effect(Effect::Sensitive);
    assert_ne!(breaker.handle().state(&writes), State::Closed);
}

#[tokio::test]
async fn a_refusal_is_found_in_the_status_that_a_bare_breaker_gives() {
    let tickets = Tickets::listen(tower::layer::util::Identity::new()).await;
    let breaker = breaker();
    breaker.handle().kill();
    let channel = breaker.layer(tickets.channel());
    let refused = ask(channel, &tickets.origin(), server::GET, "ok").await.expect_err("a refusal");
    assert_eq!(Seen::of(refused), Seen::Refused(Refusal::Killed));
    assert_eq!(tickets.hits(), 0);
}

#[tokio::test]
async fn around_a_server_all_connections_share_one_breaker() {
    let read = classify_http(|_, call: Call| call.target("tickets").effect(Effect::ReadOnly));
    let layers = ServiceBuilder::new().layer(RespondLayer::new()).layer(breaker().classifier(read));
    let tickets = Tickets::listen(layers.into_inner()).await;
    let origin = tickets.origin();
    assert_eq!(ask(tickets.channel(), &origin, server::LIST, "ok").await.expect("an answer"), "ok");
    for _ in 0..FAILURES {
        let failed = ask(tickets.channel(), &origin, server::LIST, "down at the end").await;
        assert_eq!(failed.expect_err("a failure").code(), Code::Unavailable);
    }
    let sent = tickets.hits();
    let refused = ask(tickets.channel(), &origin, server::LIST, "ok").await.expect_err("a refusal");
    assert_eq!((refused.code(), tickets.hits()), (Code::Unavailable, sent));
    assert!(refused.message().starts_with("The call was not sent."), "{refused}");
    // Another method is another key.
    assert_eq!(ask(tickets.channel(), &origin, server::GET, "ok").await.expect("an answer"), "ok");
}
