//! The types of other crates at the edges of a stack: clients below the layers, clients around them, statuses above.
//!
//! | feature | what |
//! |---|---|
//! | `reqwest` | [`ReqwestService`]: a `reqwest::Client` as a service of `http` types, whose errors are judged |
//! | `reqwest-middleware` | [`BelayMiddleware`]: a layer inside a `reqwest-middleware` chain |
//! | `tonic` | an [`Error`](crate::Error) turns into a `tonic::Status` |
//!
//! A client that is a service of `http` types needs none of them: hyper-util's, and tonic's `Channel`. Around a
//! channel, `ServiceBuilder::new().map_err(tonic::Status::from).layer(breaker).service(channel)` gives callers the
//! status of a refusal; without `map_err` tonic makes it 2 UNKNOWN. Give the generated client the origin too
//! (`with_origin`): a call names its target by the authority of its URI, and only the channel inside knows it else.
//! A gRPC method is a write unless the [classifier](crate::classify_http) says that it only reads.
#![cfg_attr(not(all(feature = "reqwest", feature = "reqwest-middleware")), allow(rustdoc::broken_intra_doc_links))]

#[cfg(feature = "reqwest")]
#[cfg_attr(docsrs, doc(cfg(feature = "reqwest")))]
mod reqwest;
#[cfg(feature = "reqwest-middleware")]
#[cfg_attr(docsrs, doc(cfg(feature = "reqwest-middleware")))]
mod reqwest_middleware;
#[cfg(feature = "tonic")]
mod tonic;

use tower::BoxError;

#[cfg(feature = "reqwest")]
pub use self::reqwest::{ReqwestFuture, ReqwestService};
#[cfg(feature = "reqwest-middleware")]
pub use self::reqwest_middleware::{BelayMiddleware, Rest};

/// An error of a client without the URL in it, whose query may hold a key.
pub(crate) fn without_url(error: BoxError) -> BoxError {
    #[cfg(feature = "reqwest-middleware")]
    let error = self::reqwest_middleware::without_url(error);
    #[cfg(feature = "reqwest")]
    let error = self::reqwest::without_url(error);
    error
}
