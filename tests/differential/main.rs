//! Defects of tower-resilience 0.13 and of liter-llm 2.4 beside the same scenario on this crate.
//!
//! A scenario knows nothing of the breaker under it: it sends calls, and counts those that reach the [`Plant`] behind.
//! `theirs` asserts the number the defect yields, so a release of theirs that mends it fails here and the entry goes.
//!
//! Their breaker reads `std::time::Instant`, which cannot be paused: their cool-downs and windows are a few real
//! milliseconds, let pass by [`both_clocks`]. Everything of ours runs on paused tokio time alone.

mod bulkhead;
mod counting;
#[cfg(peers_llm)]
mod liter;
mod probing;
mod retry;
mod sharing;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::Body;
use http_body_util::{BodyExt, Full};
use tokio::sync::Notify;
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_belay::semantic_breaker::{BreakerHandle, SemanticBreaker, State};
use tower_belay::{Call, Effect, SemanticBreakerLayer, TripCard};
use tower_resilience::circuitbreaker::{
    CircuitBreaker, CircuitBreakerConfigBuilder, CircuitBreakerHandle, CircuitBreakerLayer, CircuitState,
    DefaultClassifier, SlidingWindowType,
};

type Ask = http::Request<Full<Bytes>>;
type Answer = http::Response<Full<Bytes>>;

// ===== the service behind the breaker =====

/// Counts the calls that reach it, and answers as it was last told to.
#[derive(Clone, Default)]
struct Plant(Arc<Works>);

#[derive(Default)]
struct Works {
    reached: AtomicUsize,
    mode: Mutex<Mode>,
}

#[derive(Clone, Default)]
enum Mode {
    #[default]
    Good,
    /// A refused connection: certainly not applied.
    Bad,
    /// No answer until notified, then a good one.
    Held(Arc<Notify>),
}

impl Plant {
    fn turns(&self, mode: Mode) {
        *self.0.mode.lock().expect("no test panics while it holds the mode") = mode;
    }

    /// Holds the calls that arrive from now on until the gate is notified.
    fn holds(&self) -> Arc<Notify> {
        let gate = Arc::new(Notify::new());
        self.turns(Mode::Held(gate.clone()));
        gate
    }

    fn reached(&self) -> usize {
        self.0.reached.load(Ordering::SeqCst)
    }
}

impl Service<Ask> for Plant {
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Ask) -> Self::Future {
        self.0.reached.fetch_add(1, Ordering::SeqCst);
        let mode = self.0.mode.lock().expect("no test panics while it holds the mode").clone();
        Box::pin(async move {
            match mode {
                Mode::Good => {}
                Mode::Bad => return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
                Mode::Held(gate) => gate.notified().await,
            }
            Ok(http::Response::new(Full::from(Bytes::from_static(b"{}"))))
        })
    }
}

// ===== what every scenario does =====

/// A breaker over a [`Plant`], whoever made it.
trait Guarded<B: Body>: Service<Ask, Response = http::Response<B>> + Clone {}
impl<S, B: Body> Guarded<B> for S where S: Service<Ask, Response = http::Response<B>> + Clone {}

fn ask() -> Ask {
    http::Request::get("http://provider.test/v1/models").body(Full::default()).expect("the request is well formed")
}

/// One call, its answer read to the end. `false` for any error.
async fn send<B: Body>(service: &mut impl Guarded<B>) -> bool {
    let Ok(ready) = service.ready().await else { return false };
    let Ok(answer) = ready.call(ask()).await else { return false };
    answer.into_body().collect().await.is_ok()
}

/// `calls` calls one after another; how many of them reached the plant.
async fn reaching<B: Body>(calls: usize, service: &mut impl Guarded<B>, plant: &Plant) -> usize {
    let before = plant.reached();
    for _ in 0..calls {
        send(service).await;
    }
    plant.reached() - before
}

/// Bad calls until one does not reach the plant; how many did.
async fn trip<B: Body>(service: &mut impl Guarded<B>, plant: &Plant) -> usize {
    plant.turns(Mode::Bad);
    let mut bad = 0;
    while reaching(1, service, plant).await == 1 {
        bad += 1;
    }
    bad
}

async fn poll_once<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

// ===== theirs =====

const COOL_DOWN: Duration = Duration::from_millis(2);

/// Opens after three failures in a row, and lets one probe through after [`COOL_DOWN`].
fn their_config() -> CircuitBreakerConfigBuilder<DefaultClassifier> {
    CircuitBreakerLayer::builder().consecutive_failures(3).wait_duration_in_open(COOL_DOWN)
}

fn their_breaker(
    config: CircuitBreakerConfigBuilder<DefaultClassifier>,
) -> (CircuitBreaker<Plant, DefaultClassifier>, CircuitBreakerHandle, Plant) {
    let (layer, handle) = config.build_with_handle().expect("a valid configuration");
    let plant = Plant::default();
    (layer.layer(plant.clone()), handle, plant)
}

/// Lets `time` pass on tokio's paused clock, and on the real one up to 30 ms of it.
async fn both_clocks(time: Duration) {
    tokio::time::advance(time).await;
    std::thread::sleep(time.min(Duration::from_millis(30)));
}

// ===== ours =====

/// All defaults, and no closure: `Auto` knows that a `GET` changes nothing.
fn our_breaker() -> (SemanticBreaker<Plant>, BreakerHandle, Plant) {
    let layer = SemanticBreakerLayer::new(TripCard::default());
    let plant = Plant::default();
    (layer.layer(plant.clone()), layer.handle(), plant)
}

/// The state of the key that [`ask`] belongs to.
fn our_state(handle: &BreakerHandle) -> State {
    handle.state(&Call::to("provider.test").effect(Effect::ReadOnly))
}

const OUR_COOL_DOWN: Duration = Duration::from_secs(10 * 60);
const OUR_LEASE: Duration = Duration::from_secs(5 * 60);
