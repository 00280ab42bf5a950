//! Asks a model one question through the stack, and prints one JSON object.
//!
//! ```sh
//! cargo run --all-features --example ask -- --provider openai --base-url http://127.0.0.1:8080/v1 --model m "Hi"
//! ```
//!
//! Exit status 0 when there is an answer, 1 when the call ended in a typed failure.

mod protocol;

use std::{process::ExitCode, sync::Arc, sync::atomic::Ordering, time::Duration};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt};
use tower_belay::{
    Call, Class, Effect, Error, Failure, LlmStack, LlmStackConfig, ProviderConfig, Reason, RetryPolicy, Verdict,
    WatchedBody,
    adapt::ReqwestService,
    classify::{RequestHead, classify_http},
    human::parse_duration,
    provider::{Answer, Delivery},
    wire::Reading,
};

use self::protocol::{Arguments, Provider};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let report = ask(&arguments).await?;
    println!("{report}");
    Ok(if report["ok"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn ask(arguments: &Arguments) -> Result<Value> {
    let idle = parse_duration(&arguments.idle_timeout).context("--idle-timeout")?;
    let delivery = if arguments.live || !arguments.stream { Delivery::Live } else { Delivery::Whole };
    let config = ProviderConfig::default().delivery(delivery).idle(idle).first_byte(Duration::from_secs(30));
    let policy = RetryPolicy::default().max_attempts(arguments.max_attempts).base(Duration::from_millis(400));
    let attempts = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = attempts.clone();

    // The endpoint is the user's own choice: it is known to ask a model and nothing more.
    let named = classify_http(|_: &RequestHead<'_>, call: Call| call.effect(Effect::ReadOnly));
    let config = LlmStackConfig::default().retry(policy).provider(config);
    let client = ServiceBuilder::new()
        .layer(LlmStack::try_new(config)?.classifier(named).validate(arguments.registry()?))
        .map_request(move |request: http::Request<Bytes>| {
            counted.fetch_add(1, Ordering::Relaxed);
            request
        })
        .service(ReqwestService::new(reqwest::Client::builder())?);

    let (verdict, answer) = match client.oneshot(arguments.request()?).await {
        Ok(response) => read(arguments.provider, response).await,
        Err(error) => (verdict_of(&error), None),
    };
    let Some(verdict) = verdict else { bail!("the call ended without a verdict") };
    Ok(report(&verdict, answer.unwrap_or_default(), attempts.load(Ordering::Relaxed)))
}

/// Reads an answer to its end, as text and as what the layers made of it.
async fn read(provider: Provider, response: Response<WatchedBody>) -> (Option<Verdict>, Option<(String, Reading)>) {
    let answer = response.extensions().get::<Answer>().cloned();
    let (mut body, mut bytes) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        match frame.map(|frame| frame.into_data()) {
            Ok(Ok(data)) => bytes.extend_from_slice(&data),
            Ok(Err(_)) => {}
            Err(error) => return (verdict_of(&error), None),
        }
    }
    let reading = answer.as_ref().and_then(Answer::reading).cloned().unwrap_or_default();
    (body.verdict(), Some((protocol::text(provider, &bytes), reading)))
}

fn verdict_of(error: &Error) -> Option<Verdict> {
    error.failure().map(|failure: &Failure| failure.verdict.clone())
}

fn report(verdict: &Verdict, (text, reading): (String, Reading), attempts: u32) -> Value {
    let calls: Vec<Value> = reading
        .tool_calls
        .iter()
        .map(|call| {
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
            json!({ "id": call.id, "name": call.name, "arguments": arguments })
        })
        .collect();
    let usage = verdict.usage().map(|usage| json!({ "input": usage.input_tokens, "output": usage.output_tokens }));
    json!({
        "ok": verdict.is_success(),
        "text": text,
        "tool_calls": calls,
        "finish_reason": reading.finish_reason.map(|word| word.to_string()),
        "usage": usage,
        "outcome": outcome(verdict.reason),
        "reason": verdict.reason.code(),
        "attempts": attempts,
    })
}

fn outcome(reason: Reason) -> &'static str {
    match reason.class() {
        Class::Success => "success",
        Class::Failed => "failed",
        Class::Unknown => "unknown",
        Class::Denied => "denied",
        Class::Malformed => "malformed",
        Class::RateLimited => "rate_limited",
    }
}
