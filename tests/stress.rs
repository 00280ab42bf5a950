//! Many threads on few keys, on real clocks and without any runtime.

use std::{
    convert::Infallible,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_belay::{
    Call, Effect, Error, Reason, Scope, SemanticBreakerLayer, TripCard, classify_fn,
    semantic_breaker::{BreakerHandle, Circuit, Denials, Failures, RateLimits, State, UnknownWrites},
};

const THREADS: usize = 8;

/// What a request does: whom it asks, what comes of it, and after how many polls.
#[derive(Debug, Clone)]
struct Request {
    call: Call,
    reason: Reason,
    polls: usize,
}

impl Request {
    fn new(call: Call, reason: Reason, polls: usize) -> Self {
        Self { call, reason, polls }
    }
}

fn read(target: &str) -> Call {
    Call::to(target).tenant("acme").actor("ada").credential("key").effect(Effect::ReadOnly)
}

/// Counts who is on the way, and never lets go of the most.
#[derive(Debug, Default)]
struct Live {
    now: AtomicUsize,
    most: AtomicUsize,
}

struct OnTheWay<'a>(&'a Live);

impl<'a> OnTheWay<'a> {
    fn enter(live: &'a Live) -> Self {
        live.most.fetch_max(live.now.fetch_add(1, SeqCst) + 1, SeqCst);
        Self(live)
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

type Sends = dyn Fn(Request, usize) -> Option<Result<Reason, Error>> + Send + Sync;

/// A breaker whose calls are polled by hand: `send(request, polls)` gives up after so many polls.
fn breaker(card: TripCard) -> (BreakerHandle, Arc<Live>, Box<Sends>) {
    let live = Arc::<Live>::default();
    let seen = live.clone();
    let names = classify_fn(|request: &Request| request.call.clone()).judge(|reason: &Reason| *reason);
    let layer = SemanticBreakerLayer::new(card).classifier(names);
    let service = layer.layer(service_fn(move |request: Request| {
        let live = seen.clone();
        async move {
            let _on_the_way = OnTheWay::enter(&live);
            let mut left = request.polls;
            std::future::poll_fn(|_| {
                left = left.saturating_sub(1);
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            Ok::<_, Infallible>(request.reason)
        }
    }));
    let send = move |request, polls| {
        let mut service = service.clone();
        let ready = service.ready().now_or_never();
        assert!(ready.is_some_and(|ready| ready.is_ok()));
        let mut sent = Box::pin(service.call(request));
        for _ in 0..polls {
            if let Poll::Ready(answer) = sent.as_mut().poll_unpin(&mut Context::from_waker(Waker::noop())) {
                return Some(answer);
            }
            thread::yield_now();
        }
        None
    };
    (layer.handle(), live, Box::new(send))
}

/// Numbers that look random and are the same in every run.
fn numbers(seed: usize) -> impl FnMut(usize) -> usize {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    }
}

#[test]
fn no_failure_of_many_at_once_is_lost() {
    let (handle, _, send) = breaker(TripCard::default());
    for round in 0..1_000 {
        let (barrier, target) = (Barrier::new(5), format!("t{round}"));
        thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    barrier.wait();
                    send(Request::new(read(&target), Reason::Overloaded, 1), 1);
                });
            }
        });
        assert_eq!(handle.state(&read(&target)), State::Open, "round {round}");
        handle.reset(&read(&target));
    }
}

#[test]
fn never_are_two_probes_on_their_way_whatever_becomes_of_them() {
    // Whatever is sent is a probe: half-open never ends well, and an open circuit is at once half-open again.
    let tick = Duration::from_nanos(1);
    let (handle, live, send) = breaker(TripCard::default().cool_down(tick).max_cool_down(tick).probes(u32::MAX));
    for _ in 0..5 {
        send(Request::new(read("crm"), Reason::Overloaded, 1), 1);
    }
    assert_ne!(handle.state(&read("crm")), State::Closed);
    let sent = AtomicUsize::new(0);
    live.most.store(0, SeqCst);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (send, sent, handle) = (&send, &sent, &handle);
            scope.spawn(move || {
                let mut number = numbers(thread);
                for _ in 0..4_000 {
                    let reason = [Reason::Completed, Reason::Overloaded, Reason::NotFound, Reason::Cut][number(4)];
                    let request = Request::new(read("crm"), reason, 1 + number(4));
                    if let Some(Ok(_)) = send(request, number(6)) {
                        sent.fetch_add(1, SeqCst);
                    }
                    handle.state(&read("crm"));
                }
            });
        }
    });
    assert_eq!((live.most.load(SeqCst), live.now.load(SeqCst)), (1, 0));
    assert!(sent.load(SeqCst) > THREADS, "some were sent: {}", sent.load(SeqCst));
    // Nobody holds the slot any more.
    let last = send(Request::new(read("crm"), Reason::Completed, 1), 1);
    assert!(matches!(last, Some(Ok(_))), "{last:?}");
}

