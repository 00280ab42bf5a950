use std::{convert::Infallible, error::Error as StdError, net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Empty};
use reqwest::dns::{Name, Resolve, Resolving};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tower::{Layer, ServiceExt};

use super::*;
use crate::{
    classify::error_verdict,
    error::{Refusal, Rejected},
    reason::Class,
    semantic_breaker::{SemanticBreakerLayer, TripCard},
    testing::BodyScript,
};

/// A server that reads each request and then does as `answer` says: `None` never answers, "" closes.
async fn server(answer: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            tokio::spawn(async move {
                let mut head = [0; 4096];
                let _ = socket.read(&mut head).await;
                match answer {
                    Some(text) => drop(socket.write_all(text.as_bytes()).await),
                    None => std::future::pending().await,
                }
            });
        }
    });
    address
}

fn service() -> ReqwestService {
    with(reqwest::Client::builder())
}

fn with(builder: reqwest::ClientBuilder) -> ReqwestService {
    ReqwestService::new(builder.no_proxy()).expect("a client")
}

async fn post(service: ReqwestService, to: impl fmt::Display) -> Result<Response<reqwest::Body>, Error> {
    let request = Request::post(format!("http://{to}/tickets?key=sk-secret")).body("{}").expect("a request");
    service.oneshot(request).await
}

#[track_caller]
fn reason(result: Result<Response<reqwest::Body>, Error>) -> Reason {
    let error = result.expect_err("an error");
    let mut next: Option<&dyn StdError> = Some(&error);
    while let Some(error) = next {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("secret") && !text.contains("tickets"), "{text}");
        next = error.source();
    }
    error.failure().expect("a judged failure").reason()
}

async fn refused_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("an address")
}

#[tokio::test]
async fn an_answer_passes_and_the_body_goes_with_its_length() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let mut seen = vec![0; 4096];
        let mut length = 0;
        while !seen[..length].ends_with(b"{}") {
            length += socket.read(&mut seen[length..]).await.expect("a request");
        }
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.expect("a reader");
        String::from_utf8_lossy(&seen[..length]).into_owned()
    });
    let response = post(service(), address).await.expect("an answer");
    assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "hi");
    let seen = server.await.expect("no panic");
    assert!(seen.contains("content-length: 2\r\n") && !seen.contains("chunked"), "{seen}");
}

