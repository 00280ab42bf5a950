//! Defects of tower-resilience 0.13 beside the same scenario on this crate's breaker.
//!
//! A scenario knows nothing of the breaker under it: it sends calls, and counts those that reach the [`Plant`] behind.
//! `theirs` asserts the number the defect yields, so a release of theirs that mends it fails here and the entry goes.
//!
//! Their breaker reads `std::time::Instant`, which cannot be paused: their cool-downs and windows are a few real
//! milliseconds, let pass by [`both_clocks`]. Everything of ours runs on paused tokio time alone.

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

// ===== the defects =====

/// A count-based window must forget what left it.
mod d1_count_window_slides {
    use super::*;

    const HEALTHY: usize = 20_000;

    /// How many calls in a row must fail, after `healthy` good ones, before one is refused.
    async fn failures_to_open<B: Body>(healthy: usize, mut service: impl Guarded<B>, plant: &Plant) -> usize {
        assert_eq!(reaching(healthy, &mut service, plant).await, healthy);
        trip(&mut service, plant).await
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        // All defaults: a window of 100 calls, open at a failure rate of one half.
        let (service, _, plant) = their_breaker(CircuitBreakerLayer::builder());
        assert_eq!(failures_to_open(HEALTHY, service, &plant).await, HEALTHY);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, _, plant) = our_breaker();
        assert_eq!(failures_to_open(HEALTHY, service, &plant).await, 5);
    }
}

