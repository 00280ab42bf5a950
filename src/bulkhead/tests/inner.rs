//! What the inner service answers, and what it reserves.

use std::task::Poll;

use http::HeaderMap;
use http_body_util::BodyExt;

use super::*;
use crate::testing::BodyScript;

fn streaming(
    config: BulkheadConfig,
    body: impl Fn() -> BodyScript + Clone + Send + 'static,
) -> (BulkheadHandle, impl Service<Request<()>, Response = Response<crate::WatchedBody>, Error = Error> + Clone) {
    let layer = BulkheadLayer::new(config);
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let response = Response::new(body());
        async move { Ok::<_, BoxError>(response) }
    }));
    (layer.handle(), service)
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_to_the_end_of_the_stream_its_trailers_or_its_drop() {
    let (handle, service) = streaming(small().max_queued(0), || {
        BodyScript::new().data("a").pause(Duration::from_secs(1)).trailers(HeaderMap::new())
    });
    let running = || handle.occupancy(&Call::new()).in_flight;
    let mut response = service.clone().oneshot(Request::new(())).await.expect("a head");
    assert_eq!(running(), 1);
    assert!(response.body_mut().frame().await.is_some_and(|frame| frame.is_ok_and(|frame| frame.is_data())));
    assert_eq!(running(), 1);
    assert_eq!(code(service.clone().oneshot(Request::new(())).await), Some(Refusal::BulkheadFull));
    assert!(response.body_mut().frame().await.is_some_and(|frame| frame.is_ok_and(|frame| frame.is_trailers())));
    assert_eq!(running(), 0);
    let response = service.clone().oneshot(Request::new(())).await.expect("a head");
    assert_eq!(running(), 1);
    drop(response);
    assert_eq!(running(), 0);
}

#[tokio::test]
async fn an_answer_in_memory_frees_its_permit_with_its_head() {
    let layer = BulkheadLayer::new(small().max_queued(0));
    let inner = service_fn(|_: Request<()>| async { Ok::<_, BoxError>(Response::new("whole".to_owned())) });
    let service = layer.layer(inner);
    let _first = service.clone().oneshot(Request::new(())).await.expect("an answer");
    let _second = service.oneshot(Request::new(())).await.expect("an answer, with the first still unread");
}

/// One place of its own, reserved by `poll_ready`; it panics when it is called without.
struct Reserving {
    free: Arc<AtomicU32>,
    reserved: bool,
}

impl Clone for Reserving {
    fn clone(&self) -> Self {
        Self { free: self.free.clone(), reserved: false }
    }
}

impl Drop for Reserving {
    fn drop(&mut self) {
        if self.reserved {
            self.free.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Service<Ask> for Reserving {
    type Response = u64;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<u64, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let take = |free: u32| free.checked_sub(1);
        if !self.reserved && self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.reserved = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (_, millis): Ask) -> Self::Future {
        assert!(std::mem::take(&mut self.reserved), "called without being ready");
        let free = self.free.clone();
        Box::pin(async move {
            sleep(Duration::from_millis(millis)).await;
            free.fetch_add(1, Ordering::SeqCst);
            Ok(millis)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_or_is_refused_reserves_nothing_of_the_inner_service() {
    let free = Arc::new(AtomicU32::new(2));
    let layer = BulkheadLayer::new(small().max_queued(1)).classifier(by_class());
    let mut service = layer.layer(Reserving { free: free.clone(), reserved: false });
    let running = service.ready().await.expect("ready").call(("a", 1_000));
    assert_eq!(free.load(Ordering::SeqCst), 1);
    let waiting = service.ready().await.expect("ready").call(("a", 5));
    assert_eq!(free.load(Ordering::SeqCst), 1, "one waits");
    let refused = service.ready().await.expect("ready").call(("a", 5)).await;
    assert_eq!((code(refused), free.load(Ordering::SeqCst)), (Some(Refusal::BulkheadFull), 1));
    assert_eq!(service.ready().await.expect("ready").call(("b", 3)).await.expect("room for another class"), 3);
    assert_eq!(running.await.expect("an answer"), 1_000);
    assert_eq!(waiting.await.expect("an answer"), 5);
    assert_eq!(free.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn classes_beyond_the_cap_share_a_gate_until_there_is_room() {
    let config = small().max_queued(0).class("agent 5000", ClassLimits::default().max_concurrent(9));
    let names = classify_fn(|n: &u32| Call::to("llm").agent(&format!("agent {n}")));
    let layer = BulkheadLayer::new(config).classifier(names);
    let service = layer.layer(Scripted::<u32, ()>::by(|_| Step::stall()));
    let ask = |n| Box::pin(service.clone().oneshot(n));
    let mut running: Vec<_> = (0..1_024).map(ask).collect();
    assert!(running.iter_mut().all(is_pending));
    let (mut first, mut own) = (ask(5_000), ask(7));
    assert!(is_pending(&mut first));
    assert_eq!(code(ask(5_001).await), Some(Refusal::BulkheadFull), "it shares the place of the first");
    assert!(!is_pending(&mut own), "its own class is full");
    running.clear();
    drop(first);
    tokio::time::advance(Duration::from_secs(2)).await;
    let (mut one, mut other) = (ask(5_002), ask(5_003));
    assert!(is_pending(&mut one) && is_pending(&mut other));
    drop((one, other));
    assert!(layer.handle().all().is_empty());
}
