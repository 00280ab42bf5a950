//! Retries that came too soon, too often, too late, or twice.

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use tower::{BoxError, Layer, service_fn};
use tower_belay::{Auto, provider::Delivery, wire::Protocol};

use super::*;

const ROLE: &str = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const TEXT: &str = r#"data: {"choices":[{"index":0,"delta":{"content":"Once upon"}}]}"#;
const STOP: &str = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const DONE: &str = "data: [DONE]";
const THROTTLED: &str = r#"{"error":{"code":"rate_limit_exceeded","message":"slower, please"}}"#;

fn whole() -> ProviderConfig {
    ProviderConfig::default().delivery(Delivery::Whole)
}

fn amending(amend: LlmAmend) -> RetryLayer<Auto, LlmAmend> {
    RetryLayer::new(RetryPolicy::default()).amend(amend)
}

/// googleapis/python-genai#2604: a throttle inside a stream was final, although nothing had been shown yet.
#[tokio::test(start_paused = true)]
async fn reported_13_a_throttle_inside_a_stream_is_retried_before_any_output() {
    let error = format!("data: {THROTTLED}");
    let stack = Stack::new([stream(&[ROLE, &error]), stream(&[ROLE, TEXT, STOP, DONE])]);
    let start = Instant::now();
    let got = stack.got(chat_stream()).await;
    assert_eq!((got.reason(), stack.plant.calls()), (Some(Reason::Completed), 2));
    assert!(start.elapsed() >= 5 * SECOND, "as a throttle, and not as a stream that was cut");
    assert!(got.text.contains("Once upon") && !got.text.contains("slower"));
}

/// pydantic/pydantic-ai#3105: the empty turn was put into the conversation as null, and everything after was a 400.
#[tokio::test(start_paused = true)]
async fn reported_18_an_empty_turn_is_not_put_into_the_conversation() {
    let stack = Stack::new([json(200, EMPTY), json(200, GOOD)]);
    assert_eq!(stack.got(chat()).await.reason(), Some(Reason::Completed));
    let asked = stack.asked();
    let turns = |body: &Value| body["messages"].as_array().cloned().expect("messages");
    let (first, second) = (turns(&asked[0]), turns(&asked[1]));
    let roles = |turns: &[Value]| turns.iter().map(|turn| turn["role"].clone()).collect::<Vec<_>>();
    assert_eq!(roles(&first), roles(&second), "no turn of the assistant, and none of the user twice");
    assert!(second.iter().all(|turn| turn["content"].is_string()));
    assert!(second[1]["content"].as_str().is_some_and(|text| text.starts_with("Hi\n\n") && text.contains("empty")));
}

/// NousResearch/hermes-agent#6900: the same request was sent again, and met the same empty answer.
#[tokio::test(start_paused = true)]
async fn reported_19_after_an_empty_answer_no_two_requests_are_the_same() {
    let cold = r#"{"model":"gpt-5","temperature":0,"messages":[{"role":"user","content":"Hi"}]}"#;
    let stack = Stack::new([json(200, EMPTY), json(200, EMPTY), json(200, EMPTY)]);
    let got = stack.got(post("https://api.openai.com/v1/chat/completions", cold)).await;
    assert_eq!(got.reason(), Some(Reason::EmptyAnswer));
    let asked = stack.asked();
    assert!(asked[0] != asked[1] && asked[1] != asked[2] && asked[0] != asked[2]);
    assert_eq!((&asked[0]["temperature"], &asked[1]["temperature"]), (&0.into(), &0.7.into()));
}

/// livekit/agents#5335: three attempts inside four made twelve requests.
#[tokio::test(start_paused = true)]
async fn reported_20_of_nested_retries_one_acts_and_one_pays() {
    let plant: Plant = Scripted::by(|_: &Request<String>| json(503, "{}"));
    let inner = RetryLayer::new(RetryPolicy::default());
    let outer = RetryLayer::new(RetryPolicy::default().max_attempts(4));
    let provider = ProviderLayer::new(ProviderConfig::default()).layer(plant.clone());
    let service = outer.layer(inner.layer(provider));
    assert_eq!(service.clone().oneshot(chat()).await.expect("the last answer").status(), 503);
    assert_eq!((plant.calls(), outer.budget_left(), inner.budget_left()), (4, 7, 10));

    // Every service of the layer draws on the same budget.
    for _ in 0..20 {
        outer.layer(service.clone()).oneshot(chat()).await.expect("the last answer");
    }
    assert!(plant.calls() <= 4 + 20 + 7 + 4, "{}", plant.calls());
}

/// earendil-works/pi#6912: a `retry-after` of three days was slept through, and nobody could stop it.
#[tokio::test(start_paused = true)]
async fn reported_21_a_wait_of_days_is_told_and_not_slept() {
    let stack = Stack::new([with_headers(429, &[("retry-after", "277403")], THROTTLED)]);
    let start = Instant::now();
    let got = stack.got(chat()).await;
    assert_eq!((got.status, start.elapsed()), (429, Duration::ZERO));
    let at = got.verdict.and_then(|verdict| verdict.retry_at).expect("when to come again");
    assert_eq!(at - start, 277_403 * SECOND);
    // And who comes all the same is told the same, or when the breaker asks again, and never later than that.
    let error = stack.ask(chat()).await.expect_err("a refusal");
    assert_eq!(error.rejected().map(|it| it.code()), Some(Refusal::Gated));
    assert!(error.retry_at().is_some_and(|at| at > start && at <= start + 277_403 * SECOND));
}

