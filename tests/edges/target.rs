//! A real HTTP server that counts what reaches it.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ::axum::{Router, body::Body, extract::State, response::IntoResponse};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{Response, StatusCode, Uri};
use tokio::net::TcpListener;

pub(crate) struct Target {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
}

impl Target {
    /// Answers `/ok`, fails at `/fail` and breaks off at `/cut`.
    pub(crate) async fn listen() -> Self {
        Self::behind(|router| router).await
    }

    /// The same, with layers around it.
    pub(crate) async fn behind(layers: impl FnOnce(Router) -> Router) -> Self {
        let hits = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let router = layers(Router::new().route("/{path}", ::axum::routing::any(answer)).with_state(hits.clone()));
        tokio::spawn(::axum::serve(listener, router).into_future());
        Self { address, hits }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

async fn answer(State(hits): State<Arc<AtomicUsize>>, uri: Uri) -> Response<Body> {
    hits.fetch_add(1, Ordering::SeqCst);
    match uri.path() {
        "/ok" => "well".into_response(),
        "/cut" => {
            // Broken off only when the first piece was sent, or there would be no head either.
            let cut = async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err(io::Error::other("cut"))
            };
            let piece = stream::iter([Ok(Bytes::from_static(b"a piece"))]);
            Response::new(Body::from_stream(piece.chain(stream::once(cut))))
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
