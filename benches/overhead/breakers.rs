//! Circuit breakers, closed, over a service that is ready at once.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::{black_box, spin_loop};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body::Body;
use http_body_util::Full;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::harness::{Caller, Cost, Effort, Subject, measure, shown};

const EFFORT: Effort = Effort { rounds: 201, iterations: 2_000 };

/// The bare service comes first: the others are measured above it.
pub(crate) fn subjects() -> Vec<Box<dyn Subject>> {
    vec![
        over("bare", Bare),
        over("passing", Passing(Bare)),
        // ours: over("keyed_breaker", SemanticBreakerLayer::new(TripCard::default()).layer(Bare)),
        over("tower_resilience_breaker", tower_resilience()),
        over("failsafe", Failsafe { breaker: failsafe::Config::new().build(), inner: Bare }),
        over("recloser", Recloser { breaker: recloser::Recloser::custom().build().into(), inner: Bare }),
        over("recloser_sync", RecloserSync { breaker: Arc::new(recloser::Recloser::custom().build()), inner: Bare }),
    ]
}

/// What a subject may allocate, and how many instructions it may take, a call above `bare`.
const BUDGETS: &[(&str, f64, f64)] = &[
    ("passing", 0.0, 0.0),
    // ours: ("keyed_breaker", 0.0, <its instructions today, and a little>),
];

/// Prints the table, and says whether the [`BUDGETS`] were kept. Nanoseconds are never held against anyone.
pub(crate) fn report() -> bool {
    let subjects = subjects();
    let costs = measure(&subjects, EFFORT, true);
    println!("breakers, closed, a call (two threads share one breaker; every figure but `bare` is above `bare`)");
    println!("tower_resilience is built {} its `metrics`", if cfg!(peers_lean) { "without" } else { "with" });
    println!("{:<28} {:>8} {:>10} {:>7} {:>13}", "", "ns", "contended", "allocs", "instructions");
    for (i, (subject, (own, above))) in subjects.iter().zip(&costs).enumerate() {
        let Cost { nanos, contended, allocations, instructions } = if i == 0 { own } else { above };
        let (contended, instructions) = (shown(*contended, 1), shown(*instructions, 0));
        println!("{:<28} {nanos:>8.1} {contended:>10} {allocations:>7.1} {instructions:>13}", subject.name());
    }

    let cost = |name| subjects.iter().zip(&costs).find(|(s, _)| s.name() == name).map(|(_, (_, above))| *above);
    let (ours, theirs) = (cost("keyed_breaker"), cost("tower_resilience_breaker"));
    println!(
        "overhead: keyed_breaker={} tower_resilience_breaker={} ratio={} allocs={} instructions={} contended={} \
         tower_resilience_contended={}",
        shown(ours.map(|c| c.nanos), 1),
        shown(theirs.map(|c| c.nanos), 1),
        shown(ours.zip(theirs).map(|(ours, theirs)| theirs.nanos / ours.nanos), 1),
        shown(ours.map(|c| c.allocations), 0),
        shown(ours.and_then(|c| c.instructions), 0),
        shown(ours.and_then(|c| c.contended), 1),
        shown(theirs.and_then(|c| c.contended), 1),
    );

    let mut kept = true;
    for &(name, allocations, instructions) in BUDGETS {
        let cost = cost(name).expect("a budget names a subject");
        // A fraction of an instruction is the harness's own.
        if cost.allocations > allocations || cost.instructions.is_some_and(|spent| spent > instructions + 0.5) {
            let spent = (shown(Some(cost.allocations), 2), shown(cost.instructions, 0));
            println!("over budget: {name} allocs={}/{allocations} instructions={}/{instructions}", spent.0, spent.1);
            kept = false;
        }
    }
    kept
}

// ===== the bare service, and what drives any =====

type Ask = Request<Bytes>;

/// Answers at once, with a body in one piece.
#[derive(Clone)]
struct Bare;

