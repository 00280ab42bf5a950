//! Circuit breakers, closed, over a service that is ready at once.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::{black_box, spin_loop};
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body::Body;
use http_body_util::Full;
use pin_project_lite::pin_project;
use tower::{Layer, Service};
use tower_belay::{
    Auto, Call, Effect, SemanticBreakerLayer, TripCard,
    classify::{Classify, ClassifyFn, classify_fn},
    semantic_breaker::{Circuit, Failures, SemanticBreaker, SlowCalls},
};

use crate::harness::{Caller, Cost, Effort, Subject, measure, shown};

const EFFORT: Effort = Effort { rounds: 201, iterations: 2_000 };

/// The first of each group is what the others are measured above.
struct Group {
    title: &'static str,
    contended: bool,
    subjects: Vec<Box<dyn Subject>>,
}

fn groups() -> Vec<Group> {
    let hot = calls(1);
    let refused = |service| over("refused", &hot, service);
    vec![
        Group {
            title: "closed, one hot key (two threads share one breaker); every figure but `bare` is above `bare`",
            contended: true,
            subjects: vec![
                over("bare", &hot, Bare),
                over("passing", &hot, Passing(Bare)),
                over("unkeyed_breaker", &hot, unkeyed()),
                over("keyed_breaker", &hot, breaker(TripCard::default()).layer(Bare)),
                over("keyed_breaker_watched_body", &hot, SemanticBreakerLayer::new(TripCard::default()).layer(Bare)),
                over("keyed_breaker_100_others_open", &hot, with_others_open(100)),
                over("keyed_breaker_not_clean", &hot, not_clean(&hot)),
                over("keyed_breaker_timed", &hot, breaker(timed()).layer(Bare)),
                over("tower_resilience_breaker", &hot, tower_resilience()),
                over("failsafe", &hot, Failsafe { breaker: failsafe::Config::new().build(), inner: Bare }),
                over("recloser", &hot, Recloser { breaker: recloser::Recloser::custom().build().into(), inner: Bare }),
                over(
                    "recloser_sync",
                    &hot,
                    RecloserSync { breaker: Arc::new(recloser::Recloser::custom().build()), inner: Bare },
                ),
            ],
        },
        Group {
            title: "closed, one hot key, a request of two words: what is left is the breaker itself",
            contended: true,
            subjects: vec![
                OverTool::boxed("bare_tool", Effect::ReadOnly, Tool),
                OverTool::boxed(
                    "unkeyed_breaker_tool",
                    Effect::ReadOnly,
                    guard_tool(TripCard::default(), |_| Call::new()),
                ),
                OverTool::boxed(
                    "keyed_breaker_tool",
                    Effect::ReadOnly,
                    guard_tool(TripCard::default(), |ask| ask.0.clone()),
                ),
                OverTool::boxed("keyed_breaker_timed_tool", Effect::ReadOnly, guard_tool(timed(), |ask| ask.0.clone())),
                OverTool::boxed("tower_resilience_tool", Effect::ReadOnly, tower_resilience_tool()),
            ],
        },
        Group {
            title: "closed, 1,000 of 10,000 keys in turn",
            contended: false,
            subjects: vec![
                over("bare_1000", &calls(1_000), Bare),
                over("keyed_breaker_1000", &calls(1_000), used_by(&calls(10_000))),
                over("keyed_breaker_1000_not_clean", &calls(1_000), not_clean(&calls(10_000))),
            ],
        },
        Group {
            title: "open: a typed error, the inner service untouched",
            contended: false,
            subjects: vec![
                Box::new(Unsent { name: "unsent", calls: hot.clone() }),
                refused(open(&hot)),
                over("refused_by_tower_resilience", &hot, tower_resilience_open()),
            ],
        },
    ]
}

pub(crate) fn subjects() -> Vec<Box<dyn Subject>> {
    groups().into_iter().flat_map(|group| group.subjects).collect()
}

