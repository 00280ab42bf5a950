//! Around a closure with a request type of its own.

use std::{convert::Infallible, time::Duration};

use tower::{Layer, ServiceExt};
use tower_belay::{
    Call, Effect, classify_fn,
    testing::{Scripted, Step},
};

use super::*;

#[derive(Debug)]
struct Lookup(u32);

#[tokio::test(start_paused = true)]
async fn errors_and_unusable_answers_trip() {
    for (step, code) in [("fail", Refusal::Open), ("empty", Refusal::Degraded)] {
        let crm = Scripted::by(move |lookup: &Lookup| match (lookup.0, step) {
            (0, "fail") => Step::fail("no such table").after(Duration::from_secs(3)),
            (0, _) => Step::answer(String::new()),
            _ => Step::answer("shipped".to_owned()),
        });
        let names = classify_fn(|_: &Lookup| Call::to("crm").effect(Effect::ReadOnly))
            .judge(|text: &String| if text.is_empty() { Reason::EmptyAnswer } else { Reason::Completed });
        let layer = breaker().classifier(names);
        let ask = async |order| match layer.layer(crm.clone()).oneshot(Lookup(order)).await {
            Ok(_) => Seen::Whole(200),
            Err(error) => Seen::of(error),
        };
        assert_eq!(ask(1).await, Seen::Whole(200));
        for _ in 0..FAILURES {
            assert!(!matches!(ask(0).await, Seen::Refused(_)));
        }
        let sent = crm.calls();
        assert_eq!((ask(1).await, crm.calls()), (Seen::Refused(code), sent));
        assert_eq!(sent, 1 + FAILURES);
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(ask(1).await, Seen::Whole(200));
    }
}

#[tokio::test(start_paused = true)]
async fn a_closure_is_a_service() {
    let layer = breaker().classifier(classify_fn(|_: &u32| Call::to("square")));
    let squares = layer.layer(tower::service_fn(|n: u32| async move { Ok::<_, Infallible>(n * n) }));
    assert_eq!(squares.oneshot(7).await.expect("an answer"), 49);
}
