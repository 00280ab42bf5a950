//! Holds a model's answer to what it has to be, before anything is done with it.
//!
//! A model calls tools that do not exist, with arguments that do not parse or break their schema; it answers with prose
//! where JSON was asked for, or with code that does not parse. Such an answer is a [`Failure`](crate::Failure) of class
//! `malformed`: it is not handed on, a retry feeds back what was wrong with it, and the breaker counts it.
//!
//! | validator | feature | the answer |
//! |---|---|---|
//! | `Registry` | `jsonschema` | calls tools that exist, with arguments that match their schemas |
//! | `Mending` | `jsonschema` | the same, and what can only have been meant in one way passes |
//! | [`JsonText`] | | is one JSON value |
//! | [`BalancedFences`] | | closes every code fence |
//! | [`Density`] | | has a term at most so often in a thousand words |
//! | `Parses` | `syntax` | has code that parses: Rust, Python, JavaScript, TypeScript, JSON, SQL, Bash |
//! | [`validate_fn`] | | is what a closure says |
//!
//! Several are put together as a tuple or a list. Each may give a [score](Validate::score) to answers that pass, which
//! the breaker's quality rule watches.
//!
//! An answer that was read whole, JSON or a stream with [`Delivery::Whole`](crate::provider::Delivery), is looked at
//! before it is handed on: the call ends in the error. A live stream is looked at when it is over: its reader gets the
//! error instead of a clean end, and must not act on what came before. The tokens of a failed answer are in its verdict.
//!
//! What could not be read (encoded, too long, several choices) fails where a model was asked: it cannot be vouched for. An
//! answer that is known to be bad passes with its verdict, unless it has tool calls: those that a token limit cut must never
//! run. Answers with an error status pass, as they were judged already; so does whatever is no answer of a model.
//!
//! # Where it belongs
//!
//! Inside of the breaker, which otherwise takes such answers for good ones; outside of the timeout and of
//! [`ProviderLayer`](crate::ProviderLayer), which reads them: without it every answer of a model fails.
//!
//! # Errors
//!
//! A [`Failure`](crate::Failure) with the reason `unknown_tool`, `bad_arguments`, `schema_violation` or what a closure
//! says. Its source are the [`Violations`](crate::Violations), its verdict's [`note`](crate::Verdict::note) their text:
//! at most 500 bytes of our own words and facts of the schema. Dropping the future or the body leaves nothing behind.
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_belay::{ProviderConfig, ProviderLayer, Reason, SemanticValidatorLayer, WatchedBody};
//! use tower_belay::semantic_validator::JsonText;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! let mut model = ServiceBuilder::new()
//!     .layer(SemanticValidatorLayer::new(JsonText))
//!     .layer(ProviderLayer::new(ProviderConfig::default()))
//!     .service(service_fn(|request: Request<String>| async move {
//!         let text = if request.body().contains("nicely") { r#"{\"price\":7}"# } else { "About seven." };
//!         let answer = r#"{"choices":[{"index":0,"message":{"content":"TEXT"},"finish_reason":"stop"}]}"#;
//!         Ok::<_, Infallible>(Response::new(WatchedBody::from(answer.replace("TEXT", text))))
//!     }));
//! let ask = |how: &str| Request::post("http://127.0.0.1/v1/chat/completions").body(format!(r#"{{"how":"{how}"}}"#)).unwrap();
//!
//! assert_eq!(model.ready().await?.call(ask("nicely")).await?.status(), 200);
//! let failed = model.ready().await?.call(ask("badly")).await.unwrap_err();
//! let failure = failed.failure().unwrap();
//! assert_eq!(failure.reason(), Reason::SchemaViolation);
//! assert_eq!(failure.verdict.note(), Some("The answer must be one JSON value and nothing around it."));
//! # Ok(())
//! # }
//! ```

mod config;
mod future;
mod judge;
mod layer;
mod service;
#[cfg(feature = "syntax")]
mod syntax;
#[cfg(test)]
mod tests;
mod text;
#[cfg(feature = "jsonschema")]
mod tools;
mod validate;

pub use config::ValidatorConfig;
pub use future::ResponseFuture;
pub use layer::SemanticValidatorLayer;
pub use service::SemanticValidator;
#[cfg(feature = "syntax")]
#[cfg_attr(docsrs, doc(cfg(feature = "syntax")))]
pub use syntax::Parses;
pub use text::{BalancedFences, Density, JsonText};
#[cfg(feature = "jsonschema")]
#[cfg_attr(docsrs, doc(cfg(feature = "jsonschema")))]
pub use tools::Mending;
pub use validate::{Answered, Validate, ValidateFn, validate_fn};

/// The layer's name in metrics.
const LAYER: &str = "semantic_validator";