/// What a subject may allocate, and how many instructions it may take, a call above the first of its group.
pub(crate) type Budget = (&'static str, f64, f64);

const BUDGETS: &[Budget] = &[
    ("passing", 0.0, 0.0),
    ("unkeyed_breaker", 0.0, 660.0),
    ("keyed_breaker", 0.0, 770.0),
    ("keyed_breaker_watched_body", 0.0, 1_120.0),
    ("keyed_breaker_100_others_open", 0.0, 890.0),
    ("keyed_breaker_1000", 0.0, 770.0),
    ("unkeyed_breaker_tool", 0.0, 395.0),
    ("keyed_breaker_tool", 0.0, 405.0),
    ("refused", 1.0, 2_250.0),
];

/// Prints the table, and says whether the [`BUDGETS`] were kept. Nanoseconds are never held against anyone.
pub(crate) fn report() -> bool {
    println!("tower_resilience is built {} its `metrics`", if cfg!(peers_lean) { "without" } else { "with" });
    let mut costs: Vec<(String, Cost)> = Vec::new();
    for Group { title, contended, subjects } in groups() {
        println!("\n{title}");
        println!("{:<30} {:>8} {:>10} {:>7} {:>13}", "", "ns", "contended", "allocs", "instructions");
        for (i, (subject, (own, above))) in subjects.iter().zip(measure(&subjects, EFFORT, contended)).enumerate() {
            let Cost { nanos, contended, allocations, instructions } = if i == 0 { own } else { above };
            let (contended, instructions) = (shown(contended, 1), shown(instructions, 0));
            println!("{:<30} {nanos:>8.1} {contended:>10} {allocations:>7.1} {instructions:>13}", subject.name());
            costs.push((subject.name().to_owned(), above));
        }
    }

    let cost = |name: &str| costs.iter().find(|(known, _)| known == name).map(|(_, cost)| *cost);
    let (ours, theirs) = (cost("keyed_breaker"), cost("tower_resilience_breaker"));
    println!(
        "overhead: keyed_breaker={} tower_resilience_breaker={} ratio={} allocs={} instructions={} contended={} \
         tower_resilience_contended={}",
        shown(ours.map(|c| c.nanos), 1),
        shown(theirs.map(|c| c.nanos), 1),
        shown(ours.zip(theirs).map(|(ours, theirs)| ours.nanos / theirs.nanos), 2),
        shown(ours.map(|c| c.allocations), 0),
        shown(ours.and_then(|c| c.instructions), 0),
        shown(ours.and_then(|c| c.contended), 1),
        shown(theirs.and_then(|c| c.contended), 1),
    );

    kept(BUDGETS, cost)
}

/// Whether each of `budgets` was kept; says which was not.
pub(crate) fn kept(budgets: &[Budget], cost: impl Fn(&str) -> Option<Cost>) -> bool {
    let mut kept = true;
    for &(name, allocations, instructions) in budgets {
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

// ===== ours =====

/// Calls as `IdentifyLayer` names them, one a model.
fn calls(models: usize) -> Arc<[Call]> {
    let named = |model| {
        let body = format!(r#"{{"model":"model-{model}","messages":[]}}"#);
        Auto.classify(&ask(Bytes::from(body)))
    };
    (0..models).map(named).collect()
}

/// Like the peers it takes every response for a success; `keyed_breaker_watched_body` is what `Auto` does by itself.
type Names = fn(&Ask) -> Call;

fn breaker(card: TripCard) -> SemanticBreakerLayer<ClassifyFn<Ask, Names>> {
    let names: Names = |request| Auto.classify(request);
    SemanticBreakerLayer::new(card).classifier(classify_fn(names))
}

type Guarded = SemanticBreaker<Bare, ClassifyFn<Ask, Names>>;

fn unkeyed() -> impl Service<Ask, Response = Response<Full<Bytes>>, Future: Send> + Clone + Send + Sync {
    SemanticBreakerLayer::new(TripCard::default()).classifier(classify_fn(|_: &Ask| Call::new())).layer(Bare)
}

/// Every one of these keys has been called.
fn used_by(keys: &[Call]) -> Guarded {
    let mut service = breaker(TripCard::default()).layer(Bare);
    keys.iter().for_each(|key| drive(&mut service, with(key)));
    service
}

/// Every one of these keys keeps state: each has one failure in its window, and successes do not make it slide out.
fn not_clean(keys: &[Call]) -> Guarded {
    let layer = breaker(TripCard::default().failures(Failures::count(1_000, 1_000)));
    let mut failing = layer.layer(Failing);
    keys.iter().for_each(|key| {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(spin(|| failing.poll_ready(&mut cx)).is_ok());
        assert!(spin(|| pin!(failing.call(with(key))).poll(&mut cx)).is_err());
    });
    layer.layer(Bare)
}

fn with_others_open(others: usize) -> Guarded {
    let layer = breaker(TripCard::default());
    for other in 0..others {
        layer.handle().force_open(&Call::to("other").operation(&other.to_string()), Circuit::Health, None);
    }
    layer.layer(Bare)
}

fn open(keys: &[Call]) -> Guarded {
    let layer = breaker(TripCard::default());
    keys.iter().for_each(|key| layer.handle().force_open(key, Circuit::Health, Duration::from_secs(86_400)));
    layer.layer(Bare)
}

type ToolNames = fn(&ToolAsk) -> Call;

fn guard_tool(card: TripCard, names: ToolNames) -> SemanticBreaker<Tool, ClassifyFn<ToolAsk, ToolNames>> {
    SemanticBreakerLayer::new(card).classifier(classify_fn(names)).layer(Tool)
}

/// Latency is measured, and no call is slow.
fn timed() -> TripCard {
    TripCard::default().slow_calls(SlowCalls::at_least(Duration::from_secs(3_600)))
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

/// Refuses every connection.
#[derive(Clone)]
struct Failing;

impl Service<Ask> for Failing {
    type Response = Response<Full<Bytes>>;
    type Error = std::io::Error;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Ask) -> Self::Future {
        ready(Err(std::io::ErrorKind::ConnectionRefused.into()))
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
    calls: Arc<[Call]>,
    service: S,
}

/// A service whose clones share one breaker. The requests carry `calls` in turn.
fn over<S, B>(name: &'static str, calls: &Arc<[Call]>, service: S) -> Box<dyn Subject>
where
    S: Service<Ask, Response = Response<B>> + Clone + Send + Sync + 'static,
    B: Body,
{
    Box::new(Over { name, calls: calls.clone(), service })
}

static URI: LazyLock<Uri> = LazyLock::new(|| Uri::from_static("https://api.openai.com/v1/chat/completions"));

fn ask(body: Bytes) -> Ask {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    request.uri_mut().clone_from(&URI);
    request
}

/// A request that names itself as `IdentifyLayer` would have it.
fn with(call: &Call) -> Ask {
    let mut request = ask(Bytes::from_static(br#"{"model":"m","messages":[]}"#));
    request.extensions_mut().insert(call.clone());
    request
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
        // Two users of one breaker have calls of their own, as two requests have.
        let calls: Vec<Call> = self.calls.iter().map(|call| call.clone().deadline(None).fingerprint(0)).collect();
        let (mut service, mut turn) = (self.service.clone(), 0);
        Box::new(move |times| {
            for _ in 0..times {
                turn = (turn + 1) % calls.len();
                drive(&mut service, with(&calls[turn]));
            }
        })
    }
}

/// A tool in process, whose requests and answers are a word or two.
#[derive(Clone)]
pub(crate) struct Tool;

#[derive(Clone)]
pub(crate) struct ToolAsk(pub(crate) Call, u64);

impl Service<ToolAsk> for Tool {
    type Response = u64;
    type Error = Infallible;
    type Future = Ready<Result<u64, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, ask: ToolAsk) -> Self::Future {
        ready(Ok(black_box(ask).1))
    }
}

pub(crate) struct OverTool<S> {
    name: &'static str,
    effect: Effect,
    service: S,
}

impl<S> OverTool<S>
where
    S: Service<ToolAsk, Response = u64> + Clone + Send + Sync + 'static,
{
    pub(crate) fn boxed(name: &'static str, effect: Effect, service: S) -> Box<dyn Subject> {
        Box::new(Self { name, effect, service })
    }
}

impl<S> Subject for OverTool<S>
where
    S: Service<ToolAsk, Response = u64> + Clone + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.name
    }

    fn caller(&self) -> Caller {
        let mut service = self.service.clone();
        let call = Call::to("orders").operation("status").tenant("acme").agent("helper").effect(self.effect);
        Box::new(move |times| {
            let mut cx = Context::from_waker(Waker::noop());
            for n in 0..times {
                assert!(spin(|| service.poll_ready(&mut cx)).is_ok(), "every subject is ready");
                let mut answer = pin!(service.call(ToolAsk(call.clone(), n as u64)));
                black_box(spin(|| answer.as_mut().poll(&mut cx)).is_ok());
            }
        })
    }
}

/// Makes the request, and sends it nowhere.
struct Unsent {
    name: &'static str,
    calls: Arc<[Call]>,
}

impl Subject for Unsent {
    fn name(&self) -> &str {
        self.name
    }

    fn caller(&self) -> Caller {
        let call = self.calls[0].clone();
        Box::new(move |times| (0..times).for_each(|_| drop(black_box(with(&call)))))
    }
}

/// A call and its answer, to the end of the body: a limit that guards answers settles there. Or its refusal.
fn drive<S, B>(service: &mut S, request: Ask)
where
    S: Service<Ask, Response = Response<B>>,
    B: Body,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(spin(|| service.poll_ready(&mut cx)).is_ok(), "every subject is ready");
    let mut call = pin!(service.call(request));
    let Ok(answer) = spin(|| call.as_mut().poll(&mut cx)) else { return };
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

fn tower_resilience_tool() -> impl Service<ToolAsk, Response = u64> + Clone + Send + Sync {
    let (layer, _) = tower_resilience::circuitbreaker::CircuitBreakerLayer::builder()
        .build_with_handle()
        .expect("the defaults are valid");
    layer.layer(Tool)
}

fn tower_resilience_open() -> impl Service<Ask, Response = Response<Full<Bytes>>, Future: Send> + Clone + Send + Sync {
    let (layer, handle) = tower_resilience::circuitbreaker::CircuitBreakerLayer::builder()
        .wait_duration_in_open(Duration::from_secs(86_400))
        .build_with_handle()
        .expect("the defaults are valid");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    runtime.block_on(handle.force_open());
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
