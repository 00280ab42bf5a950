//! A small model provider on loopback, with three ways to be ill.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Response, header},
    routing::post,
};
use futures_util::stream;
use tokio::net::TcpListener;

pub(crate) struct Provider {
    address: SocketAddr,
    state: Arc<Health>,
}

#[derive(Default)]
struct Health {
    ill: AtomicBool,
    calls: AtomicUsize,
}

impl Provider {
    pub(crate) async fn start() -> io::Result<Self> {
        let state = Arc::new(Health::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/v1/chat/completions", post(answer)).with_state(state.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, state })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn calls(&self) -> usize {
        self.state.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ill(&self, ill: bool) {
        self.state.ill.store(ill, Ordering::Relaxed);
    }
}

const HELLO: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const OVERLOADED: &str = "data: {\"error\":{\"type\":\"server_error\",\"code\":\"server_is_overloaded\"}}\n\n";

async fn answer(State(health): State<Arc<Health>>) -> Response<Body> {
    let call = health.calls.fetch_add(1, Ordering::Relaxed);
    let ill = health.ill.load(Ordering::Relaxed);
    match (ill, call % 3) {
        (false, _) => streamed(&[HELLO, STOP]),
        // A status that says it; a 200 that says it later; and a 200 that just ends.
        (true, 0) => Response::builder().status(503).body(Body::from("upstream connect error")).expect("a response"),
        (true, 1) => streamed(&[OVERLOADED]),
        (true, _) => streamed(&[HELLO]),
    }
}

fn streamed(events: &[&'static str]) -> Response<Body> {
    let events: Vec<_> = events.iter().map(|event| Ok::<_, Infallible>(*event)).collect();
    let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
    response.body(Body::from_stream(stream::iter(events))).expect("a response")
}
