//! Feeds recorded exchanges through `ProviderLayer`, from a service that answers with the recorded response.

use std::{
    collections::VecDeque,
    convert::Infallible,
    error::Error,
    io::{BufRead, Write},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_belay::{
    Name, Reason, Verdict, WatchedBody,
    classify::{Auto, Classify},
    provider::{Answer, ProviderConfig, ProviderLayer},
    wire::{FinishReason, Reading, ToolCallRead},
};

#[derive(Deserialize)]
struct Exchange {
    id: Value,
    request: Recorded,
    response: Recorded,
}

#[derive(Deserialize)]
struct Recorded {
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: Value,
}

impl Recorded {
    fn bytes(&self) -> Bytes {
        match &self.body {
            Value::Null => Bytes::new(),
            Value::String(text) => text.clone().into(),
            value => value.to_string().into(),
        }
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }
}

pub(crate) async fn run(chunk: usize) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if !line.trim().is_empty() {
            writeln!(out, "{}", read(serde_json::from_str(&line)?, chunk).await?)?;
        }
    }
    Ok(())
}

async fn read(exchange: Exchange, chunk: usize) -> Result<Value, Box<dyn Error>> {
    let Exchange { id, request: asked, response: answered } = exchange;
    let host = asked.host.as_deref().unwrap_or("provider.example");
    let mut request = Request::builder()
        .method(asked.method.as_deref().unwrap_or("POST"))
        .uri(format!("https://{host}{}", asked.path.as_deref().unwrap_or("/")));
    for (name, value) in asked.headers() {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(asked.bytes()))?;
    let call = Auto.classify(&request);

    let provider = service_fn(move |_: Request<Full<Bytes>>| {
        let mut response = Response::builder().status(answered.status.unwrap_or(200));
        for (name, value) in answered.headers() {
            response = response.header(name, value);
        }
        let response = response.body(Chunks::cut(answered.bytes(), chunk)).expect("recorded headers are valid");
        async move { Ok::<_, Infallible>(response) }
    });
    let client = ServiceBuilder::new().layer(ProviderLayer::new(ProviderConfig::default())).service(provider);
    let (verdict, answer) = match client.oneshot(request).await {
        Ok(response) => to_the_end(response).await,
        Err(error) => (error.failure().map(|failure| failure.verdict.clone()), None),
    };
    let verdict = verdict.unwrap_or(Reason::Abandoned.into());
    let reading = answer.as_ref().and_then(Answer::reading).cloned().unwrap_or_default();
    Ok(describe(id, &verdict, &reading, call.name(Name::Operation)))
}

async fn to_the_end(response: Response<WatchedBody>) -> (Option<Verdict>, Option<Answer>) {
    let answer = response.extensions().get::<Answer>().cloned();
    let mut body = response.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    (body.verdict(), answer)
}

fn describe(id: Value, verdict: &Verdict, reading: &Reading, asked: Option<&str>) -> Value {
    let wait = verdict.retry_at.map(|at| at.saturating_duration_since(Instant::now()).as_millis() as u64);
    let finish_reason = match &reading.finish_reason {
        Some(FinishReason::Number(number)) => json!(number),
        Some(word) => json!(word.to_string()),
        None => Value::Null,
    };
    let usage = verdict.usage().map(|usage| {
        json!({
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "cached_input_tokens": usage.cached_input_tokens,
            "cache_write_input_tokens": usage.cache_write_input_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        })
    });
    json!({
        "id": id,
        "outcome": outcome(verdict.reason),
        "retry_after_ms": wait,
        "model": reading.model.as_deref().or(asked),
        "finish_reason": finish_reason,
        "usage": usage,
        "tool_calls": reading.tool_calls.iter().map(tool_call).collect::<Vec<_>>(),
    })
}

fn tool_call(call: &ToolCallRead) -> Value {
    let text = call.arguments.trim();
    // No arguments are an empty object; text that is no JSON stays as it is.
    let arguments = match text {
        "" => json!({}),
        text => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
    };
    json!({ "id": call.id, "name": call.name, "arguments": arguments })
}

/// The judge's words, which know only what a provider states: an empty answer is a success to them.
fn outcome(reason: Reason) -> &'static str {
    match reason {
        Reason::Completed | Reason::Paused | Reason::Accepted | Reason::EmptyAnswer => "success",
        Reason::RateLimited => "rate_limited",
        Reason::QuotaExhausted | Reason::NotEntitled => "quota_exhausted",
        Reason::Unauthenticated | Reason::PermissionDenied | Reason::CrossTenant => "denied",
        Reason::ContextOverflow => "context_overflow",
        Reason::ContentFiltered | Reason::Refused | Reason::PolicyDenied => "content_filtered",
        Reason::OutputLimit | Reason::Cut => "truncated",
        Reason::Overloaded | Reason::WarmingUp => "overloaded",
        Reason::InvalidRequest | Reason::NotFound | Reason::Conflict => "invalid_request",
        Reason::Unparsable
        | Reason::SchemaViolation
        | Reason::BadArguments
        | Reason::UnknownTool
        | Reason::ToolCallInvalid => "malformed",
        _ => "server_error",
    }
}

/// A body that comes in pieces.
struct Chunks(VecDeque<Bytes>);

impl Chunks {
    fn cut(mut whole: Bytes, size: usize) -> Self {
        let mut pieces = VecDeque::new();
        while size > 0 && whole.len() > size {
            pieces.push_back(whole.split_to(size));
        }
        pieces.push_back(whole);
        Self(pieces)
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}
