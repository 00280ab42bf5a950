//! The recommended layers in the recommended order, from one configuration: [`LlmStack`].
//!
//! ```text
//! identify → retry → rate limit → bulkhead → semantic breaker → semantic validator → timeout → provider → client
//! ```
//!
//! Each part is the layer of that name with its own configuration, and may be left out; what each refuses is said there.
//! What only code can say is set on the stack: names and effects by a [`classifier`](LlmStack::classifier), how a
//! request is changed for another attempt by [`amend`](LlmStack::amend).
//!
//! A fallback and whatever answers clients stand around the stack, in the same `ServiceBuilder`. Its state is shared by
//! all its clones and services; a [`LlmHandle`] reads and changes it.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use tower::{Layer, Service, ServiceExt, service_fn};
//! use tower_belay::{Refusal, Scope, TripCard, WatchedBody, coverage::Part};
//! use tower_belay::stack::{LlmStack, LlmStackConfig, Setting};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let config: LlmStackConfig = toml::from_str("[retry]\nmax_attempts = 2\nbudget_percent = 100")?;
//! let stack = LlmStack::try_new(config)?;
//! let handle = stack.handle();
//! handle.coverage().assert_guarded(&[Part::Retry, Part::Bulkhead, Part::SemanticBreaker, Part::Timeout]);
//!
//! // A model that is down. In its place goes reqwest or hyper.
//! let mut model = stack.layer(service_fn(|request: Request<String>| async move {
//!     let status = if request.body().contains("well") { 200 } else { 503 };
//!     let said = r#"{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
//!     Ok::<_, Infallible>(Response::builder().status(status).body(WatchedBody::from(said.to_owned())).unwrap())
//! }));
//! let ask = |model: &str| {
//!     let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"Hi"}}]}}"#);
//!     Request::post("https://api.openai.com/v1/chat/completions").body(body)
//! };
//! assert_eq!(model.ready().await?.call(ask("well")?).await?.status(), 200);
//! for _ in 0..2 {
//!     assert_eq!(model.ready().await?.call(ask("ill")?).await?.status(), 503);
//! }
//! // Two calls were four attempts, all failed. Of the third call one is sent, and the breaker opens before its second.
//! let refused = model.ready().await?.call(ask("ill")?).await.unwrap_err();
//! assert_eq!(refused.rejected().map(|refused| refused.code()), Some(Refusal::Open));
//! assert_eq!(handle.breaker().map(|breaker| breaker.unhealthy()), Some(1));
//! # Ok(())
//! # }
//! ```

mod config;
mod handle;
mod layer;
mod setting;
#[cfg(test)]
mod tests;

pub use config::LlmStackConfig;
pub use handle::LlmHandle;
pub use layer::{LlmService, LlmStack};
pub use setting::Setting;