/// axum applies a layer anew for every connection it accepts: the state must live in the layer.
mod d2_axum_connections_share_one_breaker {
    use super::*;
    use axum::Router;
    use axum::error_handling::HandleErrorLayer;
    use axum::http::StatusCode;
    use axum::response::Response;
    use axum::routing::get;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};
    use tower_resilience::circuitbreaker::FailureClassifier;

    const CONNECTIONS: usize = 8;
    const REQUESTS: usize = 10;

    /// Ten requests over each of eight connections to a handler that always answers 500; how many reach the handler.
    async fn reaching_the_handler(guard: impl FnOnce(Router) -> Router) -> usize {
        let reached = Arc::new(AtomicUsize::new(0));
        let counter = reached.clone();
        let handler = move || {
            counter.fetch_add(1, Ordering::SeqCst);
            std::future::ready(StatusCode::INTERNAL_SERVER_ERROR)
        };
        let app = guard(Router::new().route("/v1/models", get(handler)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = tokio::spawn(async move { axum::serve(listener, app).await });

        for _ in 0..CONNECTIONS {
            let mut socket = BufReader::new(TcpStream::connect(address).await.expect("the server listens"));
            for _ in 0..REQUESTS {
                socket.write_all(b"GET /v1/models HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("the server reads");
                skip_answer(&mut socket).await;
            }
        }
        server.abort();
        reached.load(Ordering::SeqCst)
    }

    async fn skip_answer(socket: &mut BufReader<TcpStream>) {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            assert_ne!(socket.read_line(&mut line).await.expect("the server answers"), 0, "the server hung up");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        socket.read_exact(&mut vec![0; length]).await.expect("the whole body");
    }

    async fn refused<E>(_: E) -> StatusCode {
        StatusCode::SERVICE_UNAVAILABLE
    }

    /// Theirs counts errors alone unless told to look at answers; `classify_response` takes a closure, but the layer it
    /// makes is not `Clone`, which axum asks for.
    #[derive(Clone)]
    struct ServerErrors;

    impl<E> FailureClassifier<Response, E> for ServerErrors {
        fn classify(&self, result: &Result<Response, E>) -> bool {
            result.as_ref().is_ok_and(|answer| answer.status().is_server_error())
        }
    }

    #[tokio::test]
    async fn theirs() {
        let layer = their_config()
            .wait_duration_in_open(Duration::from_secs(60))
            .failure_classifier_type(ServerErrors)
            .build()
            .expect("a valid configuration");
        let guard = |app: Router| app.layer((HandleErrorLayer::new(refused), layer));
        // Three failures open each connection's own breaker.
        assert_eq!(reaching_the_handler(guard).await, 3 * CONNECTIONS);
    }

    /// Their way round it: state is shared only when a handle was asked for.
    #[tokio::test]
    async fn theirs_with_a_handle() {
        let (layer, _handle) = their_config()
            .wait_duration_in_open(Duration::from_secs(60))
            .failure_classifier_type(ServerErrors)
            .build_with_handle()
            .expect("a valid configuration");
        let guard = |app: Router| app.layer((HandleErrorLayer::new(refused), layer));
        assert_eq!(reaching_the_handler(guard).await, 3);
    }

    /// Whatever the number of connections; and no handle needs to be asked for.
    #[tokio::test]
    async fn ours() {
        let layer = SemanticBreakerLayer::new(TripCard::default());
        let guard = |app: Router| app.layer((HandleErrorLayer::new(refused), layer));
        assert_eq!(reaching_the_handler(guard).await, 5);
    }
}

/// Probes may be as far apart as the traffic is.
mod d3_half_open_does_not_wedge_when_probes_are_far_apart {
    use super::*;

    /// Trips, then sends `probes` good probes, `gap` apart; how many of the next 1,000 calls reach the plant.
    async fn reaching_after_slow_probes<B: Body>(
        probes: usize,
        gap: Duration,
        mut service: impl Guarded<B>,
        plant: &Plant,
        pass: impl AsyncFn(Duration),
    ) -> usize {
        trip(&mut service, plant).await;
        plant.turns(Mode::Good);
        for _ in 0..probes {
            pass(gap).await;
            assert_eq!(reaching(1, &mut service, plant).await, 1, "a probe is let through");
        }
        pass(gap).await;
        reaching(1_000, &mut service, plant).await
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let window = Duration::from_millis(5);
        let (service, handle, plant) = their_breaker(
            their_config()
                .sliding_window_type(SlidingWindowType::TimeBased)
                .sliding_window_duration(window)
                .permitted_calls_in_half_open(2),
        );
        assert_eq!(reaching_after_slow_probes(2, 4 * window, service, &plant, both_clocks).await, 0);
        assert_eq!(handle.state(), CircuitState::HalfOpen);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, handle, plant) = our_breaker();
        let reached = reaching_after_slow_probes(4, OUR_COOL_DOWN, service, &plant, tokio::time::advance).await;
        // Ten of the ramp's fifteen minutes have passed: 0.1 + 0.9 * 10 / 15 of the calls.
        assert_eq!(reached, 700);
        assert_eq!(our_state(&handle), State::Recovering);
    }
}

/// A probe that never ends must not keep all others out.
mod d4_a_hung_probe_frees_its_slot {
    use super::*;

    /// Trips, hangs the probe, waits `patience`; how many of the next 1,000 calls reach the recovered plant.
    async fn reaching_beside_a_hung_probe<B: Body>(
        cool_down: Duration,
        patience: Duration,
        mut service: impl Guarded<B>,
        plant: &Plant,
        pass: impl AsyncFn(Duration),
    ) -> usize {
        trip(&mut service, plant).await;
        pass(cool_down).await;
        let _gate = plant.holds();
        let before = plant.reached();
        let mut other = service.clone();
        let mut probe = pin!(send(&mut other));
        assert!(poll_once(&mut probe).await.is_pending());
        assert_eq!(plant.reached() - before, 1, "the probe is let through");

        plant.turns(Mode::Good);
        pass(patience).await;
        reaching(1_000, &mut service, plant).await
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let (service, handle, plant) = their_breaker(their_config());
        // A day for tokio's clock, fifteen cool-downs for the real one: nothing in their half-open state looks at either.
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(reaching_beside_a_hung_probe(COOL_DOWN, day, service, &plant, both_clocks).await, 0);
        assert_eq!(handle.state(), CircuitState::HalfOpen);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, handle, plant) = our_breaker();
        let pass = tokio::time::advance;
        let reached = reaching_beside_a_hung_probe(OUR_COOL_DOWN, OUR_LEASE, service, &plant, pass).await;
        // Four good probes, and a tenth of the 996 calls behind them.
        assert_eq!(reached, 4 + 99);
        assert_eq!(our_state(&handle), State::Recovering);
    }
}

/// A caller with a timeout of its own drops the call: that is how most hangs are seen.
mod d5_dropped_calls_are_counted_when_they_hung {
    use super::*;

