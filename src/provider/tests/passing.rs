//! What passes without being read.

use http::{HeaderMap, HeaderValue, Method};

use super::*;

fn trailers(name: &'static str, value: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(name, HeaderValue::from_static(value));
    trailers
}

async fn collected(response: Response<WatchedBody>) -> (Bytes, Option<HeaderMap>) {
    let collected = response.into_body().collect().await.expect("a clean end");
    let trailers = collected.trailers().cloned();
    (collected.to_bytes(), trailers)
}

#[tokio::test(start_paused = true)]
async fn an_encoded_body_is_judged_by_its_status() {
    for (code, encoding, expected) in [
        (200, "gzip", None),
        (429, "gzip", Some(Reason::RateLimited)),
        (200, "Identity", Some(Reason::Completed)),
        (200, "", Some(Reason::Completed)),
    ] {
        let mut response = answer(code, "application/json", BodyScript::new().data(WHOLE));
        response.headers_mut().insert("content-encoding", HeaderValue::from_static(encoding));
        let response = ask(response).await.expect("an answer");
        assert_eq!(known(&response), expected, "{encoding}");
        assert_eq!(reading(&response).is_some(), encoding != "gzip");
        let told = Told::default();
        let answer = response.extensions().get::<Answer>().cloned();
        assert_eq!(collected(told.listen(response)).await.0, WHOLE);
        assert_eq!(told.take(), [expected.unwrap_or(Reason::Completed).code()]);
        assert_eq!(answer.is_some_and(|answer| answer.reading().is_some()), encoding != "gzip", "nothing was read");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_question_to_a_model_has_no_answer_to_judge() {
    for (method, path) in [
        (Method::GET, "/v1/models"),
        (Method::GET, "/v1/chat/completions"),
        (Method::HEAD, "/v1/chat/completions"),
        (Method::POST, "/v1/embeddings"),
        (Method::POST, "/v1/chat/completions/x/cancel"),
    ] {
        let request = Request::builder().method(method).uri(format!("http://127.0.0.1{path}"));
        let body = pieces(&["not", " json"]);
        let response = send(config(), request.body(String::new()).expect("a request"), answer(200, "", body)).await;
        let told = Told::default();
        assert_eq!(collected(told.listen(response.expect("an answer"))).await.0, "not json");
        assert_eq!(told.take(), ["completed"], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_errors_of_any_target_are_read() {
    let body = r#"{"error":{"code":"insufficient_quota"}}"#;
    let response = send(config(), post("http://127.0.0.1/v1/embeddings"), answer(429, "", pieces(&[body]))).await;
    assert_eq!(known(&response.expect("an answer")), Some(Reason::QuotaExhausted));
}

#[tokio::test(start_paused = true)]
async fn a_protocol_may_be_named_for_every_path() {
    let provider = ProviderLayer::new(config()).protocol(crate::wire::Protocol::OpenAiChat);
    let response = provider.layer(Scripted::new([Step::answer(json(WHOLE))])).oneshot(post("http://127.0.0.1/x")).await;
    assert_eq!(known(&response.expect("an answer")), Some(Reason::Completed));
}

#[tokio::test(start_paused = true)]
async fn trailers_pass() {
    for response in [
        answer(200, "application/json", BodyScript::new().data(WHOLE).trailers(trailers("x-cost", "7"))),
        answer(429, "application/json", BodyScript::new().data(WHOLE).trailers(trailers("x-cost", "7"))),
        sse(pieces(&[TEXT, FINISH, DONE]).trailers(trailers("x-cost", "7"))),
        sse(pieces(&[FINISH, DONE]).trailers(trailers("x-cost", "7"))),
    ] {
        let response = ask(response).await.expect("an answer");
        let (bytes, trailers) = collected(response).await;
        assert!(!bytes.is_empty());
        assert_eq!(trailers.expect("trailers")["x-cost"], "7");
    }
    let cut = ask(sse(pieces(&[TEXT]).trailers(trailers("x-cost", "7")))).await.expect("live");
    assert_eq!(reason(&read(cut.into_body()).await.1.expect_err("cut")), Some(Reason::Cut));
}

#[tokio::test(start_paused = true)]
async fn grpc_passes_and_is_judged_by_its_status() {
    let grpc = |body| answer(200, "application/grpc", body);
    for path in ["/pkg.Service/Method", "/v1/chat/completions"] {
        let hour = SECOND * 3_600;
        let body = BodyScript::new().data("m").pause(hour).data("m").trailers(trailers("grpc-status", "7"));
        let mut request = post(&format!("http://127.0.0.1{path}"));
        request.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc+proto"));
        let client = Scripted::new([Step::answer(grpc(body)).after(hour)]);
        let response = ProviderLayer::new(config()).layer(client).oneshot(request).await.expect("it may be silent");
        let told = Told::default();
        let (bytes, trailers) = collected(told.listen(response)).await;
        assert_eq!((bytes, told.take()), ("mm".into(), vec!["permission_denied".to_owned()]));
        assert_eq!(trailers.expect("trailers")["grpc-status"], "7");
    }
    let cut = send(config(), post("http://127.0.0.1/pkg.Service/Method"), grpc(pieces(&["m"]))).await.expect("open");
    assert!(read(cut.into_body()).await.1.is_err());
    // A status in the head is all there is.
    let mut done = grpc(BodyScript::new());
    done.headers_mut().insert("grpc-status", HeaderValue::from_static("0"));
    let done = send(config(), post("http://127.0.0.1/pkg.Service/Method"), done).await.expect("an answer");
    assert!(read(Told::default().listen(done).into_body()).await.1.is_ok());
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_client_pass_unchanged() {
    let client = Scripted::<_, Response<BodyScript>>::new([Step::fail("no route")]);
    let error = ProviderLayer::new(config()).layer(client).oneshot(chat()).await.expect_err("it failed");
    assert_eq!((error.to_string().as_str(), reason(&error)), ("no route", None));
}
