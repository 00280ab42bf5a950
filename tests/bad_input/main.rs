//! Values that no honest peer sends and no careful operator sets, and what becomes of them in a whole stack.

mod requests;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use tokio::time::{Instant, advance};
use tower::{Layer, Service, ServiceExt, util::BoxCloneSyncService};
use tower_belay::{
    Auto, BulkheadConfig, BulkheadLayer, Call, ProviderConfig, ProviderLayer, Reason, RetryLayer, RetryPolicy,
    SemanticBreakerLayer, TimeoutConfig, TimeoutLayer, TripCard,
    classify::{ClassifyResponse, Head},
    testing::{BodyScript, Scripted, Step},
    wire::LlmAmend,
};

type Plant = Scripted<Request<String>, Response<BodyScript>>;

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
const GOOD: &str = r#"{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
const EMPTY: &str = r#"{"choices":[{"index":0,"message":{"content":""},"finish_reason":"stop"}]}"#;
const DATE: (&str, &str) = ("date", "Wed, 19 Aug 2026 14:34:22 GMT");

fn chat() -> Request<String> {
    let body = r#"{"model":"gpt-5","messages":[{"role":"user","content":"Hi"}]}"#;
    Request::post("https://api.openai.com/v1/chat/completions").body(body.to_owned()).expect("a request")
}

fn answer(status: u16, headers: &[(&str, &str)], body: &'static str) -> Step<Response<BodyScript>> {
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    Step::answer(response.body(BodyScript::new().data(body)).expect("a response"))
}

fn retry() -> RetryLayer<Auto, LlmAmend> {
    RetryLayer::new(RetryPolicy::default()).amend(LlmAmend::new())
}

/// The same headers must mean the same whether somebody reads the body or only the status.
#[derive(Debug, Clone, Copy)]
enum Reads {
    Status,
    Body,
}

struct Came {
    sent: usize,
    waited: Duration,
    status: u16,
    /// How long from the end until the call may come again.
    again_in: Option<Duration>,
}

async fn send(
    reads: Reads,
    request: Request<String>,
    steps: impl IntoIterator<Item = Step<Response<BodyScript>>>,
) -> Came {
    let (plant, start) = (Plant::new(steps), Instant::now());
    let answer = match reads {
        Reads::Status => retry().layer(plant.clone()).oneshot(request).await,
        Reads::Body => {
            retry().layer(ProviderLayer::new(ProviderConfig::default()).layer(plant.clone())).oneshot(request).await
        }
    };
    let answer = answer.expect("an answer");
    let status = answer.status().as_u16();
    let again_in = match Auto.head(&Call::new(), &answer) {
        Head::Decided(verdict) => verdict.retry_at.map(|at| at - Instant::now()),
        _ => None,
    };
    Came { sent: plant.calls(), waited: start.elapsed(), status, again_in }
}

// ===== waits =====

