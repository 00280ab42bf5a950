//! A layer inside a `reqwest-middleware` chain.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use http::Extensions;
use reqwest_middleware::{Middleware, Next};
use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use super::reqwest::judged;
use crate::{
    call::Effect,
    classify::{Redirects, reqwest_reason},
    error::{Error, Failure, Rejected},
};

type Answer = Result<reqwest::Response, reqwest_middleware::Error>;

/// A layer as a `reqwest_middleware::Middleware`: it is applied to the rest of the chain on each request.
///
/// - The layer's state must live in the layer, as that of every layer of this crate does: its service lives for
///   one request.
/// - Its futures may not ask for `'static`, since the rest of the chain is borrowed.
/// - Extensions are cloned for each attempt: what middleware further in changes does not come out.
/// - The client may follow redirects, so that its failure to connect proves nothing about a write.
/// - An error comes out as `reqwest_middleware::Error::Middleware` and holds no URL; a refusal or a judged failure
///   is in its chain of sources, where [`Error`] finds it again.
///
/// A `reqwest_middleware::ClientWithMiddleware` is a service itself: where the layer may go around the whole chain,
/// wrap it bare.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tower::BoxError> {
/// # use tokio::{io::{AsyncReadExt, AsyncWriteExt}, net::TcpListener};
/// use tower_belay::{Error, Refusal, SemanticBreakerLayer, TripCard, adapt::BelayMiddleware};
/// # let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let tool = listener.local_addr()?;
/// # tokio::spawn(async move {
/// #     loop {
/// #         let (mut socket, _) = listener.accept().await?;
/// #         socket.read(&mut [0; 4096]).await?;
/// #         socket.write_all(b"HTTP/1.1 500 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await?;
/// #     }
/// #     #[allow(unreachable_code)]
/// #     Ok::<_, std::io::Error>(())
/// # });
///
/// let breaker = SemanticBreakerLayer::new(TripCard::default());
/// let http = reqwest::Client::builder().no_proxy().build()?;
/// let client = reqwest_middleware::ClientBuilder::new(http).with(BelayMiddleware::new(breaker)).build();
///
/// for _ in 0..5 {
///     assert_eq!(client.get(format!("http://{tool}/lookup")).send().await?.status(), 500);
/// }
/// let refused = client.get(format!("http://{tool}/lookup")).send().await.unwrap_err();
/// let refused = Error::from_boxed(refused.into());
/// assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::Open));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct BelayMiddleware<L> {
    layer: L,
}

impl<L> BelayMiddleware<L> {
    /// Applies `layer` to the rest of the chain.
    pub const fn new(layer: L) -> Self {
        Self { layer }
    }
}

impl<L> fmt::Debug for BelayMiddleware<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BelayMiddleware").finish_non_exhaustive()
    }
}

// By hand what `async_trait` would write, so that nobody needs it.
impl<L> Middleware for BelayMiddleware<L>
where
    L: for<'a> Layer<Rest<'a>> + Send + Sync + 'static,
    for<'a> <L as Layer<Rest<'a>>>::Service:
        Service<reqwest::Request, Response = reqwest::Response, Error: Into<BoxError> + Send, Future: Send> + Send,
{
    fn handle<'layer, 'extensions, 'next, 'handle>(
        &'layer self,
        request: reqwest::Request,
        extensions: &'extensions mut Extensions,
        next: Next<'next>,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'handle>>
    where
        Self: 'handle,
        'layer: 'handle,
        'extensions: 'handle,
        'next: 'handle,
    {
        let mut service = self.layer.layer(Rest { next, extensions: extensions.clone() });
        Box::pin(async move {
            let answer = match poll_fn(|cx| service.poll_ready(cx)).await {
                Ok(()) => service.call(request).await,
                Err(error) => Err(error),
            };
            answer.map_err(|error| reqwest_middleware::Error::middleware(Error::from_boxed(error.into())))
        })
    }
}

/// The rest of a `reqwest-middleware` chain, as the service that [`BelayMiddleware`] puts its layer on.
#[derive(Clone)]
pub struct Rest<'a> {
    next: Next<'a>,
    extensions: Extensions,
}

impl fmt::Debug for Rest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

impl<'a> Service<reqwest::Request> for Rest<'a> {
    type Response = reqwest::Response;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<reqwest::Response, Error>> + Send + 'a>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: reqwest::Request) -> Self::Future {
        let Self { next, mut extensions } = self.clone();
        Box::pin(async move { next.run(request, &mut extensions).await.map_err(ours) })
    }
}

/// What the rest of the chain says; what was ours comes out as it went in.
fn ours(error: reqwest_middleware::Error) -> Error {
    let error = match error {
        reqwest_middleware::Error::Reqwest(error) => {
            return judged(reqwest_reason(&error, Effect::Sensitive, Redirects::Maybe), error);
        }
        reqwest_middleware::Error::Middleware(error) => error,
    };
    // As a boxed error it would hide the outermost of its causes.
    error.downcast::<Error>().unwrap_or_else(|error| match error.downcast::<Rejected>() {
        Ok(rejected) => rejected.into(),
        Err(error) => match error.downcast::<Failure>() {
            Ok(failure) => failure.into(),
            Err(other) => Error::from_boxed(other.into()),
        },
    })
}

pub(super) fn without_url(error: BoxError) -> BoxError {
    match error.downcast::<reqwest_middleware::Error>() {
        Ok(error) => error.without_url().into(),
        Err(other) => other,
    }
}