/// openai/codex#3764: "try again in 17 s" was tried again after 3.3 s.
#[tokio::test(start_paused = true)]
async fn reported_22_a_wait_in_the_words_of_an_error_is_waited_out() {
    let busy = r#"{"error":{"code":"rate_limit_exceeded","message":"Too many tokens. Please try again in 17s."}}"#;
    let stack = Stack::new([json(429, busy), json(200, GOOD)]);
    let start = Instant::now();
    assert_eq!(stack.got(chat()).await.status, 200);
    let waited = start.elapsed();
    assert!(waited >= 17 * SECOND && waited <= 19 * SECOND, "{waited:?}");
}

const TOO_LONG: &str = r#"{"error":{"code":"context_length_exceeded","message":"too many tokens"}}"#;

/// Keeps the last message, as long as there is anything before it.
fn forget(_: Protocol, body: &mut Map<String, Value>) -> bool {
    let Some(Value::Array(messages)) = body.get_mut("messages") else { return false };
    let last = messages.len().saturating_sub(1);
    messages.drain(..last).count() > 0
}

/// anomalyco/opencode#34209: an input that was too long was sent again for ever.
#[tokio::test(start_paused = true)]
async fn reported_23_an_input_that_is_too_long_is_shortened_or_not_sent_again() {
    let stack = Stack::new([json(400, TOO_LONG)]);
    assert_eq!(stack.got(chat()).await.reason(), Some(Reason::ContextOverflow), "nobody said what may go");

    let shortens = |plant| Stack::made_of(amending(LlmAmend::new().compact(forget)), ProviderConfig::default(), plant);
    let stack = shortens(Scripted::new([json(400, TOO_LONG), json(200, GOOD)]));
    assert_eq!(stack.got(chat()).await.reason(), Some(Reason::Completed));
    let lengths: Vec<_> = stack.asked().iter().map(|it| it["messages"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(lengths, [2, 1]);

    // Shortened once, and there is nothing left to leave out.
    let stack = shortens(Scripted::new([json(400, TOO_LONG), json(400, TOO_LONG)]));
    assert_eq!(stack.got(chat()).await.reason(), Some(Reason::ContextOverflow));
}

/// HKUDS/nanobot#4038: a replay showed once more what the reader had seen.
#[tokio::test(start_paused = true)]
async fn reported_24_what_was_shown_is_never_replayed() {
    let breaks = BodyScript::new().data(format!("{ROLE}\n\n")).data(format!("{TEXT}\n\n")).pause(SECOND).fail("reset");
    let stack = Stack::new([streamed(breaks)]);
    let got = stack.got(chat_stream()).await;
    assert_eq!(got.text.matches("Once upon").count(), 1);
    assert!(got.broke().is_some(), "the reader knows that it is not whole");
    assert_eq!(stack.plant.calls(), 1);
}

/// The chunk of a tool call, with more of its arguments.
fn tool(more: &str) -> String {
    let name = if more.starts_with('{') { r#""id":"c1","# } else { "" };
    let arguments = Value::from(more);
    let function = if name.is_empty() { "" } else { r#""name":"find","# };
    format!(
        r#"data: {{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,{name}"function":{{{function}"arguments":{arguments}}}}}]}}}}]}}"#
    )
}

/// endolith/open-interpreter#291: the arguments of a broken attempt and of the next one were put together.
#[tokio::test(start_paused = true)]
async fn reported_25_arguments_of_two_attempts_are_not_put_together() {
    let (begins, goes_on) = (tool(r#"{"q":"#), tool(r#""rust"}"#));
    let finish = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let cut = || stream(&[ROLE, &begins]);
    let good = stream(&[ROLE, &begins, &goes_on, finish, DONE]);
    let stack = Stack::made_of(amending(LlmAmend::new()), whole(), Scripted::new([cut(), good]));
    let got = stack.got(chat_stream()).await;
    let calls = got.reading.as_ref().map(|reading| reading.tool_calls.as_slice()).expect("a reading");
    assert_eq!(calls.iter().map(|call| call.arguments.as_str()).collect::<Vec<_>>(), [r#"{"q":"rust"}"#]);
    assert_eq!(got.text.matches("tool_calls\":[").count(), 2, "only the second attempt is handed on");

    // Where the call was handed on as it came, there is no second attempt to mix it with.
    let stack = Stack::new([cut()]);
    assert_eq!(stack.got(chat_stream()).await.broke(), Some(Reason::Cut));
}

/// tensorzero/tensorzero#3554: the gateway's own rate limit was an error to retry.
#[tokio::test(start_paused = true)]
async fn reported_26_a_refusal_of_our_own_is_final() {
    let hangs = service_fn(|_: Request<String>| std::future::pending::<Result<Response<BodyScript>, BoxError>>());
    let bulkhead = BulkheadLayer::new(BulkheadConfig::default().max_concurrent(1).max_queued(0));
    let retry = RetryLayer::new(RetryPolicy::default());
    let model = ServiceBuilder::new().layer(retry.clone()).layer(bulkhead).service(hangs);
    let start = Instant::now();
    let held = tokio::spawn(model.clone().oneshot(chat()));
    tokio::task::yield_now().await;
    let refused = timeout(MINUTE, model.clone().oneshot(chat())).await.expect("no wait").expect_err("a refusal");
    assert_eq!(refused.rejected().map(|it| it.code()), Some(Refusal::BulkheadFull));
    assert_eq!(
        (start.elapsed(), retry.budget_left()),
        (Duration::ZERO, 10),
        "nothing was waited for, and nothing spent"
    );
    held.abort();

    // The same for a gate that somebody else's throttle closed: the refusal behind it is not tried again.
    let stack = Stack::new([with_headers(429, &[("retry-after", "40")], THROTTLED)]);
    assert_eq!(stack.got(chat()).await.status, 429);
    let start = Instant::now();
    assert_eq!((stack.got(chat()).await.refused, start.elapsed()), (Some(Refusal::Gated), Duration::ZERO));
}