    /// 200 calls to a plant that hangs, each dropped after `patience`; how many reach it.
    async fn reaching_a_hung_plant<B: Body>(patience: Duration, mut service: impl Guarded<B>, plant: &Plant) -> usize {
        let _gate = plant.holds();
        for _ in 0..200 {
            let _ = tokio::time::timeout(patience, send(&mut service)).await;
        }
        plant.reached()
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let (service, handle, plant) = their_breaker(their_config());
        assert_eq!(reaching_a_hung_plant(Duration::from_secs(90), service, &plant).await, 200);
        assert_eq!(handle.state(), CircuitState::Closed);
        assert_eq!(handle.metrics().await.total_calls, 0, "not one of them was seen");
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, handle, plant) = our_breaker();
        assert_eq!(reaching_a_hung_plant(Duration::from_secs(90), service, &plant).await, 5);
        assert_eq!(our_state(&handle), State::Open);
    }

    /// A caller that went away at once says nothing about the plant.
    #[tokio::test(start_paused = true)]
    async fn ours_with_impatient_callers() {
        let (service, handle, plant) = our_breaker();
        assert_eq!(reaching_a_hung_plant(Duration::from_secs(59), service, &plant).await, 200);
        assert_eq!(our_state(&handle), State::Closed);
    }
}

/// A result belongs to the state that admitted the call.
mod d6_a_call_admitted_before_the_trip_does_not_close {
    use super::*;

    /// A call is on its way when the breaker trips, and ends well while the probe is still out; how many of the next ten
    /// calls reach the plant, which is still down.
    async fn reaching_after_a_late_success<B: Body>(
        cool_down: Duration,
        mut service: impl Guarded<B>,
        plant: &Plant,
        pass: impl AsyncFn(Duration),
    ) -> usize {
        let early_gate = plant.holds();
        let mut other = service.clone();
        let mut early = pin!(send(&mut other));
        assert!(poll_once(&mut early).await.is_pending());

        trip(&mut service, plant).await;
        pass(cool_down).await;
        let _probe_gate = plant.holds();
        let before = plant.reached();
        let mut third = service.clone();
        let mut probe = pin!(send(&mut third));
        assert!(poll_once(&mut probe).await.is_pending());
        assert_eq!(plant.reached() - before, 1, "the probe is let through");

        early_gate.notify_one();
        assert!(early.await);
        plant.turns(Mode::Bad);
        reaching(10, &mut service, plant).await
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let (service, _, plant) = their_breaker(their_config());
        // The late success closes it, so it takes another three failures to open.
        assert_eq!(reaching_after_a_late_success(COOL_DOWN, service, &plant, both_clocks).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, handle, plant) = our_breaker();
        assert_eq!(reaching_after_a_late_success(OUR_COOL_DOWN, service, &plant, tokio::time::advance).await, 0);
        assert_eq!(our_state(&handle), State::HalfOpen);
    }
}

/// Whoever charts the state must see one.
#[cfg(not(peers_lean))]
mod d9_gauge_reads_one_state {
    use super::*;
    use metrics_util::MetricKind;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    /// The states that the gauge `name` says hold, after `story` was lived through.
    fn states_at_once<F: Future<Output = ()>>(name: &str, story: impl FnOnce() -> F) -> Vec<String> {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        metrics::with_local_recorder(&recorder, || runtime.block_on(story()));

        let mut states = Vec::new();
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let held = matches!(value, DebugValue::Gauge(value) if value.into_inner() > 0.0);
            if key.kind() == MetricKind::Gauge && key.key().name() == name && held {
                states.extend(key.key().labels().filter(|l| l.key() == "state").map(|l| l.value().to_owned()));
            }
        }
        states.sort();
        states
    }

    /// Trips, then a good probe: for a breaker that needs but one, this is closed again.
    async fn trip_and_recover<B: Body>(
        cool_down: Duration,
        mut service: impl Guarded<B>,
        plant: &Plant,
        pass: impl AsyncFn(Duration),
    ) {
        trip(&mut service, plant).await;
        pass(cool_down).await;
        plant.turns(Mode::Good);
        assert_eq!(reaching(1, &mut service, plant).await, 1);
    }

    #[test]
    fn theirs() {
        let states = states_at_once("circuitbreaker_state", || async {
            let (service, handle, plant) = their_breaker(their_config());
            trip_and_recover(COOL_DOWN, service, &plant, both_clocks).await;
            assert_eq!(handle.state(), CircuitState::Closed);
        });
        assert_eq!(states, ["Closed", "HalfOpen", "Open"]);
    }

    #[test]
    fn ours() {
        let states = states_at_once("belay_breaker_circuits", || async {
            let (service, handle, plant) = our_breaker();
            trip_and_recover(OUR_COOL_DOWN, service, &plant, tokio::time::advance).await;
            assert_eq!(our_state(&handle), State::HalfOpen, "it needs four good probes");
        });
        assert_eq!(states, ["half_open"]);
    }
}

