//! Permits that were held too long, and freed too early.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use tokio::{sync::Notify, time::timeout};
use tower::{BoxError, Layer, ServiceExt, service_fn};
use tower_belay::{BulkheadConfig, BulkheadLayer, Call, Refusal, classify_fn, testing::BodyScript};

fn one_at_a_time() -> BulkheadConfig {
    BulkheadConfig::default().max_concurrent(1)
}

/// zed-industries/zed#47494: a parent held its permit while its tools ran, and they needed one.
#[tokio::test(start_paused = true)]
async fn reported_46_a_parent_whose_stream_has_ended_does_not_hold_up_its_tools() {
    let layer = BulkheadLayer::new(one_at_a_time());
    let model = layer.layer(service_fn(|_: Request<()>| async {
        let stream = BodyScript::new().data("call the tool").pause(Duration::from_secs(2));
        Ok::<_, BoxError>(Response::new(stream))
    }));
    let answer = model.clone().oneshot(Request::new(())).await.expect("a head");
    answer.into_body().collect().await.expect("a whole answer");
    // The parent is not done: the tool it was asked to run asks the same model.
    let tool = timeout(Duration::from_secs(1), model.oneshot(Request::new(()))).await;
    assert!(tool.expect("no deadlock").is_ok());
}

/// can1357/oh-my-pi#3749: a permit spanned the whole life of an agent, and its sub-agents waited for it.
#[tokio::test(start_paused = true)]
async fn reported_47_nested_agents_of_one_class_take_turns_call_by_call() {
    let by_class = classify_fn(|_: &u32| Call::to("llm").agent("worker"));
    let layer = BulkheadLayer::new(one_at_a_time()).classifier(by_class);
    let model = layer.layer(service_fn(|n: u32| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, BoxError>(n)
    }));
    // Each agent asks, starts two more and waits for them, and asks again.
    fn agent<S>(model: S, depth: u32) -> std::pin::Pin<Box<dyn Future<Output = u32>>>
    where
        S: tower::Service<u32, Response = u32, Error = tower_belay::Error> + Clone + 'static,
    {
        Box::pin(async move {
            let mut calls = model.clone().oneshot(depth).await.map_or(0, |_| 1);
            if depth > 0 {
                let (left, right) = tokio::join!(agent(model.clone(), depth - 1), agent(model.clone(), depth - 1));
                calls += left + right;
            }
            calls + model.oneshot(depth).await.map_or(0, |_| 1)
        })
    }
    let calls = timeout(Duration::from_secs(60), agent(model, 2)).await.expect("no deadlock");
    assert_eq!(calls, 14);
}

/// tower-rs/tower-http#447: a permit was freed with the head, while the body was still coming.
#[tokio::test(start_paused = true)]
async fn reported_48_a_permit_is_held_through_the_body() {
    let layer = BulkheadLayer::new(one_at_a_time().max_queued(0));
    let more = Arc::new(Notify::new());
    let model = layer.layer(service_fn(|_: Request<()>| async {
        let stream = BodyScript::new().data("a").pause(Duration::from_secs(5)).data("b").trailers(HeaderMap::new());
        Ok::<_, BoxError>(Response::new(stream))
    }));
    let first = model.clone().oneshot(Request::new(())).await.expect("a head");
    let reader = tokio::spawn({
        let more = more.clone();
        async move {
            more.notified().await;
            first.into_body().collect().await.expect("a whole answer").to_bytes()
        }
    });
    let refused = model.clone().oneshot(Request::new(())).await.expect_err("the body is still coming");
    assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::BulkheadFull));
    more.notify_one();
    assert_eq!(reader.await.expect("no panic"), "ab");
    assert!(model.oneshot(Request::new(())).await.is_ok());
}
