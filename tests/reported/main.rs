//! What went wrong elsewhere, and does not here. Each test is named for the number of its report.
//!
//! All of it goes through the layers as an application stacks them, over a provider that answers by script: a request
//! too many finds no step left and fails its test.

mod breaker;
mod bulkhead;
mod classification;
mod retry;

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use tower::{ServiceBuilder, ServiceExt, util::BoxCloneSyncService};
use tower_belay::{
    BulkheadConfig, BulkheadLayer, Call, Effect, Error, Failure, IdentifyLayer, ProviderConfig, ProviderLayer, Reason,
    Refusal, RetryLayer, RetryPolicy, SemanticBreakerLayer, TimeoutConfig, TimeoutLayer, TripCard, Verdict,
    WatchedBody,
    provider::Answer,
    semantic_breaker::{BreakerHandle, Circuit, Counts, Snapshot, State},
    testing::{BodyScript, Scripted, Step},
    wire::{LlmAmend, Reading},
};

type Plant = Scripted<Request<String>, Response<BodyScript>>;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const GOOD: &str =
    r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}]}"#;
const EMPTY: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null},"finish_reason":"stop"}]}"#;

// ===== requests =====

fn post(uri: &str, body: &str) -> Request<String> {
    let request = Request::post(uri).header("content-type", "application/json").header("authorization", "Bearer one");
    request.body(body.to_owned()).expect("a request")
}

/// A question in OpenAI chat.
fn chat() -> Request<String> {
    let body =
        r#"{"model":"gpt-5","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]}"#;
    post("https://api.openai.com/v1/chat/completions", body)
}

/// The same, to be streamed.
fn chat_stream() -> Request<String> {
    let body = r#"{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"Hi"}]}"#;
    post("https://api.openai.com/v1/chat/completions", body)
}

/// A question in Anthropic Messages.
fn messages() -> Request<String> {
    let body = r#"{"model":"claude","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}"#;
    post("https://api.anthropic.com/v1/messages", body)
}

// ===== answers =====

fn json(status: u16, body: &str) -> Step<Response<BodyScript>> {
    with_headers(status, &[], body)
}

fn with_headers(status: u16, headers: &[(&str, &str)], body: &str) -> Step<Response<BodyScript>> {
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    Step::answer(response.body(BodyScript::new().data(body.to_owned())).expect("a response"))
}

/// A stream of these events, each in a frame of its own, with a clean end.
fn stream(events: &[&str]) -> Step<Response<BodyScript>> {
    streamed(events.iter().fold(BodyScript::new(), |body, event| body.data(format!("{event}\n\n"))))
}

fn streamed(body: BodyScript) -> Step<Response<BodyScript>> {
    Step::answer(Response::builder().header("content-type", "text/event-stream").body(body).expect("a response"))
}

// ===== the layers =====

/// The layers of a model call over a scripted provider.
struct Stack {
    model: BoxCloneSyncService<Request<String>, Response<WatchedBody>, Error>,
    plant: Plant,
    breaker: BreakerHandle,
}

impl Stack {
    /// With everything at its default.
    fn new(steps: impl IntoIterator<Item = Step<Response<BodyScript>>>) -> Self {
        Self::over(Scripted::new(steps))
    }

    fn over(plant: Plant) -> Self {
        Self::made_of(RetryLayer::new(RetryPolicy::default()).amend(LlmAmend::new()), ProviderConfig::default(), plant)
    }

    /// Every call goes once.
    fn once(plant: Plant) -> Self {
        Self::made_of(RetryLayer::new(RetryPolicy::off()).amend(LlmAmend::new()), ProviderConfig::default(), plant)
    }

    fn made_of(retry: RetryLayer<tower_belay::Auto, LlmAmend>, provider: ProviderConfig, plant: Plant) -> Self {
        let breaker = SemanticBreakerLayer::new(TripCard::default());
        let handle = breaker.handle();
        let model = ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(retry)
            .layer(BulkheadLayer::new(BulkheadConfig::default().max_concurrent(1_000)))
            .layer(breaker)
            .layer(TimeoutLayer::new(TimeoutConfig::default()))
            .layer(ProviderLayer::new(provider))
            .service(plant.clone());
        Self { model: BoxCloneSyncService::new(model), plant, breaker: handle }
    }

    async fn ask(&self, request: Request<String>) -> Result<Response<WatchedBody>, Error> {
        self.model.clone().oneshot(request).await
    }

    /// Asks, and reads the answer to its end.
    async fn got(&self, request: Request<String>) -> Got {
        match self.ask(request).await {
            Ok(response) => Got::read(response).await,
            Err(error) => Got { refused: error.rejected().map(|it| it.code()), ..Got::nothing(Err(error)) },
        }
    }

    /// The bodies of the requests that came, as JSON.
    fn asked(&self) -> Vec<serde_json::Value> {
        let body = |request: &Request<String>| serde_json::from_str(request.body()).expect("a JSON body");
        self.plant.take_requests().iter().map(body).collect()
    }

    fn counts(&self, call: &Call, circuit: Circuit) -> Counts {
        self.snapshot(call, circuit).map_or_else(Counts::default, |it| it.counts)
    }

    fn snapshot(&self, call: &Call, circuit: Circuit) -> Option<Snapshot> {
        self.breaker.snapshots(call).into_iter().find(|it| it.circuit == circuit)
    }
}

/// What a caller got.
#[derive(Debug)]
struct Got {
    status: u16,
    /// The answer as far as it came.
    text: String,
    end: Result<(), Error>,
    refused: Option<Refusal>,
    verdict: Option<Verdict>,
    reading: Option<Reading>,
}

impl Got {
    fn nothing(end: Result<(), Error>) -> Self {
        let verdict = end.as_ref().err().and_then(Error::failure).map(|failure| failure.verdict.clone());
        Self { status: 0, text: String::new(), end, refused: None, verdict, reading: None }
    }

    async fn read(response: Response<WatchedBody>) -> Self {
        let (head, mut body) = response.into_parts();
        let mut got = Self { status: head.status.as_u16(), ..Self::nothing(Ok(())) };
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => got.text.push_str(str::from_utf8(frame.data_ref().expect("data")).expect("text")),
                Err(error) => got.end = Err(error),
            }
        }
        got.verdict = body.verdict();
        got.reading = head.extensions.get::<Answer>().and_then(Answer::reading).cloned();
        got
    }

    fn reason(&self) -> Option<Reason> {
        self.verdict.as_ref().map(|verdict| verdict.reason)
    }

    /// Why the answer broke off, if it did.
    fn broke(&self) -> Option<Reason> {
        self.end.as_ref().err().and_then(Error::failure).map(Failure::reason)
    }
}

/// The call that [`chat`] is.
fn gpt() -> Call {
    Call::to("api.openai.com").operation("gpt-5").credential_secret(b"Bearer one").effect(Effect::ReadOnly)
}

fn state(stack: &Stack) -> State {
    stack.breaker.state(&gpt())
}
