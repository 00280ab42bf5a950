//! Answers that were taken for something else than they are.

use tokio::time::Instant;
use tower_belay::{Class, wire::FinishReason};

use super::*;

/// langchain-ai/langchainjs#1929: an account without quota was asked again and again, since it answers a 429.
#[tokio::test(start_paused = true)]
async fn reported_9_a_quota_that_is_used_up_is_no_throttle() {
    let spent = r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"no budget left"}}"#;
    let stack = Stack::new([json(429, spent)]);
    let got = stack.got(chat()).await;
    assert_eq!((got.status, got.reason()), (429, Some(Reason::QuotaExhausted)));
    assert_eq!(stack.got(chat()).await.refused, Some(Refusal::CredentialOpen));
}

/// coder/coder#26200: throttles that speak of a quota in prose were taken for a quota that is used up.
#[tokio::test(start_paused = true)]
async fn reported_10_a_throttle_that_speaks_of_a_quota_is_waited_out() {
    let google = r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED",
        "message":"You exceeded your current quota. See your plan and billing.",
        "details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}]"#;
    let azure = r#"{"error":{"code":"429","message":"Requests have exceeded the quota of this tier. Please retry after 6 seconds."}}"#;
    for (body, wait) in [(google, 7), (azure, 6)] {
        let stack = Stack::new([json(429, body), json(200, GOOD)]);
        let start = Instant::now();
        assert_eq!(stack.got(chat()).await.reason(), Some(Reason::Completed), "{body}");
        let waited = start.elapsed();
        assert!(waited >= wait * SECOND && waited <= (wait + 1) * SECOND, "{waited:?}");
        assert_eq!(stack.plant.calls(), 2);
    }
}

/// gsd-build/gsd-2#2803: a 429 for want of a right was retried for ever.
#[tokio::test(start_paused = true)]
async fn reported_11_a_429_for_want_of_an_entitlement_goes_once() {
    let denied = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long requests."}}"#;
    let stack = Stack::new([with_headers(429, &[("retry-after", "2")], denied)]);
    let got = stack.got(messages()).await;
    assert_eq!((got.reason(), got.reason().map(Reason::class)), (Some(Reason::NotEntitled), Some(Class::Denied)));
}

const STARTED: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude\"}}";
const SAYS: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                    \"delta\":{\"type\":\"text_delta\",\"text\":\"Well\"}}";
const OVERLOADED: &str =
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}";
const STOPPED: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}";

/// anthropics/anthropic-sdk-python#1918: an overload inside a stream looked like its status, which is 200.
#[tokio::test(start_paused = true)]
async fn reported_12_an_overload_inside_a_stream_is_an_overload() {
    let stack = Stack::new([stream(&[STARTED, OVERLOADED]), stream(&[STARTED, SAYS, STOPPED])]);
    assert_eq!(stack.got(messages()).await.reason(), Some(Reason::Completed), "nothing was shown, so it goes again");
    assert_eq!(stack.plant.calls(), 2);

    let stack = Stack::new([stream(&[STARTED, SAYS, OVERLOADED])]);
    let got = stack.got(messages()).await;
    assert_eq!((got.status, got.reason()), (200, Some(Reason::Overloaded)));
    assert!(got.text.contains("Well"));
}

/// Portkey-AI/gateway#1797: a stream that was cut ended as cleanly as one that was not.
#[tokio::test(start_paused = true)]
async fn reported_14_a_stream_without_terminator_ends_as_an_error() {
    let claude = Call::to("api.anthropic.com").operation("claude").effect(Effect::ReadOnly);
    let stack = Stack::new([stream(&[STARTED, SAYS])]);
    let got = stack.got(messages()).await;
    assert_eq!((got.broke(), got.reason().map(Reason::class)), (Some(Reason::Cut), Some(Class::Unknown)));
    assert!(got.text.contains("Well"), "what came is not withheld");
    assert_eq!(stack.counts(&claude, Circuit::Health).failures, 1);
}

fn claude_says(content: &str, stop: &str) -> Step<Response<BodyScript>> {
    json(200, &format!(r#"{{"type":"message","role":"assistant","content":[{content}],"stop_reason":"{stop}"}}"#))
}

/// tailcallhq/forgecode#3640: a stop reason that was new became "empty", and was retried.
#[tokio::test(start_paused = true)]
async fn reported_15_a_stop_reason_that_is_new_is_kept_as_it_is() {
    let stack = Stack::new([claude_says(r#"{"type":"text","text":"Hi"}"#, "moon_phase")]);
    let got = stack.got(messages()).await;
    assert_eq!(got.reason(), Some(Reason::Completed));
    let word = got.reading.as_ref().and_then(|reading| reading.finish_reason.as_ref()).and_then(FinishReason::as_str);
    assert_eq!(word, Some("moon_phase"));

    let stack = Stack::new([claude_says("", "refusal")]);
    let got = stack.got(messages()).await;
    assert_eq!((got.reason(), got.reason().map(Reason::class)), (Some(Reason::Refused), Some(Class::Denied)));
}

/// pydantic/pydantic-ai#4315: a prompt that a filter had blocked was sent again.
#[tokio::test(start_paused = true)]
async fn reported_16_a_blocked_prompt_goes_once() {
    let blocked = r#"{"error":{"code":"content_filter","status":400,"message":"the prompt met a policy",
        "innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#;
    let filtered = r#"{"choices":[{"index":0,"message":{"content":null},"finish_reason":"content_filter"}]}"#;
    for answer in [json(400, blocked), json(200, filtered)] {
        let stack = Stack::new([answer]);
        let got = stack.got(chat()).await;
        assert_eq!(
            (got.reason(), got.reason().map(Reason::class)),
            (Some(Reason::ContentFiltered), Some(Class::Denied))
        );
    }
}

/// earendil-works/pi#8462: an empty answer that ended with `stop` was taken for one.
#[tokio::test(start_paused = true)]
async fn reported_17_an_empty_answer_that_ended_well_is_malformed() {
    let stack = Stack::once(Scripted::by(|_: &Request<String>| json(200, EMPTY)));
    for counted in 0..5 {
        assert_eq!(stack.counts(&gpt(), Circuit::Health).malformed, counted);
        let got = stack.got(chat()).await;
        assert_eq!(
            (got.reason(), got.reason().map(Reason::class)),
            (Some(Reason::EmptyAnswer), Some(Class::Malformed))
        );
    }
    assert_eq!(stack.got(chat()).await.refused, Some(Refusal::Degraded));
}
