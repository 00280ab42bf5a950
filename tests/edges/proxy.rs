//! Behind a hyper server that passes on what another server says, byte by byte: what a body claims of itself must be true,
//! or the server breaks its promise to its own client.

use ::axum::{Router, body::Body};
use http::Uri;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_belay::{
    IdentifyLayer, ProviderConfig, ProviderLayer, RespondLayer, WatchedBody, adapt::ReqwestService,
    provider::IncludeUsage,
};

use super::*;

/// Answers one request a connection with these bytes, and closes it.
async fn upstream(answer: &str) -> String {
    let answer = answer.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut asked = vec![0; 8_192];
            let _ = socket.read(&mut asked).await;
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    address.to_string()
}

/// What a client gets through the proxy: the head, and what comes behind it.
async fn through(method: &str, path: &str, answer: &str) -> (String, String) {
    let upstream = upstream(answer).await;
    let client = ReqwestService::new(super::reqwest::client()).expect("a client");
    let passes = service_fn(move |mut request: Request<Body>| {
        let (client, upstream) = (client.clone(), upstream.clone());
        async move {
            let path = request.uri().path_and_query().expect("a path").clone();
            *request.uri_mut() = Uri::try_from(format!("http://{upstream}{path}")).expect("a URI");
            request.headers_mut().remove("host");
            let (parts, body) = request.into_parts();
            let body = ::axum::body::to_bytes(body, usize::MAX).await.expect("a body");
            client.oneshot(Request::from_parts(parts, body)).await
        }
    });
    let provider = ProviderConfig::default().include_usage(IncludeUsage::Always);
    let stack = ServiceBuilder::new()
        .layer(RespondLayer::new())
        .layer(IdentifyLayer::new())
        .layer(breaker())
        .layer(ProviderLayer::new(provider))
        .service(passes);
    let stack =
        tower::ServiceExt::<Request<Body>>::map_response(stack, |answer: Response<WatchedBody>| answer.map(Body::new));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(::axum::serve(listener, Router::new().fallback_service(stack)).into_future());
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let body = r#"{"model":"m","stream":true}"#;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.expect("it is sent");
    let mut got = Vec::new();
    let _ = socket.read_to_end(&mut got).await;
    let got = String::from_utf8_lossy(&got).into_owned();
    let (head, rest) = got.split_once("\r\n\r\n").unwrap_or((&got, ""));
    (head.to_lowercase(), rest.to_owned())
}

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn an_answer_without_a_body_keeps_the_length_that_it_states() {
    for (status, length) in [("200 OK", 1_000), ("404 Not Found", 1_000), ("304 Not Modified", 5)] {
        let method = if status.starts_with("304") { "GET" } else { "HEAD" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
        let (head, rest) = through(method, CHAT, &answer).await;
        assert!(head.contains(&format!("content-length: {length}\r\n")) && rest.is_empty(), "{head} {rest}");
    }
    let (head, rest) = through("GET", "/x", "HTTP/1.1 204 No Content\r\n\r\n").await;
    assert!(head.starts_with("http/1.1 204") && !head.contains("length") && rest.is_empty(), "{head} {rest}");
}

#[tokio::test]
async fn what_is_whole_comes_whole_and_framed_as_it_was() {
    let json = r#"{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
    for (status, path, body) in
        [("200 OK", "/x", "hello"), ("200 OK", CHAT, json), ("500 No", CHAT, r#"{"error":{}}"#), ("200 OK", CHAT, "")]
    {
        let length = format!("content-length: {}", body.len());
        let (head, rest) = through("POST", path, &format!("HTTP/1.1 {status}\r\n{length}\r\n\r\n{body}")).await;
        assert!(head.contains(&length) && rest == body, "{head} {rest}");
    }
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(through("GET", "/x", chunked).await.1, "5\r\nhello\r\n0\r\n\r\n");
}

#[tokio::test]
async fn what_is_cut_never_looks_whole() {
    let (head, rest) = through("GET", "/x", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").await;
    assert!(rest.len() < 10 && head.contains("content-length: 10"), "{head} {rest}");
    let (_, rest) = through("GET", "/x", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
    assert!(!rest.contains("\r\n0\r\n"), "{rest}");
    let (head, _) = through("POST", CHAT, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\"").await;
    assert!(head.starts_with("http/1.1 502"), "{head}");
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
    let (head, rest) = through("POST", CHAT, cut).await;
    assert!(head.starts_with("http/1.1 200") && !rest.contains("\r\n0\r\n"), "{head} {rest}");
}

#[tokio::test]
async fn a_stream_is_whole_with_its_terminator_whatever_length_it_was_to_have() {
    let stream =
        "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for length in [stream.len(), stream.len() + 1, 1_000_000] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n");
        let (head, rest) = through("POST", CHAT, &(head + stream)).await;
        let is_whole = rest.ends_with("\r\n0\r\n\r\n") || head.contains(&format!("content-length: {}", stream.len()));
        assert!(head.starts_with("http/1.1 200") && is_whole && rest.contains("[DONE]"), "{head} {rest}");
    }
}
