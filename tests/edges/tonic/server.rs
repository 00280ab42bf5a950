//! A tonic server without generated code: its messages are texts.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use ::tonic::{
    Request, Response, Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use bytes::{Buf, BufMut, Bytes};
use futures_util::stream::{self, StreamExt};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::net::TcpListener;
use tower::{Layer, Service, service_fn};

pub(crate) const GET: &str = "/crm.Tickets/Get";
pub(crate) const LIST: &str = "/crm.Tickets/List";

/// Counts the calls that reach it. What it is asked says how it answers.
pub(crate) struct Tickets {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
}

impl Tickets {
    pub(crate) async fn listen<L, B>(layer: L) -> Self
    where
        L: Layer<Routes> + Clone + Send + Sync + 'static,
        L::Service: Service<http::Request<Body>, Response = http::Response<B>, Future: Send>,
        L::Service: Service<http::Request<Body>, Error: Into<super::BoxError> + Send> + Clone + Send + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<super::BoxError>> + Send + 'static,
    {
        let hits = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let server = Server::builder().layer(layer);
        let routes = Routes { hits: hits.clone() };
        tokio::spawn(async move { server.serve_with_incoming(routes, TcpIncoming::from(listener)).await });
        Self { address, hits }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }

    /// A channel with a connection of its own.
    pub(crate) fn channel(&self) -> Channel {
        Endpoint::from_shared(self.origin()).expect("a URI").connect_lazy()
    }
}

#[derive(Clone)]
pub(crate) struct Routes {
    hits: Arc<AtomicUsize>,
}

impl Service<http::Request<Body>> for Routes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.hits.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let mut grpc = ::tonic::server::Grpc::new(Text);
            if request.uri().path() == GET {
                return Ok(grpc.unary(service_fn(get), request).await);
            }
            let (parts, body) = request.into_parts();
            let asked = http_body_util::BodyExt::collect(body).await.map(|body| body.to_bytes()).unwrap_or_default();
            Ok(match asked.get(5..) {
                Some(b"cut") => raw(Some(Err(io::Error::other("cut")))),
                Some(b"no status") => raw(None),
                _ => {
                    let body = Body::new(http_body_util::Full::new(asked));
                    grpc.server_streaming(service_fn(list), http::Request::from_parts(parts, body)).await
                }
            })
        })
    }
}

async fn get(request: Request<String>) -> Result<Response<String>, Status> {
    match request.into_inner().as_str() {
        "ok" => Ok(Response::new("ok".to_owned())),
        _ => Err(Status::unavailable("down")),
    }
}

type Pieces = Pin<Box<dyn stream::Stream<Item = Result<String, Status>> + Send>>;

async fn list(request: Request<String>) -> Result<Response<Pieces>, Status> {
    let piece = |text: &str| Ok(text.to_owned());
    match request.into_inner().as_str() {
        "ok" => Ok(Response::new(Box::pin(stream::iter([piece("o"), piece("k")])))),
        "down at the end" => {
            let pieces = [piece("o"), Err(Status::unavailable("down"))];
            Ok(Response::new(Box::pin(stream::iter(pieces))))
        }
        _ => Err(Status::unavailable("down")),
    }
}

/// One message, then `end` in place of a status.
fn raw(end: Option<Result<Frame<Bytes>, io::Error>>) -> http::Response<Body> {
    let message = Ok(Frame::data(Bytes::from_static(b"\0\0\0\0\x01o")));
    let end = async {
        // Only when the message was sent, or there would be no head either.
        tokio::time::sleep(Duration::from_millis(5)).await;
        stream::iter(end)
    };
    let frames = StreamBody::new(stream::iter([message]).chain(stream::once(end).flatten()));
    let response = http::Response::builder().header("content-type", "application/grpc");
    response.body(Body::new(frames)).expect("a response")
}

/// Messages as they are.
#[derive(Clone, Copy)]
pub(crate) struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        String::from_utf8(bytes.into()).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