#[test]
fn after_any_storm_all_is_well_again_and_nothing_is_left() {
    let brief = Duration::from_millis(2);
    let (mut limits, mut denials, mut writes) = (RateLimits::default(), Denials::default(), UnknownWrites::default());
    (limits.within, limits.first_hold, limits.pause, limits.max_hold) = (brief, brief, brief, brief);
    (denials.within, writes.within) = (brief, brief);
    let card = TripCard::default()
        .cool_down(brief)
        .max_cool_down(2 * brief)
        .ramp(brief)
        .live_probes(true)
        .probe_lease(brief)
        .rate_limits(limits)
        .denials(denials)
        .unknown_writes(writes);
    let by_rate = card.clone().failures(Failures::rate(0.5, brief, 5));
    let (handle, live, send) = breaker(card.clone());
    let calls: Vec<_> = (0..3)
        .flat_map(|n| {
            let name = format!("t{n}");
            [read(&name), read(&name).effect(Effect::Consequential)]
        })
        .collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (send, calls, handle, cards) = (&send, &calls, &handle, [&card, &by_rate]);
            scope.spawn(move || {
                let mut number = numbers(thread);
                for n in 0..4_000 {
                    let call = calls[number(calls.len())].clone();
                    let reason = Reason::ALL[number(Reason::ALL.len())];
                    send(Request::new(call.clone(), reason, 1 + number(3)), number(5));
                    match number(400) {
                        0 => handle.reset(&call),
                        1 => handle.force_open(&call, Circuit::ALL[number(4)], brief / 4),
                        2 => handle.update(cards[n % 2].clone()).expect("a valid card"),
                        3 => drop(handle.all()),
                        4 => {
                            handle.kill();
                            handle.revive();
                        }
                        5 => handle.pending_writes(&call).into_iter().for_each(|it| handle.reconciled(&call, it)),
                        6 => {
                            let card = card_by(cards[0], number(3));
                            handle.update(card).expect("a valid card");
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    assert_eq!(live.now.load(SeqCst), 0);
    handle.update(card.clone()).expect("a valid card");
    let until = Instant::now() + Duration::from_secs(20);
    let well = |send: &Sends, call: &Call, handle: &BreakerHandle| {
        send(Request::new(call.clone(), Reason::Completed, 1), 1);
        // Writes are stopped until they answer for themselves with a receipt, which these do not have.
        let mut reads = handle.snapshots(call).into_iter().filter(|it| it.circuit != Circuit::Writes);
        reads.all(|it| it.state == State::Closed)
    };
    for n in 0..3 {
        let card = card_by(&card, n);
        handle.update(card).expect("a valid card");
        // All keys of all scopes that were ever used: each read recovers its own.
        while !calls.iter().filter(|it| it.effect_kind() == Effect::ReadOnly).all(|call| well(&*send, call, &handle)) {
            assert!(Instant::now() < until, "{:?}", handle.all());
            thread::sleep(Duration::from_millis(1));
        }
    }
    // Those an operator closes.
    for n in 0..3 {
        handle.update(card_by(&card, n)).expect("a valid card");
        calls.iter().for_each(|call| handle.reset(call));
    }
    while handle.unhealthy() > 0 {
        assert!(Instant::now() < until, "{:?}", handle.all());
        thread::sleep(Duration::from_millis(1));
        handle.all();
    }
}

fn card_by(card: &TripCard, scope: usize) -> TripCard {
    let scopes = [Scope::TARGET | Scope::OPERATION, Scope::TENANT, Scope::GLOBAL];
    card.clone().health_scope(scopes[scope])
}
