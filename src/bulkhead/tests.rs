use std::{
    pin::Pin,
    sync::atomic::{AtomicU32, Ordering},
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

use http::{Request, Response};
use proptest::prelude::*;
use tokio::time::{Instant, advance, sleep};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use super::*;
use crate::{
    call::{Call, Effect},
    classify::{ClassifyFn, classify_fn, classify_http},
    error::{Error, Refusal, Rejected},
    events::Event,
    testing::{Scripted, Step},
};

mod inner;

fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// A class of agent, and how long its call takes.
type Ask = (&'static str, u64);

fn by_class() -> ClassifyFn<Ask, impl Fn(&Ask) -> Call + Clone> {
    classify_fn(|(class, _): &Ask| Call::to("llm").agent(class).effect(Effect::ReadOnly))
}

fn small() -> BulkheadConfig {
    BulkheadConfig::default().max_concurrent(1).max_queued(2)
}

/// Sleeps as long as it is asked to.
fn sleeper() -> impl Service<Ask, Response = u64, Error = BoxError, Future: Send> + Clone {
    service_fn(|(_, millis): Ask| async move {
        sleep(Duration::from_millis(millis)).await;
        Ok::<_, BoxError>(millis)
    })
}

fn code<T>(answer: Result<T, Error>) -> Option<Refusal> {
    answer.err().and_then(|error| error.rejected().map(Rejected::code))
}

fn occupancy(handle: &BulkheadHandle, class: &str) -> (u32, u32) {
    let Occupancy { in_flight, queued } = handle.occupancy(&Call::new().agent(class));
    (in_flight, queued)
}

#[tokio::test(start_paused = true)]
async fn calls_run_then_queue_then_are_refused_with_a_hint() {
    let layer = BulkheadLayer::new(small()).classifier(by_class());
    let service = layer.layer(sleeper());
    let mut calls: Vec<_> = (0..3).map(|_| Box::pin(service.clone().oneshot(("a", 100)))).collect();
    assert!(calls.iter_mut().all(is_pending));
    assert_eq!(occupancy(&layer.handle(), "a"), (1, 2));
    let refused = service.clone().oneshot(("a", 1)).await.expect_err("the queue is full");
    assert_eq!(refused.retry_at(), Some(Instant::now() + Duration::from_secs(30)));
    assert_eq!(code::<()>(Err(refused)), Some(Refusal::BulkheadFull));
    for call in calls {
        assert_eq!(call.await.expect("its turn comes"), 100);
    }
    assert_eq!(occupancy(&layer.handle(), "a"), (0, 0));
    assert!(service.oneshot(("a", 1)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_in_order_also_when_one_of_it_goes_away() {
    let layer = BulkheadLayer::new(small().max_queued(5)).classifier(by_class());
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let service = layer.layer(service_fn(move |(_, n): Ask| {
        seen.lock().expect("no panic").push(n);
        async move {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, BoxError>(n)
        }
    }));
    let mut calls: Vec<_> = (0..5).map(|n| Box::pin(service.clone().oneshot(("a", n)))).collect();
    assert!(calls.iter_mut().all(is_pending));
    drop(calls.remove(2));
    assert_eq!(occupancy(&layer.handle(), "a"), (1, 3));
    // The last is polled first: that does not change its turn.
    calls.reverse();
    for answer in futures_util::future::join_all(calls).await {
        assert!(answer.is_ok());
    }
    assert_eq!(*order.lock().expect("no panic"), [0, 1, 3, 4]);
    assert_eq!(occupancy(&layer.handle(), "a"), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_max_wait_or_its_deadline() {
    let names = |(_, wait): &Ask| {
        let deadline = (*wait > 0).then(|| Instant::now() + Duration::from_secs(*wait));
        Call::to("llm").deadline(deadline)
    };
    let layer = BulkheadLayer::new(small()).classifier(classify_fn(names));
    let service = layer.layer(Scripted::<Ask, ()>::new([Step::stall()]));
    let mut running = Box::pin(service.clone().oneshot(("a", 0)));
    assert!(is_pending(&mut running));
    let begun = Instant::now();
    assert_eq!(code(service.clone().oneshot(("a", 0)).await), Some(Refusal::BulkheadWait));
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
    let begun = Instant::now();
    assert_eq!(code(service.clone().oneshot(("a", 4)).await), Some(Refusal::BulkheadWait));
    assert_eq!(begun.elapsed(), Duration::from_secs(4));
    assert_eq!(layer.handle().all(), [("all".to_owned(), Occupancy { in_flight: 1, queued: 0 })]);
    drop(running);
    assert!(layer.handle().all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_came_to_a_future_that_is_dropped_goes_to_the_next() {
    let layer = BulkheadLayer::new(small()).classifier(by_class());
    let service = layer.layer(sleeper());
    let mut running = Box::pin(service.clone().oneshot(("a", 1_000)));
    let mut second = Box::pin(service.clone().oneshot(("a", 1_000)));
    let third = tokio::spawn(service.clone().oneshot(("a", 7)));
    assert!(is_pending(&mut running) && is_pending(&mut second));
    tokio::task::yield_now().await;
    drop(running);
    assert_eq!(occupancy(&layer.handle(), "a"), (1, 1));
    drop(second);
    assert_eq!(third.await.expect("no panic").expect("its turn came"), 7);
    assert_eq!(occupancy(&layer.handle(), "a"), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn clones_and_services_of_one_layer_share_and_classes_do_not() {
    let layer = BulkheadLayer::new(small().max_queued(0)).classifier(by_class());
    let (one, other) = (layer.layer(sleeper()), layer.clone().layer(sleeper()));
    let mut running = Box::pin(one.oneshot(("a", 1_000)));
    assert!(is_pending(&mut running));
    assert_eq!(code(other.clone().oneshot(("a", 1)).await), Some(Refusal::BulkheadFull));
    assert_eq!(other.oneshot(("b", 1)).await.expect("another class"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_override_holds_for_its_class_alone() {
    let config = small().max_queued(0).class("big", ClassLimits::default().max_concurrent(2));
    let service = BulkheadLayer::try_new(config).expect("valid").classifier(by_class()).layer(sleeper());
    let mut calls: Vec<_> = (0..2).map(|_| Box::pin(service.clone().oneshot(("big", 9)))).collect();
    assert!(calls.iter_mut().all(is_pending));
    assert_eq!(code(service.clone().oneshot(("big", 9)).await), Some(Refusal::BulkheadFull));
    let mut small = Box::pin(service.clone().oneshot(("small", 9)));
    assert!(is_pending(&mut small));
    assert_eq!(code(service.oneshot(("small", 9)).await), Some(Refusal::BulkheadFull));
}

#[tokio::test(start_paused = true)]
async fn an_update_lets_those_that_wait_go_on() {
    let layer = BulkheadLayer::new(small()).classifier(by_class());
    let (handle, service) = (layer.handle(), layer.layer(sleeper()));
    let mut running = Box::pin(service.clone().oneshot(("a", 1_000)));
    assert!(is_pending(&mut running));
    let waiting = tokio::spawn(service.clone().oneshot(("a", 3)));
    tokio::task::yield_now().await;
    assert_eq!(occupancy(&handle, "a"), (1, 1));
    assert_eq!(handle.update(small().max_concurrent(0)).expect_err("invalid").field(), "max_concurrent");
    handle.update(small().max_concurrent(2)).expect("valid");
    assert_eq!(occupancy(&handle, "a"), (2, 0));
    assert_eq!(waiting.await.expect("no panic").expect("an answer"), 3);
    assert!(is_pending(&mut running));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_says_how_many_still_do() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inner = seen.clone();
    let layer = BulkheadLayer::new(small()).classifier(classify_http(|_, call| call.agent("a")));
    let service = layer.layer(service_fn(move |request: Request<()>| {
        let queue = request.extensions().get::<Call>().map_or(0, Call::queue_length);
        inner.lock().expect("no panic").push(queue);
        async {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, BoxError>(Response::new(String::new()))
        }
    }));
    let calls = (0..3).map(|_| service.clone().oneshot(Request::new(())));
    assert!(futures_util::future::join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(*seen.lock().expect("no panic"), [0, 1, 0]);
}

#[tokio::test]
async fn an_impossible_configuration_refuses_every_call_until_it_is_replaced() {
    let layer = BulkheadLayer::new(small().max_wait(Duration::ZERO)).classifier(by_class());
    let service = layer.layer(sleeper());
    assert_eq!(code(service.clone().oneshot(("a", 0)).await), Some(Refusal::Misconfigured));
    layer.handle().update(small()).expect("valid");
    assert!(service.oneshot(("a", 0)).await.is_ok());
    let error = BulkheadConfig::default().class("a", ClassLimits::default().max_concurrent(0)).validate();
    assert_eq!(error.expect_err("no call could ever run").field(), "classes.a.max_concurrent");
    let error = small().class("a", ClassLimits::default()).scope(crate::Scope::TARGET).validate();
    assert_eq!(error.expect_err("a target has no agent class").field(), "classes");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reports_and_lets_everything_pass() {
    let told = Arc::new(AtomicU32::new(0));
    let heard = told.clone();
    let layer = BulkheadLayer::new(small().max_queued(1)).classifier(by_class()).dry_run().listener(
        move |event: &Event<'_>| {
            assert!(matches!(event, Event::WouldRefuse(_)));
            heard.fetch_add(1, Ordering::SeqCst);
        },
    );
    let service = layer.layer(sleeper());
    let answers = futures_util::future::join_all((0..4).map(|_| service.clone().oneshot(("a", 5)))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!((told.load(Ordering::SeqCst), occupancy(&layer.handle(), "a")), (2, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn classes_without_number_are_forgotten_when_they_are_idle() {
    let layer =
        BulkheadLayer::new(small()).classifier(classify_fn(|n: &u32| Call::to("llm").agent(&format!("agent {n}"))));
    let mut service = layer.layer(service_fn(|n: u32| async move { Ok::<_, BoxError>(n) }));
    for n in 0..5_000 {
        assert_eq!(service.ready().await.expect("ready").call(n).await.expect("an answer"), n);
        advance(Duration::from_millis(1)).await;
    }
    assert!(layer.handle().all().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any schedule of calls, answers and drops: never more at a time than the limit, and all permits come back.
    #[test]
    fn in_flight_never_exceeds_the_limit_and_permits_come_back(
        limit in 1..4_u32,
        queue in 0..4_u32,
        calls in prop::collection::vec((0..50_u64, 0..40_u64, prop::option::of(0..60_u64)), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let config = small().max_concurrent(limit).max_queued(queue).max_wait(Duration::from_millis(25));
            let layer = BulkheadLayer::new(config).classifier(by_class());
            let running = Arc::new(AtomicU32::new(0));
            let inner = running.clone();
            struct Running(Arc<AtomicU32>);
            impl Drop for Running {
                fn drop(&mut self) {
                    self.0.fetch_sub(1, Ordering::SeqCst);
                }
            }
            let service = layer.layer(service_fn(move |(_, millis): Ask| {
                assert!(inner.fetch_add(1, Ordering::SeqCst) < limit, "one too many");
                let guard = Running(inner.clone());
                async move {
                    sleep(Duration::from_millis(millis)).await;
                    drop(guard);
                    Ok::<_, BoxError>(millis)
                }
            }));
            let all = calls.into_iter().map(|(start, millis, patience)| {
                let service = service.clone();
                async move {
                    sleep(Duration::from_millis(start)).await;
                    let call = service.oneshot(("a", millis));
                    match patience {
                        Some(patience) => drop(tokio::time::timeout(Duration::from_millis(patience), call).await),
                        None => drop(call.await),
                    }
                }
            });
            futures_util::future::join_all(all).await;
            assert_eq!((running.load(Ordering::SeqCst), occupancy(&layer.handle(), "a")), (0, (0, 0)));
        });
    }
}
