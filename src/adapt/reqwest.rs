//! A `reqwest::Client` as a service of `http` types.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower::BoxError;
use tower_service::Service;

use crate::{
    body::WatchedBody,
    call::{Call, Effect},
    classify::{Redirects, reqwest_reason},
    error::{Error, Failure},
    reason::Reason,
};

/// A `reqwest::Client` as a service of `http` requests and responses, at the bottom of a stack.
///
/// It claims that a request was *not sent* only where that is certain, so that a write may be repeated only then:
///
/// | what reqwest says | [`Reason`] |
/// |---|---|
/// | the request cannot be built | `invalid_request`, not sent |
/// | no connection to the request's own URL, also not in time | `connect_failed`, not sent |
/// | any error before a byte of a non-empty body was asked for | `connect_failed`, not sent |
/// | a timeout | `timeout`, unknown |
/// | too many redirects | `unproven`, unknown |
/// | anything else | `connection_lost`, unknown |
///
/// The second and third row hold for [`new`](ReqwestService::new) alone, which turns redirects and reqwest's own
/// retries off: what was redirected was sent before. Of a client that came ready-made nothing is known.
///
/// The third row holds that nobody acts before the body came. With HTTP/2 a server may get the head, withhold the window
/// for the body and act all the same: do not repeat writes to a target that does.
///
/// Errors hold no URL, since a query may hold a key. A body that breaks off is judged by the layer that watches it.
///
/// Requests may have any body that is `Into<reqwest::Body>`: `Bytes`, `String`, `Vec<u8>`, `&'static str`,
/// `reqwest::Body`, [`WatchedBody`]. Others go through `request.map(reqwest::Body::wrap)`. Since any of them may come,
/// `service.ready()` alone does not say which, and the compiler asks for types: call `service.clone().oneshot(request)`,
/// or put the stack into a `BoxCloneSyncService`, whose type names the body. reqwest is built
/// without default features: for TLS, HTTP/2 or proxies depend on `reqwest` and choose its features there.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tower::BoxError> {
/// # use tokio::{io::{AsyncReadExt, AsyncWriteExt}, net::TcpListener};
/// use tower::ServiceExt;
/// use tower_belay::{Reason, adapt::ReqwestService};
/// # let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let provider = listener.local_addr()?;
/// # tokio::spawn(async move {
/// #     let (mut socket, _) = listener.accept().await?;
/// #     socket.read(&mut [0; 4096]).await?;
/// #     socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await
/// # });
///
/// let client = ReqwestService::new(reqwest::Client::builder().no_proxy())?;
///
/// let request = http::Request::post(format!("http://{provider}/v1/messages")).body("{}")?;
/// assert_eq!(client.clone().oneshot(request).await?.status(), 200);
///
/// // Nobody listens there: certainly not sent.
/// let request = http::Request::post("http://127.0.0.1:1/v1/messages").body("{}")?;
/// let error = client.oneshot(request).await.unwrap_err();
/// assert_eq!(error.failure().map(|failure| failure.reason()), Some(Reason::ConnectFailed));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReqwestService {
    client: reqwest::Client,
    redirects: Redirects,
}

// === impl ReqwestService ===

impl ReqwestService {
    /// Builds a client that follows no redirect and repeats nothing by itself.
    ///
    /// # Errors
    ///
    /// If the client cannot be built.
    pub fn new(builder: reqwest::ClientBuilder) -> Result<Self, reqwest::Error> {
        let builder = builder.redirect(reqwest::redirect::Policy::none()).retry(reqwest::retry::never());
        Ok(Self { client: builder.build()?, redirects: Redirects::Never })
    }

    /// Uses a client as it is. It may follow redirects, so that no failure to connect proves anything.
    pub const fn from_client(client: reqwest::Client) -> Self {
        Self { client, redirects: Redirects::Maybe }
    }
}

impl fmt::Debug for ReqwestService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client prints its default headers, and with them its keys.
        f.debug_struct("ReqwestService").field("redirects", &self.redirects).finish_non_exhaustive()
    }
}

impl<B: Into<reqwest::Body>> Service<Request<B>> for ReqwestService {
    type Response = Response<reqwest::Body>;
    type Error = Error;
    type Future = ReqwestFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ReqwestFuture {
        let effect = request.extensions().get::<Call>().map_or(Effect::Sensitive, Call::effect_kind);
        let mut asked = None;
        let request = request.map(|body| match (body.into(), self.redirects) {
            (body, Redirects::Never) if !body.is_end_stream() => Unsent::wrap(body, &mut asked),
            (body, _) => body,
        });
        let state = match reqwest::Request::try_from(request) {
            Ok(request) => State::Sent { response: self.client.call(request) },
            Err(error) => State::Wrong { error: Some(error) },
        };
        ReqwestFuture { state, effect, redirects: self.redirects, asked }
    }
}

pin_project! {
    /// The response of a [`ReqwestService`].
    pub struct ReqwestFuture {
        #[pin]
        state: State,
        effect: Effect,
        redirects: Redirects,
        // Whether the body was asked for; `None` where that is not watched.
        asked: Option<Arc<AtomicBool>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State {
        Sent { #[pin] response: <reqwest::Client as Service<reqwest::Request>>::Future },
        Wrong { error: Option<reqwest::Error> },
    }
}

impl Future for ReqwestFuture {
    type Output = Result<Response<reqwest::Body>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let error = match this.state.project() {
            StateProj::Sent { response } => match ready!(response.poll(cx)) {
                Ok(response) => return Poll::Ready(Ok(response.into())),
                Err(error) => error,
            },
            StateProj::Wrong { error } => error.take().expect("not polled after it was ready"),
        };
        let unasked = this.asked.as_ref().is_some_and(|asked| !asked.load(Ordering::Acquire));
        let reason = match reqwest_reason(&error, *this.effect, *this.redirects) {
            Reason::InvalidRequest => Reason::InvalidRequest,
            _ if unasked => Reason::ConnectFailed,
            reason => reason,
        };
        Poll::Ready(Err(judged(reason, error)))
    }
}

impl fmt::Debug for ReqwestFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReqwestFuture").finish_non_exhaustive()
    }
}

pub(super) fn judged(reason: Reason, error: reqwest::Error) -> Error {
    Failure::new(reason).caused_by(error.without_url()).into()
}

/// Takes the URL, whose query may hold a key, out of an error of reqwest.
pub(super) fn without_url(error: BoxError) -> BoxError {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => error.without_url().into(),
        Err(other) => other,
    }
}

impl From<WatchedBody> for reqwest::Body {
    fn from(body: WatchedBody) -> Self {
        Self::wrap(body)
    }
}

pin_project! {
    /// A request body that remembers whether it was asked for.
    struct Unsent {
        #[pin]
        body: reqwest::Body,
        asked: Arc<AtomicBool>,
    }
}

impl Unsent {
    fn wrap(body: reqwest::Body, watched: &mut Option<Arc<AtomicBool>>) -> reqwest::Body {
        let asked = watched.insert(Arc::default()).clone();
        reqwest::Body::wrap(Self { body, asked })
    }
}

impl Body for Unsent {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        let this = self.project();
        this.asked.store(true, Ordering::Release);
        this.body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
