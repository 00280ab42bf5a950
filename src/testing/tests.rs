use std::time::Duration;

use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};
use tower::ServiceExt;
use tower_service::Service;

use super::*;

#[tokio::test(start_paused = true)]
async fn steps_are_taken_in_order_and_take_their_time() {
    let service = Scripted::new([Step::answer(1).after(Duration::from_secs(2)), Step::fail("down")]);
    let start = Instant::now();
    assert_eq!(service.clone().oneshot("a").await.expect("an answer"), 1);
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    assert_eq!(service.clone().oneshot("b").await.expect_err("an error").to_string(), "down");
    assert_eq!((service.calls(), service.unanswered()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_call_stays_unanswered_also_when_its_caller_goes_away() {
    let service = Scripted::<_, ()>::by(|_: &u32| Step::stall());
    assert!(timeout(Duration::from_secs(60), service.clone().oneshot(7)).await.is_err());
    assert_eq!((service.take_requests(), service.unanswered()), (vec![7], 1));
}

#[tokio::test]
#[should_panic(expected = "a step for every request")]
async fn one_request_too_many_panics() {
    let mut service = Scripted::<(), ()>::new([]);
    drop(service.call(()));
}

#[tokio::test(start_paused = true)]
async fn a_body_pauses_and_then_stalls() {
    let mut body = BodyScript::new().data("a").pause(Duration::from_secs(5)).data("b").stall();
    let start = Instant::now();
    for _ in 0..2 {
        assert!(body.frame().await.expect("a frame").is_ok());
    }
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert!(timeout(Duration::from_secs(60), body.frame()).await.is_err());
}