#[tokio::test]
async fn a_refused_port_was_not_sent_to() {
    assert_eq!(reason(post(service(), refused_port().await).await), Reason::ConnectFailed);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_was_not_sent_to() {
    assert_eq!(reason(post(service(), "nonexistent.invalid").await), Reason::ConnectFailed);
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_is_unknown() {
    let reason = reason(post(service(), server(Some("")).await).await);
    assert_eq!((reason, reason.class()), (Reason::ConnectionLost, Class::Unknown));
}

#[tokio::test]
async fn a_server_that_never_answers_is_unknown() {
    let service = with(reqwest::Client::builder().timeout(Duration::from_millis(200)));
    assert_eq!(reason(post(service, server(None).await).await), Reason::Timeout);
}

/// A resolver that never answers: a connection that is never made.
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_timeout_before_there_was_a_connection_was_not_sent() {
    let silent = || reqwest::Client::builder().dns_resolver(Arc::new(Silent));
    let soon = Duration::from_millis(20);
    let connect = with(silent().connect_timeout(soon));
    assert_eq!(reason(post(connect, "crm.example").await), Reason::ConnectFailed);
    // The total timeout says nothing about connecting, but nobody asked for the body.
    let total = with(silent().timeout(soon));
    assert_eq!(reason(post(total.clone(), "crm.example").await), Reason::ConnectFailed);
    // Without a body there is no proof.
    let request = Request::delete("http://crm.example/tickets/7?key=sk-secret").body("").expect("a request");
    assert_eq!(reason(total.oneshot(request).await), Reason::Timeout);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let address = server(Some("HTTP/1.1 302 Found\r\nlocation: /next\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(post(service(), address).await.expect("an answer").status(), 302);
}

#[tokio::test]
async fn a_ready_made_client_proves_nothing_about_a_write() {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let service = ReqwestService::from_client(client);
    assert_eq!(reason(post(service.clone(), refused_port().await).await), Reason::ConnectionLost);
    let mut read = Request::get(format!("http://{}/tickets", refused_port().await)).body("").expect("a request");
    read.extensions_mut().insert(Call::to("crm").effect(Effect::ReadOnly));
    assert_eq!(reason(service.clone().oneshot(read).await), Reason::ConnectFailed);
    let looping =
        server(Some("HTTP/1.1 307 Temporary Redirect\r\nlocation: /tickets\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(reason(post(service, looping).await), Reason::Unproven);
}

#[tokio::test]
async fn a_request_that_cannot_be_built_was_not_sent() {
    for uri in ["/tickets?key=sk-secret", "ftp://crm.example/tickets?key=sk-secret"] {
        let request = Request::post(uri).body("{}").expect("a request");
        assert_eq!(reason(service().oneshot(request).await), Reason::InvalidRequest, "{uri}");
    }
}

#[tokio::test]
async fn half_a_body_is_cut() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";
    let response = post(service(), server(Some(half)).await).await.expect("a head");
    let error = WatchedBody::new(response.into_body()).collect().await.expect_err("half a body");
    assert_eq!(error.failure().map(Failure::reason), Some(Reason::Cut));

    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let response = post(service(), server(Some(chunked)).await).await.expect("a head");
    let error = WatchedBody::new(response.into_body()).collect().await.expect_err("half a body");
    assert_eq!(error.failure().map(Failure::reason), Some(Reason::Cut));
}

#[tokio::test]
async fn a_body_that_stays_silent_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        assert!(socket.read(&mut [0; 4096]).await.is_ok_and(|length| length > 0));
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").await.expect("a reader");
        std::future::pending::<Infallible>().await
    });
    let service = with(reqwest::Client::builder().timeout(Duration::from_millis(200)));
    let response = post(service, address).await.expect("a head");
    let error = WatchedBody::new(response.into_body()).collect().await.expect_err("half a body");
    assert_eq!(error.failure().map(Failure::reason), Some(Reason::Timeout));
}

#[tokio::test]
async fn a_bare_clients_error_holds_no_url_once_it_is_ours() {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = format!("http://{}/tickets?key=sk-secret", refused_port().await);
    let error = client.get(url).send().await.expect_err("nobody listens");
    assert!(error.to_string().contains("secret"));
    let error = Error::from_boxed(error.into());
    assert!(!format!("{error} {error:?}").contains("secret"));
    let read = Call::to("crm").effect(Effect::ReadOnly);
    assert_eq!(error_verdict(&read, &error).reason, Reason::ConnectFailed);
    assert_eq!(error_verdict(&Call::to("crm"), &error).reason, Reason::ConnectionLost);
}

#[tokio::test]
async fn every_body_that_reqwest_takes_is_taken() {
    async fn send<B: Into<reqwest::Body>>(address: SocketAddr, body: B) {
        let request = Request::post(format!("http://{address}/")).body(body).expect("a request");
        assert_eq!(service().oneshot(request).await.expect("an answer").status(), 204);
    }
    let address = server(Some("HTTP/1.1 204 No Content\r\n\r\n")).await;
    send(address, Bytes::from_static(b"x")).await;
    send(address, String::from("x")).await;
    send(address, vec![b'x']).await;
    send(address, WatchedBody::new(BodyScript::new().data("x"))).await;
    send(address, reqwest::Body::wrap(Empty::<Bytes>::new())).await;
}

#[tokio::test]
async fn the_breaker_goes_around_a_bare_client_and_around_the_service() {
    let dead = refused_port().await;
    let breaker = SemanticBreakerLayer::new(TripCard::default());
    let bare = breaker.layer(reqwest::Client::builder().no_proxy().build().expect("a client"));
    let service = breaker.layer(service());
    for _ in 0..5 {
        let url = format!("http://{dead}/tickets?key=sk-secret").parse().expect("a URL");
        let error = bare.clone().oneshot(reqwest::Request::new(http::Method::GET, url)).await.expect_err("nobody");
        assert_eq!(error.failure().map(Failure::reason), Some(Reason::ConnectFailed));
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
    let request = Request::get(format!("http://{dead}/tickets")).body("").expect("a request");
    let error = service.oneshot(request).await.expect_err("open");
    assert_eq!(error.rejected().map(Rejected::code), Some(Refusal::Open));
}

#[tokio::test]
async fn a_watched_answer_of_a_bare_client_can_be_read() {
    let address = server(Some("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")).await;
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let guarded = SemanticBreakerLayer::new(TripCard::default()).layer(client);
    let url: reqwest::Url = format!("http://{address}/tickets").parse().expect("a URL");
    let response = guarded.oneshot(reqwest::Request::new(http::Method::GET, url.clone())).await.expect("an answer");
    assert_eq!(response.url(), &url);
    assert_eq!(response.text().await.expect("a text"), "hi");
}
