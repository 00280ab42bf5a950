//! Under the layers that learn from it.

use tower::ServiceBuilder;

use super::*;
use crate::{SemanticBreakerLayer, TripCard};

/// Sends the same body over and over, reads each answer to its end, and says whether the breaker is open then.
async fn opens(times: usize, body: impl Fn() -> BodyScript + Send + 'static) -> bool {
    let client = Scripted::by(move |_: &Request<String>| Step::answer(sse(body())));
    let breaker = SemanticBreakerLayer::new(TripCard::default());
    let stack = ServiceBuilder::new().layer(breaker).layer(ProviderLayer::new(config())).service(client);
    for _ in 0..times {
        match stack.clone().oneshot(chat()).await {
            Ok(response) => drop(read(response.into_body()).await),
            Err(error) => assert!(error.rejected().is_none(), "refused too early"),
        }
    }
    let last = stack.oneshot(chat()).await;
    last.is_err_and(|error| error.rejected().is_some())
}

#[tokio::test(start_paused = true)]
async fn five_bad_answers_open_the_breaker_whatever_is_bad_about_them() {
    const EMPTY: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let bodies: [fn() -> BodyScript; 7] = [
        || pieces(&[ROLE]),
        || pieces(&[TEXT]),
        || pieces(&[TEXT]).fail("reset"),
        || pieces(&[TEXT]).stall(),
        || pieces(&[ROLE, ERROR]),
        || pieces(&[TEXT, ERROR, DONE]),
        || pieces(&[ROLE, EMPTY, DONE]),
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        assert!(!opens(4, body).await, "body {at}");
        assert!(opens(5, body).await, "body {at}");
    }
    assert!(!opens(30, || pieces(&[TEXT, FINISH, USAGE, DONE])).await);
}

#[tokio::test(start_paused = true)]
async fn layers_outside_share_what_was_read() {
    let client = Scripted::new([Step::answer(sse(pieces(&[TEXT, FINISH, DONE])))]);
    let breaker = || SemanticBreakerLayer::new(TripCard::default());
    let provider = ProviderLayer::new(config());
    let stack = ServiceBuilder::new().layer(breaker()).layer(breaker()).layer(provider).service(client);
    let response = stack.oneshot(chat()).await.expect("live");
    let (first, second) = (Told::default(), Told::default());
    // One body all the way: who listens is added to it, and it is read once.
    let response = second.listen(first.listen(response));
    let (bytes, end) = read(response.into_body()).await;
    assert!(end.is_ok());
    assert_eq!(bytes, [TEXT, FINISH, DONE].concat());
    assert_eq!((first.take(), second.take()), (vec!["completed".to_owned()], vec!["completed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_good_stream_counts_at_its_end_only() {
    let client = Scripted::new([Step::answer(sse(pieces(&[TEXT, FINISH, DONE])))]);
    let breaker = SemanticBreakerLayer::new(TripCard::default());
    let stack = ServiceBuilder::new().layer(breaker).layer(ProviderLayer::new(config())).service(client);
    let mut response = stack.oneshot(chat()).await.expect("live");
    let told = Told::default();
    response = told.listen(response);
    for _ in 0..2 {
        frame(&mut response).await;
        assert_eq!(told.take(), [""; 0]);
    }
    frame(&mut response).await;
    assert_eq!(told.take(), ["completed"]);
}