impl Service<Ask> for Bare {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Ask) -> Self::Future {
        black_box(&request);
        ready(Ok(Response::new(Full::new(Bytes::from_static(br#"{"ok":true}"#)))))
    }
}

/// A layer that does nothing but stand there, its future its own: the least that any layer costs.
#[derive(Clone)]
struct Passing<S>(S);

pin_project! {
    struct PassingFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<S: Service<Ask>> Service<Ask> for Passing<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = PassingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Ask) -> Self::Future {
        PassingFuture { inner: self.0.call(request) }
    }
}

impl<F: Future<Output = Result<R, E>>, R, E> Future for PassingFuture<F> {
    type Output = Result<R, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx)
    }
}

struct Over<S> {
    name: &'static str,
    service: S,
}

/// A service whose clones share one breaker.
fn over<S, B>(name: &'static str, service: S) -> Box<dyn Subject>
where
    S: Service<Ask, Response = Response<B>> + Clone + Send + Sync + 'static,
    B: Body,
{
    Box::new(Over { name, service })
}

impl<S, B> Subject for Over<S>
where
    S: Service<Ask, Response = Response<B>> + Clone + Send + Sync + 'static,
    B: Body,
{
    fn name(&self) -> &str {
        self.name
    }

    fn caller(&self) -> Caller {
        let mut service = self.service.clone();
        Box::new(move |calls| {
            let uri = Uri::from_static("https://api.provider.test/v1/chat/completions");
            for _ in 0..calls {
                let mut request = Request::new(Bytes::from_static(br#"{"model":"m","messages":[]}"#));
                *request.method_mut() = Method::POST;
                request.uri_mut().clone_from(&uri);
                drive(&mut service, request);
            }
        })
    }
}

/// A call and its answer, to the end of the body: a limit that guards answers settles there.
fn drive<S, B>(service: &mut S, request: Ask)
where
    S: Service<Ask, Response = Response<B>>,
    B: Body,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(spin(|| service.poll_ready(&mut cx)).is_ok(), "every subject is ready");
    let mut call = pin!(service.call(request));
    let Ok(answer) = spin(|| call.as_mut().poll(&mut cx)) else { panic!("every call succeeds") };
    let mut body = pin!(answer.into_body());
    while let Some(frame) = spin(|| body.as_mut().poll_frame(&mut cx)) {
        black_box(frame.is_ok());
    }
}

/// Polls until ready. Only a contended lock is ever pending here, and a waker would only make its wait longer.
fn spin<T>(mut poll: impl FnMut() -> Poll<T>) -> T {
    for turn in 1u32.. {
        if let Poll::Ready(value) = poll() {
            return value;
        }
        // The other thread may need this core to let go of the lock.
        if turn.is_multiple_of(128) { std::thread::yield_now() } else { spin_loop() }
    }
    unreachable!("a benchmark does not wait that long")
}

// ===== the peers =====

/// All defaults (a count-based window of 100 calls), its state shared through a handle. Like ours it is built with its
/// metrics, and nothing records them: four of its allocations are the label of those. `--cfg peers_lean` leaves them out.
fn tower_resilience() -> impl Service<Ask, Response = Response<Full<Bytes>>, Future: Send> + Clone + Send + Sync {
    let (layer, _) = tower_resilience::circuitbreaker::CircuitBreakerLayer::builder()
        .build_with_handle()
        .expect("the defaults are valid");
    layer.layer(Bare)
}

/// `failsafe` is no tower layer: its future around the service's, as its documentation shows.
#[derive(Clone)]
struct Failsafe<B, S> {
    breaker: B,
    inner: S,
}

impl<B, S> Service<Ask> for Failsafe<B, S>
where
    B: failsafe::futures::CircuitBreaker,
    S: Service<Ask>,
{
    type Response = S::Response;
    type Error = failsafe::Error<S::Error>;
    type Future = failsafe::futures::ResponseFuture<S::Future, B::FailurePolicy, B::Instrument, failsafe::Any>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(failsafe::Error::Inner)
    }

    fn call(&mut self, request: Ask) -> Self::Future {
        self.breaker.call(self.inner.call(request))
    }
}

/// `recloser` around a future, as its documentation shows.
#[derive(Clone)]
struct Recloser<S> {
    breaker: recloser::AsyncRecloser,
    inner: S,
}

impl<S: Service<Ask>> Service<Ask> for Recloser<S> {
    type Response = S::Response;
    type Error = recloser::Error<S::Error>;
    type Future = recloser::RecloserFuture<S::Future, recloser::AnyError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(recloser::Error::Inner)
    }

    fn call(&mut self, request: Ask) -> Self::Future {
        self.breaker.call(self.inner.call(request))
    }
}

/// `recloser` around a closure that polls the call once: its cheapest form, which serves only calls that never wait.
#[derive(Clone)]
struct RecloserSync<S> {
    breaker: Arc<recloser::Recloser>,
    inner: S,
}

impl<S: Service<Ask>> Service<Ask> for RecloserSync<S> {
    type Response = S::Response;
    type Error = recloser::Error<S::Error>;
    type Future = Ready<Result<S::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(recloser::Error::Inner)
    }

    fn call(&mut self, request: Ask) -> Self::Future {
        let inner = &mut self.inner;
        ready(self.breaker.call(|| {
            let mut call = pin!(inner.call(request));
            spin(|| call.as_mut().poll(&mut Context::from_waker(Waker::noop())))
        }))
    }
}
