use std::time::Duration;

use http::StatusCode;

use crate::{
    call::Effect,
    reason::Reason,
    wire::{Decoder, Reading},
};

fn error(status: u16, body: &str) -> (Reason, Reading) {
    let mut decoder = Decoder::new(None);
    decoder.error_body(body.as_bytes());
    let reading = decoder.into_reading();
    (reading.reason(StatusCode::from_u16(status).expect("a status"), Effect::ReadOnly), reading)
}

#[test]
fn provider_errors_mean_what_the_table_says() {
    let anthropic =
        |kind: &str, text: &str| format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{text}"}}}}"#);
    let openai = |code: &str| format!(r#"{{"error":{{"message":"m","type":"x","param":null,"code":"{code}"}}}}"#);
    for (status, body, want) in [
        (429, anthropic("rate_limit_error", "This request would exceed your limit"), Reason::RateLimited),
        (529, anthropic("overloaded_error", "Overloaded"), Reason::Overloaded),
        (500, anthropic("api_error", "Internal server error"), Reason::ServerError),
        (504, anthropic("timeout_error", "x"), Reason::Timeout),
        (413, anthropic("request_too_large", "x"), Reason::ContextOverflow),
        (400, anthropic("invalid_request_error", "Your credit balance is too low to access"), Reason::QuotaExhausted),
        (402, anthropic("billing_error", "x"), Reason::QuotaExhausted),
        (403, anthropic("permission_error", "x"), Reason::PermissionDenied),
        (404, anthropic("not_found_error", "model: x"), Reason::NotFound),
        (429, anthropic("rate_limit_error", "Extra usage is required for long context"), Reason::NotEntitled),
        (400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"), Reason::ContextOverflow),
        (429, openai("rate_limit_exceeded"), Reason::RateLimited),
        (429, openai("insufficient_quota"), Reason::QuotaExhausted),
        (429, openai("usage_not_included"), Reason::QuotaExhausted),
        (400, openai("context_length_exceeded"), Reason::ContextOverflow),
        (400, openai("content_policy_violation"), Reason::ContentFiltered),
        (403, openai("model_not_found"), Reason::NotEntitled),
        (503, openai("slow_down"), Reason::Overloaded),
        (400, openai("tool_use_failed"), Reason::ToolCallInvalid),
        (409, openai("x"), Reason::Conflict),
        (408, openai("x"), Reason::Timeout),
        (422, openai("x"), Reason::InvalidRequest),
        (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#.to_owned(), Reason::InvalidRequest),
        (402, r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#.to_owned(), Reason::QuotaExhausted),
        (400, r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xx"}"#.to_owned(), Reason::Unauthenticated),
        (400, r#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]"#.to_owned(), Reason::Unauthenticated),
        (400, r#"{"object":"error","message":"This model's maximum context length is 8","type":"BadRequestError","code":400}"#.to_owned(), Reason::ContextOverflow),
        (400, r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#.to_owned(), Reason::ContextOverflow),
        (503, r#"{"error":"Model x is currently loading","estimated_time":20.5}"#.to_owned(), Reason::WarmingUp),
        (503, r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#.to_owned(), Reason::WarmingUp),
        (502, "<html>Bad Gateway</html>".to_owned(), Reason::ServerError),
        (503, String::new(), Reason::Overloaded),
        (504, "upstream request timeout".to_owned(), Reason::Timeout),
        (401, "Unauthorized".to_owned(), Reason::Unauthenticated),
        (403, "\u{0}".to_owned(), Reason::PermissionDenied),
        (302, String::new(), Reason::Unclassified),
    ] {
        assert_eq!(error(status, &body).0, want, "{status} {body}");
    }
}

#[test]
fn prose_about_quota_does_not_turn_a_throttle_into_spent_quota() {
    for message in [
        "You exceeded your current quota, please check your plan and billing",
        "Quota exceeded for requests per minute",
    ] {
        let body = format!(r#"{{"error":{{"message":"{message}","type":"rate_limit_error","code":"429"}}}}"#);
        assert_eq!(error(429, &body).0, Reason::RateLimited);
        assert_eq!(error(429, &format!(r#"{{"error":{{"message":"{message}"}}}}"#)).0, Reason::RateLimited);
    }
}

#[test]
fn above_read_only_a_servers_failure_proves_nothing_but_its_own_code_does() {
    let judge = |status: u16, body: &str| {
        let mut decoder = Decoder::new(None);
        decoder.error_body(body.as_bytes());
        decoder.reading().reason(StatusCode::from_u16(status).expect("a status"), Effect::Consequential)
    };
    for status in [429, 500, 502, 503, 504, 529] {
        assert_eq!(judge(status, "oops"), Reason::Unproven, "{status}");
    }
    assert_eq!(judge(500, r#"{"type":"error","error":{"type":"api_error"}}"#), Reason::Unproven);
    assert_eq!(judge(529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#), Reason::Overloaded);
    assert_eq!(judge(429, r#"{"error":{"code":"rate_limit_exceeded"}}"#), Reason::RateLimited);
    assert_eq!(judge(429, r#"{"error":{"code":"insufficient_quota"}}"#), Reason::QuotaExhausted);
    assert_eq!(judge(400, "bad"), Reason::InvalidRequest);
}

#[test]
fn an_error_keeps_its_words_and_the_wait_inside_it() {
    let google = r#"[{"error":{"code":429,"message":"Resource exhausted.","status":"RESOURCE_EXHAUSTED",
        "details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}]"#;
    let (reason, reading) = error(429, google);
    assert_eq!((reason, reading.retry_after), (Reason::RateLimited, Some(Duration::from_millis(34_070))));
    let stated = reading.error.expect("an error");
    assert_eq!((stated.code.as_deref(), stated.status), (Some("RESOURCE_EXHAUSTED"), Some(429)));
    let (_, reading) = error(
        429,
        r#"{"error":{"message":"Rate limit reached. Please try again in 6m0s.","code":"rate_limit_exceeded"}}"#,
    );
    assert_eq!(reading.retry_after, Some(Duration::from_secs(360)));
    let streamed = "event: error\ndata: {\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    assert_eq!(error(500, streamed).0, Reason::Overloaded);
}