#[tokio::test(start_paused = true)]
async fn a_wait_that_means_something_is_waited_out() {
    let ahead = ("retry-after", "Wed, 19 Aug 2026 14:34:42 GMT");
    for reads in [Reads::Status, Reads::Body] {
        for (headers, seconds) in [
            (vec![("retry-after", "7")], 7),
            (vec![("retry-after-ms", "7000")], 7),
            (vec![DATE, ahead], 20),
            // They disagree: the longer one is certainly long enough.
            (vec![("retry-after", "2"), ("retry-after-ms", "9000")], 9),
            (vec![("retry-after", "9"), ("retry-after-ms", "2000")], 9),
            (vec![("retry-after", "9"), ("retry-after-ms", "soon")], 9),
            (vec![("retry-after", "-9"), ("retry-after-ms", "2000")], 2),
        ] {
            for status in [429, 503] {
                let steps = [answer(status, &headers, "{}"), answer(200, &[], GOOD)];
                let came = send(reads, chat(), steps).await;
                assert_eq!((came.sent, came.status), (2, 200), "{reads:?} {headers:?}");
                let wait = seconds * SECOND;
                assert!(came.waited >= wait && came.waited <= wait.mul_f64(1.11), "{headers:?}: {:?}", came.waited);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_means_nothing_is_no_wait_at_all() {
    let past = ("retry-after", "Wed, 19 Aug 2020 14:34:22 GMT");
    for reads in [Reads::Status, Reads::Body] {
        for headers in [
            vec![DATE, past],
            vec![("retry-after", "0")],
            vec![("retry-after", "-5")],
            vec![("retry-after", "inf")],
            vec![("retry-after", "NaN")],
            vec![("retry-after", "")],
            vec![("retry-after", "Wed, 99 Aug 2026 14:34:22 GMT")],
            vec![("retry-after-ms", "-1")],
            vec![("retry-after-ms", "inf")],
        ] {
            let came = send(reads, chat(), [answer(503, &headers, "{}"), answer(200, &[], GOOD)]).await;
            assert_eq!((came.sent, came.status), (2, 200), "{reads:?} {headers:?}");
            // The policy's own backoff: half a second at least, and no hot loop.
            assert!(came.waited >= SECOND / 2 && came.waited <= SECOND, "{reads:?} {headers:?}: {:?}", came.waited);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_years_is_told_as_a_year_and_not_slept() {
    let ahead = ("retry-after", "Mon, 19 Aug 2126 14:34:22 GMT");
    for reads in [Reads::Status, Reads::Body] {
        for headers in [
            vec![DATE, ahead],
            vec![("retry-after", "999999999")],
            vec![("retry-after", "1e300")],
            vec![("retry-after-ms", "1e300")],
        ] {
            let came = send(reads, chat(), [answer(429, &headers, "{}")]).await;
            assert_eq!((came.sent, came.status, came.waited), (1, 429, Duration::ZERO), "{reads:?} {headers:?}");
            assert_eq!(came.again_in, Some(YEAR), "{reads:?} {headers:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_on_a_success_delays_nobody() {
    for reads in [Reads::Status, Reads::Body] {
        let headers = [("retry-after", "20"), ("retry-after-ms", "20000"), ("x-should-retry", "true")];
        let came = send(reads, chat(), [answer(200, &headers, GOOD)]).await;
        assert_eq!((came.sent, came.status, came.waited, came.again_in), (1, 200, Duration::ZERO, None), "{reads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_word_on_retrying_comes_before_its_status() {
    let write = || Request::post("https://crm.test/orders").body("{}".to_owned()).expect("a request");
    for reads in [Reads::Status, Reads::Body] {
        let no = send(reads, chat(), [answer(503, &[("x-should-retry", "false")], "{}")]).await;
        assert_eq!((no.sent, no.status), (1, 503), "{reads:?}");
        let yes = || [answer(400, &[("x-should-retry", "true")], "{}"), answer(200, &[], GOOD)];
        assert_eq!(send(reads, chat(), yes()).await.sent, 2, "{reads:?}");
        assert_eq!(send(reads, write(), yes()).await.sent, 1, "{reads:?}: it is no read");
    }
}

// ===== limits =====

#[tokio::test(start_paused = true)]
async fn no_attempts_at_all_is_an_error_that_names_its_field() {
    let none = RetryPolicy::default().max_attempts(0);
    assert_eq!(RetryLayer::try_new(none.clone()).expect_err("impossible").field(), "max_attempts");
    // Who did not ask gets every call through, once.
    let plant = Plant::new([answer(503, &[], "{}")]);
    assert_eq!(RetryLayer::new(none).layer(plant.clone()).oneshot(chat()).await.expect("an answer").status(), 503);
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_nothing_is_nothing() {
    let sent = async |policy: RetryPolicy| {
        let plant = Plant::by(|_: &Request<String>| answer(503, &[], "{}"));
        let service = RetryLayer::new(policy).layer(plant.clone());
        for _ in 0..100 {
            service.clone().oneshot(chat()).await.expect("an answer");
        }
        plant.calls() - 100
    };
    assert_eq!(sent(RetryPolicy::default().budget_reserve(0)).await, 0, "nothing is kept, so nothing is saved either");
    assert_eq!(sent(RetryPolicy::default().budget_percent(0)).await, 10, "the reserve, once");
    assert_eq!(sent(RetryPolicy::default().budget_percent(0).budget_reserve(0)).await, 0);
}

// ===== clocks =====

/// A machine that sleeps for years wakes up with timers, cool-downs and queues all overdue.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_by_years_breaks_nothing() {
    let down = Arc::new(Mutex::new(true));
    let is_down = down.clone();
    let plant = Plant::by(move |_: &Request<String>| match *is_down.lock().expect("no test panics with it") {
        true => answer(503, &[], "{}"),
        false => answer(200, &[], GOOD),
    });
    let (breaker, bulkhead) = (
        SemanticBreakerLayer::new(TripCard::default()),
        BulkheadLayer::new(BulkheadConfig::default().max_concurrent(1)),
    );
    let (handle, permits) = (breaker.handle(), bulkhead.handle());
    let provider = ProviderLayer::new(ProviderConfig::default()).layer(plant.clone());
    let inner = breaker.layer(TimeoutLayer::new(TimeoutConfig::default()).layer(provider));
    let mut model = BoxCloneSyncService::new(retry().layer(bulkhead.layer(inner)));
    let asked = Call::to("api.openai.com").operation("gpt-5");

    for _ in 0..3 {
        *down.lock().expect("no test panics with it") = true;
        while handle.unhealthy() == 0 {
            let waiting = tokio::spawn(model.ready().await.expect("ready").call(chat()));
            tokio::task::yield_now().await;
            // In the middle of a wait between two attempts.
            advance(30 * YEAR).await;
            assert!(waiting.await.expect("no panic").is_ok_and(|it| it.status() == 503));
        }
        *down.lock().expect("no test panics with it") = false;
        for _ in 0..10 {
            advance(30 * YEAR).await;
            let answer = model.ready().await.expect("ready").call(chat()).await.expect("an answer");
            let verdict = answer.body().verdict().map(|it| it.reason);
            assert_eq!(verdict, Some(Reason::Completed));
        }
        assert_eq!((handle.state(&asked), permits.all()), (tower_belay::semantic_breaker::State::Closed, vec![]));
    }
}
