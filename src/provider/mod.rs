//! Reads what a model provider answers, and judges it before it is handed on.
//!
//! A status says little about a model's answer: a 200 can carry an error, a stream can break off, an answer can be
//! empty or ended by a token limit. [`Provider`] reads OpenAI chat, OpenAI Responses, Anthropic Messages, Gemini and Cohere v2 as they
//! pass, and every layer outside it learns from [`WatchedBody`](crate::WatchedBody) how the answer ended.
//!
//! - **Errors and JSON** are read as a whole, within bounds, and judged before they are handed on.
//! - **Streams** are held back to their first visible output (reasoning counts) or their first error, at most 64 KiB
//!   and 1 s after the first event; then they are live. With [`Delivery::Whole`] they are collected first.
//! - **A stream that breaks off** is an error: of the call if nothing was handed on, else for the reader of its body.
//! - **Silence** ends in a timeout: before the first byte, and within the answer.
//! - **Usage**: where the host is known to accept it, a stream that would not report its usage is asked to, and the
//!   chunk that the client did not ask for is kept from it.
//!
//! The body reaches the caller as it came, trailers included, whatever the verdict. What is too large, encoded or of no
//! known protocol is judged by its status; gRPC passes, and is judged by its own status. What was read is an [`Answer`]
//! in the extensions of the response.
//!
//! # When an answer is over
//!
//! At its terminator, and what comes behind it changes nothing; in the chat protocol also where the body ends, however it
//! ends, after a finish reason. After the terminator or an error the rest is waited for one second at most. An error
//! before the first visible output is an answer with a failing verdict; after it, the reader gets all bytes and then the
//! error.
//!
//! # Where it belongs
//!
//! Innermost, directly around the client: every other layer then sees the end of an answer and not only its head.
//!
//! # Errors
//!
//! A [`Failure`](crate::Failure) with [`Reason::Timeout`](crate::Reason::Timeout) or
//! [`Reason::Cut`](crate::Reason::Cut) where there is no answer to hand on. Errors of the client pass unchanged.
//! Dropping the future or the body at any point leaves nothing behind.
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use http_body_util::BodyExt;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_belay::{Reason, provider::{Answer, ProviderConfig, ProviderLayer}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_belay::Error> {
//! const WHOLE: &str = r#"{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
//! const CUT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"H\"}}]}\n\n";
//!
//! let mut client = ServiceBuilder::new().layer(ProviderLayer::new(ProviderConfig::default())).service(
//!     service_fn(|request: Request<String>| async move {
//!         let answer = if request.body().contains("stream") { CUT } else { WHOLE };
//!         Ok::<_, Infallible>(Response::new(http_body_util::Full::new(bytes::Bytes::from(answer))))
//!     }),
//! );
//! let ask = |body: &str| Request::post("http://127.0.0.1/v1/chat/completions").body(body.to_owned()).unwrap();
//!
//! let answer = client.ready().await?.call(ask("{}")).await?;
//! assert_eq!(answer.body().verdict().map(|verdict| verdict.reason), Some(Reason::Completed));
//! assert!(answer.extensions().get::<Answer>().and_then(Answer::reading).is_some());
//!
//! // A stream without its terminator does not end cleanly for its reader.
//! let stream = client.ready().await?.call(ask(r#"{"stream":true}"#)).await?;
//! let cut = stream.into_body().collect().await.unwrap_err();
//! assert_eq!(cut.failure().map(|failure| failure.reason()), Some(Reason::Cut));
//! # Ok(())
//! # }
//! ```

mod clock;
mod config;
mod future;
mod held;
mod hide;
mod intake;
mod layer;
mod meter;
mod mode;
mod reader;
mod service;
#[cfg(test)]
mod tests;

pub use config::{Delivery, IncludeUsage, ProviderConfig};
pub use future::ResponseFuture;
pub use layer::ProviderLayer;
pub use meter::Answer;
pub(crate) use meter::KeepText;
pub use service::Provider;
