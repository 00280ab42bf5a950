//! Streams that are made to report their usage, and what their clients see of it.

use http::HeaderValue;

use super::*;

const KNOWN: &str = "https://api.openai.com/v1/chat/completions";

/// What the server got, and what the client did.
async fn through(request: Request<String>, config: ProviderConfig) -> (Request<String>, Response<WatchedBody>) {
    let mut response = sse(pieces(&[TEXT, FINISH, USAGE, DONE]));
    response.headers_mut().insert("content-length", HeaderValue::from_static("999"));
    let client = Scripted::new([Step::answer(response)]);
    let response = ProviderLayer::new(config).layer(client.clone()).oneshot(request).await.expect("live");
    (client.take_requests().remove(0), response)
}

fn with(mut request: Request<String>, name: &'static str, value: &str) -> Request<String> {
    request.headers_mut().insert(name, value.parse().expect("a header value"));
    request
}

#[tokio::test(start_paused = true)]
async fn a_known_host_is_asked_and_the_client_sees_nothing_of_it() {
    let request = with(with(post(KNOWN), "content-length", "15"), "x-other", "kept");
    let (sent, response) = through(request, config()).await;
    assert_eq!(sent.body(), r#"{"stream_options":{"include_usage":true},"stream":true}"#);
    assert_eq!(sent.headers()["content-length"], sent.body().len().to_string());
    assert_eq!(sent.headers()["x-other"], "kept");
    assert!(!response.headers().contains_key("content-length"));
    let told = Told::default();
    let response = told.listen(response);
    let answer = response.extensions().get::<Answer>().expect("always there").clone();
    let (bytes, end) = read(response.into_body()).await;
    end.expect("a clean end");
    assert_eq!(bytes, [TEXT, FINISH, DONE].concat());
    assert_eq!(told.take(), ["completed"]);
    assert_eq!(answer.reading().and_then(|reading| reading.usage).and_then(|usage| usage.input_tokens), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_must_not_change_does_not() {
    let body = |body: &str| Request::post(KNOWN).body(body.to_owned()).expect("a request");
    for (request, config) in [
        (chat(), config()),
        (post(KNOWN), config().include_usage(IncludeUsage::Never)),
        (with(post(KNOWN), "authorization", "AWS4-HMAC-SHA256 x"), config()),
        (with(post(KNOWN), "content-digest", "sha-256=:x:"), config()),
        (with(post(KNOWN), "content-encoding", "gzip"), config()),
        (post("https://example.openai.azure.com/openai/deployments/x/chat/completions"), config()),
        (post("https://api.openai.com.evil.example/v1/chat/completions"), config()),
        (body(r#"{"stream":true,"stream_options":{"include_usage":true}}"#), config()),
        (body(r#"{"stream":true,"stream_options":{"include_usage":false}}"#), config()),
        (body(r#"{"stream":true,"stream_options":{}}"#), config()),
        (body(r#"{"stream":false}"#), config()),
        (body(r#"{"stream":true,"stream":false}"#), config()),
        (body("{}"), config()),
        (body("[1]"), config()),
        (body("not json"), config()),
        (body(""), config()),
    ] {
        let as_it_was = request.body().clone();
        let (sent, response) = through(request, config).await;
        assert_eq!(*sent.body(), as_it_was);
        // A stream is over with its terminator: nobody promises how long it is.
        assert!(!response.headers().contains_key("content-length"));
        let (bytes, _) = read(response.into_body()).await;
        assert_eq!(bytes, [TEXT, FINISH, USAGE, DONE].concat(), "{as_it_was}");
    }
    let (sent, _) = through(chat(), config().include_usage(IncludeUsage::Always)).await;
    assert!(sent.body().contains("include_usage"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_read_is_sent_as_it_is() {
    let client = Scripted::new([Step::answer(sse(pieces(&[TEXT, USAGE, DONE])))]);
    let request = Request::post(KNOWN).body(WatchedBody::empty()).expect("a request");
    let response = ProviderLayer::new(config()).layer(client).oneshot(request).await.expect("live");
    assert_eq!(read(response.into_body()).await.0, [TEXT, USAGE, DONE].concat());
}

#[tokio::test(start_paused = true)]
async fn comments_reach_the_client_at_once_also_while_something_is_hidden() {
    let client = Scripted::new([Step::answer(sse(pieces(&[TEXT, PING, USAGE, PING]).stall()))]);
    let response = ProviderLayer::new(config()).layer(client).oneshot(post(KNOWN)).await;
    let mut response = response.expect("live");
    for expected in [TEXT, PING, PING] {
        let frame = tokio::time::timeout(SECOND, frame(&mut response)).await;
        assert_eq!(frame.expect("at once"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_says_nothing_else_is_hidden() {
    const FILTERS: &str = "data: {\"choices\":[],\"usage\":null,\"prompt_filter_results\":[]}\n\n";
    const FAILED: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1},\"error\":{\"code\":\"x\"}}\n\n";
    let client = Scripted::new([Step::answer(sse(pieces(&[TEXT, FILTERS, FAILED, DONE])))]);
    let response = ProviderLayer::new(config()).layer(client).oneshot(post(KNOWN)).await.expect("live");
    assert_eq!(read(response.into_body()).await.0, [TEXT, FILTERS, FAILED, DONE].concat());
}

#[cfg(feature = "reqwest")]
#[tokio::test(start_paused = true)]
async fn a_body_of_reqwest_is_asked_too() {
    let client = Scripted::new([Step::answer(sse(pieces(&[TEXT, USAGE, DONE])))]);
    let request = post(KNOWN).map(reqwest::Body::from);
    let response = ProviderLayer::new(config()).layer(client.clone()).oneshot(request).await.expect("live");
    assert_eq!(read(response.into_body()).await.0, [TEXT, DONE].concat());
    let sent = client.take_requests().remove(0);
    assert!(sent.body().as_bytes().is_some_and(|body| body.starts_with(b"{\"stream_options\"")));
}
