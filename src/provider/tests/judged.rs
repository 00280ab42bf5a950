//! What is judged before it is handed on.

use tokio::time::Instant;

use super::*;
use crate::classify::Head;

#[tokio::test(start_paused = true)]
async fn a_json_answer_is_judged_before_it_is_handed_on() {
    let response = ask(json(WHOLE)).await.expect("an answer");
    assert!(matches!(Auto.head(&Call::new(), &response), Head::Decided(verdict) if verdict.is_success()));
    let usage = response.body().verdict().and_then(|verdict| verdict.usage()).expect("stated");
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(3), Some(4)));
    assert_eq!(reading(&response).expect("read").usage, Some(usage));
    assert_eq!(read(response.into_body()).await.0, WHOLE);
}

#[tokio::test(start_paused = true)]
async fn a_json_answer_in_pieces_is_the_same_answer() {
    let body = BodyScript::new().data(&WHOLE[..7]).pause(SECOND * 90).data(&WHOLE[7..50]).data(&WHOLE[50..]);
    let response = ask(answer(200, "application/json", body)).await.expect("an answer");
    assert_eq!(known(&response), Some(Reason::Completed));
    assert_eq!(read(response.into_body()).await.0, WHOLE);
}

#[tokio::test(start_paused = true)]
async fn a_failing_json_answer_is_an_answer_with_a_failing_verdict() {
    for (body, expected) in [
        (r#"{"choices":[{"index":0,"message":{"content":"H"},"finish_reason":"length"}]}"#, Reason::OutputLimit),
        (r#"{"choices":[{"index":0,"message":{"content":""},"finish_reason":"stop"}]}"#, Reason::EmptyAnswer),
        (r#"{"error":{"code":"rate_limit_exceeded","message":"try again in 7s"}}"#, Reason::RateLimited),
        (r#"{"error":{"message":"no","type":"server_error"}}"#, Reason::ServerError),
        (r#"{"hello":"world"}"#, Reason::Unparsable),
        ("<html><body>Bad day</body></html>", Reason::Unparsable),
        ("", Reason::Unparsable),
        ("  \n ", Reason::Unparsable),
    ] {
        let response = ask(json(body)).await.expect("it is handed on");
        assert_eq!(known(&response), Some(expected), "{body}");
        assert_eq!(read(response.into_body()).await.0, body);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_comes_under_a_success_says_when_to_come_again() {
    let start = Instant::now();
    let body = r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 7s"}}"#;
    let response = ask(json(body)).await.expect("it is handed on");
    let verdict = response.body().verdict().expect("judged");
    assert_eq!((verdict.reason, verdict.retry_at), (Reason::RateLimited, Some(start + SECOND * 7)));
}

#[tokio::test(start_paused = true)]
async fn an_error_body_is_read_for_its_code_and_its_wait() {
    let start = Instant::now();
    let throttled = r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 7s"}}"#;
    let spent = r#"{"error":{"code":"insufficient_quota"}}"#;
    let long = r#"{"error":{"code":"context_length_exceeded"}}"#;
    for (status, body, expected, wait) in [
        (429, throttled, Reason::RateLimited, Some(SECOND * 9)),
        (429, spent, Reason::QuotaExhausted, None),
        (400, long, Reason::ContextOverflow, Some(SECOND * 9)),
        (529, "{}", Reason::Overloaded, Some(SECOND * 9)),
        (500, "<html>oops", Reason::ServerError, Some(SECOND * 9)),
        (503, "", Reason::Overloaded, Some(SECOND * 9)),
    ] {
        let mut response = answer(status, "application/json", BodyScript::new().data(body));
        response.headers_mut().insert("retry-after", http::HeaderValue::from_static("9"));
        let response = ask(response).await.expect("an error status is an answer");
        let verdict = response.body().verdict().expect("judged");
        assert_eq!((verdict.reason, verdict.retry_at), (expected, wait.map(|wait| start + wait)), "{body}");
        assert_eq!(read(response.into_body()).await.0, body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_when_to_come_again_did_not_take_a_write() {
    for (code, wait, expected) in [
        (429, None, Reason::Unproven),
        (429, Some("2"), Reason::RateLimited),
        (503, Some("2"), Reason::Overloaded),
        (500, Some("2"), Reason::Unproven),
    ] {
        let mut response = answer(code, "", BodyScript::new().data("no"));
        if let Some(wait) = wait {
            response.headers_mut().insert("retry-after", http::HeaderValue::from_static(wait));
        }
        let response = send(config(), post("http://crm/tickets"), response).await.expect("an answer");
        assert_eq!(known(&response), Some(expected), "{code} {wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_body_that_breaks_off_is_judged_and_ends_in_an_error_for_its_reader() {
    const PART: &str = r#"{"error":{"code":"context_le"#;
    for broken in [BodyScript::new().data(PART).fail("reset"), BodyScript::new().data(PART).stall()] {
        let response = ask(answer(429, "application/json", broken)).await.expect("the status speaks");
        assert_eq!(known(&response), Some(Reason::RateLimited));
        assert!(!http_body::Body::is_end_stream(response.body()));
        let (bytes, end) = read(response.into_body()).await;
        assert_eq!(bytes, PART);
        assert!(end.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_json_answer_that_breaks_off_is_an_error_of_the_call() {
    let body = BodyScript::new().data(&WHOLE[..20]).fail("reset");
    let error = ask(answer(200, "application/json", body)).await.expect_err("nothing was handed on");
    assert_eq!(reason(&error), Some(Reason::Cut));
}

#[tokio::test(start_paused = true)]
async fn the_body_tells_more_than_its_content_type() {
    for kind in ["text/event-stream", "application/json", "text/plain", "text/html; charset=utf-8", ""] {
        let response = ask(answer(200, kind, BodyScript::new().data(WHOLE))).await.expect("an answer");
        assert_eq!(known(&response), Some(Reason::Completed), "JSON as {kind}");
        let stream = pieces(&["\n", ROLE, TEXT, FINISH, DONE]);
        let response = ask(answer(200, kind, stream)).await.expect("an answer");
        assert_eq!(known(&response), None, "a stream as {kind}");
        let told = Told::default();
        let (bytes, end) = read(told.listen(response).into_body()).await;
        end.expect("a clean end");
        assert_eq!(bytes, ["\n", ROLE, TEXT, FINISH, DONE].concat());
        assert_eq!(told.take(), ["completed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_no_answer_is_judged_by_its_status() {
    for code in [302, 307, 304] {
        let response = ask(answer(code, "", BodyScript::new())).await.expect("handed on");
        let told = Told::default();
        assert!(read(told.listen(response).into_body()).await.1.is_ok());
        assert_eq!(told.take(), ["completed"], "{code}");
    }
    let response = ask(answer(204, "", BodyScript::new())).await.expect("handed on");
    assert_eq!((response.status(), known(&response)), (status(204), Some(Reason::Unparsable)));
}
