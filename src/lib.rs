//! Tower layers that keep an LLM agent inside hard limits.
//!
//! The model proposes; code decides what is permitted. Each layer is deterministic, spends no token, works alone, and
//! stands between the agent and something it could damage: a provider, a tool, a budget, a file.
//!
//! ```text
//!        model calls                              tool calls
//!             │                                        │
//!      RespondLayer           on servers: errors become answers
//!      IdentifyLayer          names the call once      IdentifyLayer
//!      FallbackLayer          answers in its place     FallbackLayer
//!             │               no going in circles      LoopDetectorLayer
//!      RetryLayer             attempts it again        RetryLayer
//!      TokenBudgetLayer       reserves, then books     TokenBudgetLayer
//!      RateLimitLayer         keeps to a rate          RateLimitLayer
//!      BulkheadLayer          waits for its turn       BulkheadLayer
//!      SemanticBreakerLayer   sends it or refuses it   SemanticBreakerLayer
//!      SemanticValidatorLayer looks at the answer          │
//!      TimeoutLayer           gives it so much time    TimeoutLayer
//!      ProviderLayer          reads the answer              │
//!             │                                        │
//!   reqwest, hyper, tonic                    a closure, HTTP, gRPC
//! ```
//!
//! Any subset works, in this order.
//!
//! # Choose by symptom
//!
//! | what happens | what to put there |
//! |---|---|
//! | a provider or tool is down, and the agent goes on calling it | [`SemanticBreakerLayer`]: definite failures |
//! | answers come with a 200 and cannot be used: empty, ended by a token limit, broken | [`ProviderLayer`] reads them, the breaker counts them apart |
//! | a stream breaks off and looks as if it had ended | [`ProviderLayer`]: its reader gets an error |
//! | a stream stalls, or nothing comes at all | [`ProviderLayer`]: its two timeouts |
//! | an answer comes, but takes for ever | [`TimeoutLayer`]: the whole call, to its answer's end |
//! | a write timed out, nobody knows whether it was applied, and the next one comes | [`SemanticBreakerLayer`]: unknown writes |
//! | an agent is denied, rewords and tries again | [`SemanticBreakerLayer`]: denials block the actor, not the target |
//! | everything runs into the same 429, or uses up a dead key | [`SemanticBreakerLayer`]: rate limits and credential |
//! | two routes or two models should not share a breaker, or should | [`classify_http`], [`classify_fn`]: names; [`TripCard`]: scopes |
//! | a write must stay stopped until somebody looked | [`BreakerHandle`]: `pending_writes`, `reconciled` |
//! | a call fails now and then, and would not the next time | [`RetryLayer`]: by reason, within a budget |
//! | an answer is empty, too long or breaks its schema | [`RetryLayer::amend`], with [`LlmAmend`] for models |
//! | a run, resumed or repeated, sends the same write again | [`IdempotencyLayer`]: the first answer, or a refusal |
//! | a model invents tools and arguments, or answers with prose where JSON was asked for | [`SemanticValidatorLayer`] |
//! | an account may send so much in a minute, and no more | [`RateLimitLayer`]: requests and tokens, waited for in turn |
//! | a model is down and another would do, or an honest line | [`FallbackLayer`] |
//! | a run, a kind of agent or a tenant spends without end | [`TokenBudgetLayer`]: tokens, money, tool calls, time |
//! | an agent is cut off in the middle of its work | [`TokenBudgetLayer::amend`]: told to finish while there is still room |
//! | an agent makes the same call over and over, or goes in circles | [`LoopDetectorLayer`]: warns, refuses, ends the run |
//! | an agent polls a tool as fast as it can, and should | [`Pollable`]: paced, and for so long |
//! | one kind of agent takes all connections, and the others wait for it | [`BulkheadLayer`]: limits and a queue a class |
//! | all must stop now | [`BreakerHandle`]: `kill` |
//! | first see what would be refused | [`SemanticBreakerLayer::dry_run`] |
//! | axum and tonic want a service that cannot fail | [`RespondLayer`] |
//! | the model should hear why a call was not sent | [`Rejected::model_text`] |
//! | all of it at once, from a configuration file | [`LlmStack`] |
//! | nobody knows whether the layers are in the right order | [`coverage`] |
//! | reqwest, under `http` types or in a middleware chain | [`adapt`] |
//!
//! # Three minutes
//!
#![cfg_attr(feature = "wire", doc = "```")]
#![cfg_attr(not(feature = "wire"), doc = "```ignore")]
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_belay::{
//!     Call, IdentifyLayer, ProviderConfig, ProviderLayer, Refusal, SemanticBreakerLayer, TripCard, WatchedBody,
//!     semantic_breaker::State,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! // A model that answers with a 200, and nothing in it. In its place goes reqwest, hyper or tonic.
//! let client = service_fn(|_: Request<String>| async {
//!     let nothing = r#"{"choices":[{"index":0,"message":{"content":""},"finish_reason":"stop"}]}"#;
//!     Ok::<_, Infallible>(Response::new(WatchedBody::from(nothing.to_owned())))
//! });
//! let breaker = SemanticBreakerLayer::new(TripCard::default());
//! let handle = breaker.handle();
//! let mut model = ServiceBuilder::new()
//!     .layer(IdentifyLayer::new())
//!     .layer(breaker)
//!     .layer(ProviderLayer::new(ProviderConfig::default()))
//!     .service(client);
//!
//! let ask = || {
//!     let body = r#"{"model":"gpt-5","messages":[{"role":"user","content":"Hi"}]}"#;
//!     Request::post("https://api.openai.com/v1/chat/completions").body(body.to_owned())
//! };
//! for _ in 0..5 {
//!     assert_eq!(model.ready().await?.call(ask()?).await?.status(), 200);
//! }
//! // Five unusable answers of the last twenty: the sixth call is not sent.
//! let error = model.ready().await?.call(ask()?).await.unwrap_err();
//! let refused = error.rejected().ok_or("a refusal")?;
//! assert_eq!(refused.code(), Refusal::Degraded);
//! assert!(refused.model_text().starts_with("The call was not sent."));
//!
//! // An operator sees why, and may decide otherwise.
//! let gpt = Call::to("api.openai.com").operation("gpt-5");
//! assert_eq!(handle.state(&gpt), State::Open);
//! handle.reset(&gpt);
//! assert!(model.ready().await?.call(ask()?).await.is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! What is not HTTP is told in a closure:
//! `SemanticBreakerLayer::new(card).classifier(classify_fn(|_| Call::to("crm").effect(Effect::ReadOnly)))`.
//!
//! # Rooms and features
//!
//! | room | feature | what is in it |
//! |---|---|---|
//! | [`semantic_breaker`] | | stops calls to what is failing |
//! | [`retry`] | | attempts a failed call again, where that can help and can do no harm |
//! | [`amend`] | | changes a request so that it fares better |
//! | [`fallback`] | | answers by something else where a call came to nothing |
//! | [`rate_limit`] | | keeps calls to a rate of requests and tokens |
//! | [`token_budget`] | | ends a run before it has spent more than it may |
//! | [`bulkhead`] | | limits how many calls of an agent class run at a time |
//! | [`idempotency`] | | sends each write once |
//! | [`loop_detector`] | | warns, refuses and ends runs that go in circles |
//! | [`timeout`] | | ends a call whose answer takes too long, head and body |
//! | [`identify`] | | says once what a request is |
//! | [`respond`] | | errors as HTTP problems and gRPC statuses |
//! | [`classify`] | | what a request is and what came of it: [`Auto`] for HTTP and gRPC, closures for the rest |
//! | [`reason`] | | the closed list of outcomes, and what each means to a breaker and to a retry |
//! | [`body`] | | a body that tells how its answer ended |
//! | [`events`] | | what layers tell the outside, beside `tracing` events and `metrics` counters |
//! | [`human`] | | durations in configurations: `"10m"` |
//! | [`coverage`] | | which layers a stack has, and what is wrong with their order |
//! | [`stack`] | `wire` (default) | the recommended layers in the recommended order, from one configuration |
//! | [`adapt`] | `reqwest`, `reqwest-middleware`, `tonic` | clients below, middleware around, `tonic::Status` above |
//! | [`provider`] | `wire` (default) | reads what a model answers, and judges it before it is handed on |
//! | [`wire`] | `wire` (default) | what models answer in five protocols, read without a tree |
//! | [`semantic_validator`] | `wire` (default), `syntax` | holds a model's answer to what it has to be |
//! | [`registry`] | `jsonschema`, `schemars` | the tools there are, and whether a call to one can be carried out |
//! | [`testing`] | `testing` | scripted services and bodies for your own tests |
//!
//! # Conventions
//!
//! - **A verdict is not a status.** What came of a call is a [`Reason`], drawn at the *end* of its answer; the table
//!   of [`Reason`] is the one truth about what it means. A 200 can be a failure, and a 500 to a write is *unknown*: it
//!   may have been applied. What nobody called `ReadOnly` is treated as a write.
//! - **Errors.** Layers take any error that goes into a box and give [`Error`]: a [`Failure`] was judged, a
//!   [`Rejected`] was *not sent*. Both are found below other layers' errors, and [`Error::find`] finds your own.
//! - **Cancelling.** A future or a body may be dropped at any point: what it held is settled once.
//! - **State** lives in the layer: its clones, its services and all their connections share it. Keep the layer, or
//!   its handle, in a variable, and make one of each.
//! - **Names** come from code, from the URI and from an API key's hash, never from other headers. All three are the
//!   caller's own on the way out. On a server they are its client's: a request names no target, or with HTTP/2 and in
//!   absolute form whatever the client says, and brings any key it likes. There, name all of them with
//!   [`classify_http`], and a tenant (see the example of [`respond`]).
//! - **Time** is tokio's, so that tests may pause it. No layer starts a task or holds a lock across an await.
//! - **Configurations** are plain structs with defaults, setters and serde; `try_new` says which value is impossible.
//!
#![cfg_attr(feature = "wire", doc = "[`LlmAmend`]: wire::LlmAmend")]
#![cfg_attr(not(feature = "wire"), doc = "[`LlmAmend`]: #rooms-and-features")]
#![cfg_attr(not(feature = "wire"), doc = "[`ProviderLayer`]: #rooms-and-features")]
#![cfg_attr(not(feature = "wire"), doc = "[`provider`]: #rooms-and-features")]
#![cfg_attr(not(feature = "wire"), doc = "[`LlmStack`]: #rooms-and-features")]
#![cfg_attr(not(feature = "wire"), doc = "[`stack`]: #rooms-and-features")]
#![cfg_attr(not(feature = "jsonschema"), doc = "[`registry`]: #rooms-and-features")]
#![cfg_attr(not(feature = "wire"), doc = "[`SemanticValidatorLayer`]: #rooms-and-features")]
#![cfg_attr(not(feature = "wire"), doc = "[`semantic_validator`]: #rooms-and-features")]
#![cfg_attr(not(feature = "wire"), doc = "[`wire`]: #rooms-and-features")]
#![cfg_attr(not(feature = "testing"), doc = "[`testing`]: #rooms-and-features")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapt;
pub mod amend;
pub mod body;
pub mod bulkhead;
mod call;
pub mod classify;
mod config_error;
pub mod coverage;
mod error;
pub mod events;
pub mod fallback;
pub mod human;
pub mod idempotency;
pub mod identify;
mod keyed;
mod lock;
pub mod loop_detector;
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub mod provider;
pub mod rate_limit;
pub mod reason;
#[cfg(feature = "jsonschema")]
#[cfg_attr(docsrs, doc(cfg(feature = "jsonschema")))]
pub mod registry;
pub mod respond;
pub mod retry;
pub mod semantic_breaker;
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub mod semantic_validator;
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub mod stack;
mod teller;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
pub mod timeout;
pub mod token_budget;
mod tool;
mod verdict;
mod violation;
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub mod wire;

pub use body::WatchedBody;
pub use bulkhead::{BulkheadConfig, BulkheadLayer};
pub use call::{ActionId, Call, Effect, Name, Scope};
pub use classify::{Auto, classify_fn, classify_http};
pub use config_error::ConfigError;
pub use error::{Advice, Error, Failure, Refusal, Rejected};
pub use fallback::{FallbackConfig, FallbackLayer};
pub use idempotency::{IdempotencyConfig, IdempotencyLayer};
pub use identify::IdentifyLayer;
pub use loop_detector::{LoopDetectorLayer, LoopPolicy};
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub use provider::{ProviderConfig, ProviderLayer};
pub use rate_limit::{RateLimitConfig, RateLimitLayer};
pub use reason::{Class, Impact, Reason, Retry};
#[cfg(feature = "jsonschema")]
#[cfg_attr(docsrs, doc(cfg(feature = "jsonschema")))]
pub use registry::{Registry, Tool};
pub use respond::RespondLayer;
pub use retry::{RetryLayer, RetryPolicy};
pub use semantic_breaker::{BreakerHandle, SemanticBreakerLayer, TripCard};
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub use semantic_validator::SemanticValidatorLayer;
#[cfg(feature = "wire")]
#[cfg_attr(docsrs, doc(cfg(feature = "wire")))]
pub use stack::{LlmStack, LlmStackConfig};
pub use timeout::{TimeoutConfig, TimeoutLayer};
pub use token_budget::{Budget, BudgetHandle, TokenBudgetLayer};
pub use tool::{Pollable, ToolCall, ToolOutput};
pub use verdict::{Usage, Verdict};
pub use violation::{Violation, Violations};

/// The snippets of the README compile.
#[cfg(all(doctest, feature = "wire", feature = "reqwest"))]
#[doc = include_str!("../README.md")]
struct Readme;