/// A ready service behind a closed breaker answers at the first poll, whatever else goes on.
mod d10_no_async_lock_on_the_call_path {
    use super::*;

    /// Of `calls` calls to a ready plant made by one task, how many had to wait to be woken.
    async fn waiting<B: Body>(calls: usize, mut service: impl Guarded<B>) -> usize {
        let mut waited = 0;
        for _ in 0..calls {
            let mut call = pin!(send(&mut service));
            if poll_once(&mut call).await.is_pending() {
                waited += 1;
                call.await;
            }
        }
        waited
    }

    /// tokio lets a task take 128 of its resources before it must yield; two async locks a call spend that on 64 calls.
    #[tokio::test]
    async fn theirs_alone() {
        let (service, _, plant) = their_breaker(CircuitBreakerLayer::builder());
        assert_eq!(waiting(1_000, plant).await, 0, "the plant itself never waits");
        assert_eq!(waiting(1_000, service).await, 1_000 * 2 / 128);
    }

    /// A second call, made while the breaker is deciding about a first: here its listener makes it, elsewhere another thread.
    #[tokio::test]
    async fn theirs_contended() {
        let second: Arc<Mutex<Option<CircuitBreaker<Plant, _>>>> = Arc::default();
        let waited = Arc::new(AtomicUsize::new(0));
        let (slot, counter) = (second.clone(), waited.clone());
        let (mut service, _, plant) = their_breaker(CircuitBreakerLayer::builder().on_call_permitted(move |_| {
            let Some(mut service) = slot.lock().expect("no test panics while it holds the slot").take() else { return };
            let mut call = pin!(send(&mut service));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            counter.fetch_add(call.as_mut().poll(&mut cx).is_pending().into(), Ordering::SeqCst);
        }));
        *second.lock().expect("no test panics while it holds the slot") = Some(service.clone());
        assert!(send(&mut service).await);
        assert_eq!(waited.load(Ordering::SeqCst), 1, "the second call is not even admitted");
        assert_eq!(plant.reached(), 1);
    }

    #[tokio::test]
    async fn ours_alone() {
        let (service, _, plant) = our_breaker();
        assert_eq!(waiting(1_000, plant).await, 0);
        assert_eq!(waiting(1_000, service).await, 0);
    }

    /// A second call, made from within the listener that hears of a refusal.
    #[tokio::test(start_paused = true)]
    async fn ours_contended() {
        let second: Arc<Mutex<Option<SemanticBreaker<Plant>>>> = Arc::default();
        let answered = Arc::new(AtomicUsize::new(0));
        let (slot, counter) = (second.clone(), answered.clone());
        let layer =
            SemanticBreakerLayer::new(TripCard::default()).listener(move |_: &tower_belay::events::Event<'_>| {
                let Some(mut service) = slot.lock().expect("no test panics while it holds the slot").take() else {
                    return;
                };
                let mut call = pin!(send(&mut service));
                let mut cx = Context::from_waker(std::task::Waker::noop());
                counter.fetch_add(call.as_mut().poll(&mut cx).is_ready().into(), Ordering::SeqCst);
            });
        let plant = Plant::default();
        let mut service = layer.layer(plant.clone());
        *second.lock().expect("no test panics while it holds the slot") = Some(service.clone());
        assert_eq!(trip(&mut service, &plant).await, 5);
        assert_eq!(answered.load(Ordering::SeqCst), 1, "the second call is answered at its first poll");
    }
}
