//! Says once what a request is, so that every layer inside sees the same [`Call`](crate::Call).
//!
//! - It builds the call with its classifier, [`Auto`](crate::Auto) unless
//!   [`classifier`](IdentifyLayer::classifier) replaces it, and attaches it to the request.
//! - A call that is attached already stays what it is.
//! - It refuses nothing and repairs nothing: response, error and future are the inner ones.
//!
//! It belongs outermost. The names then come from the request as it arrived, before anybody changed it; what an
//! attempt is, which deadline it has and which action it belongs to is carried from layer to layer with the call;
//! and a request is read once, not once a layer. Layers work without it, but each of them reads the request again.
//!
//! A body is read only where it lies in memory as a whole, and then all of it, on the caller's thread: 0.5 to 10 ms for
//! a megabyte, by what is in it. Whoever takes bodies from strangers limits their length outside of this layer.
//!
//! A request type that cannot carry a call (whatever [`Classify::attach`](crate::classify::Classify::attach) does
//! nothing for, such as a bare struct or a `reqwest::Request`) passes through unchanged.
//!
//! ```
//! use http::Request;
//! use tower::{Layer, ServiceExt, service_fn};
//! use tower_belay::{Call, Name, classify_http, identify::IdentifyLayer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let client = service_fn(|request: Request<String>| async move {
//!     let call = request.extensions().get::<Call>().ok_or("nobody said what this is")?;
//!     Ok::<_, tower::BoxError>(call.name(Name::Target).map(str::to_owned))
//! });
//! let request = || Request::post("https://tools.example/refund").body(String::new());
//!
//! // Alone, the client refuses; inside the layer it knows whom it calls.
//! assert!(client.clone().oneshot(request()?).await.is_err());
//! let named = IdentifyLayer::new().layer(client);
//! assert_eq!(named.oneshot(request()?).await?.as_deref(), Some("tools.example"));
//!
//! // A call that is attached already stays.
//! let billing = classify_http(|_, call| call.target("billing"));
//! let client = service_fn(|request: Request<String>| async move {
//!     Ok::<_, tower::BoxError>(request.extensions().get::<Call>().cloned())
//! });
//! let twice = IdentifyLayer::new().classifier(billing).layer(IdentifyLayer::new().layer(client));
//! let call = twice.oneshot(request()?).await?.ok_or("no call")?;
//! assert_eq!(call.name(Name::Target), Some("billing"));
//! # Ok(())
//! # }
//! ```

mod layer;
mod service;
#[cfg(test)]
mod tests;

pub use self::{layer::IdentifyLayer, service::Identify};
