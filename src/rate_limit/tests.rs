use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use tokio::time::{Instant, advance, timeout};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use super::*;
use crate::{
    body::WatchedBody,
    call::{Call, Effect, Scope},
    classify::{Classifier, classify_fn},
    error::{Error, Refusal, Rejected},
    lock::lock,
    reason::Reason,
    testing::{BodyScript, Scripted, Step},
    verdict::{Usage, Verdict},
};

mod turns;

fn named() -> impl Classifier<u64, Verdict, Response = Verdict> + Clone + Send + Sync + 'static {
    let call = |tokens: &u64| Call::to("llm").operation("m").effect(Effect::ReadOnly).estimate(*tokens);
    classify_fn(call).judge(|verdict: &Verdict| verdict.clone())
}

fn used(tokens: u64) -> Verdict {
    Verdict::completed().with_usage(usage(Some(tokens), Some(0)))
}

fn usage(input_tokens: Option<u64>, output_tokens: Option<u64>) -> Usage {
    Usage { input_tokens, output_tokens, input_includes_cached: true, ..Usage::default() }
}

fn model() -> Call {
    Call::to("llm").operation("m")
}

fn tokens(per_minute: u64) -> RateLimitConfig {
    RateLimitConfig::default().tokens_per_minute(per_minute).max_wait(Duration::from_secs(10))
}

fn refusal(result: &Result<Verdict, Error>) -> Option<(Refusal, Option<Duration>)> {
    let rejected = result.as_ref().err()?.rejected()?;
    Some((rejected.code(), rejected.retry_after()))
}

#[tokio::test(start_paused = true)]
async fn what_was_really_used_counts() {
    let layer = RateLimitLayer::new(tokens(600)).classifier(named());
    let handle = layer.handle();
    let service = layer.layer(Scripted::new([
        Step::answer(used(100)),
        Step::answer(used(900)),
        Step::answer(Verdict::completed()),
    ]));
    assert!(service.clone().oneshot(500).await.is_ok());
    assert_eq!(handle.left(&model()).tokens, Some(500), "what was too much came back");
    assert!(service.clone().oneshot(100).await.is_ok());
    assert_eq!(handle.left(&model()).tokens, Some(-400), "what was too little is owed");
    let refused = service.clone().oneshot(1).await;
    assert_eq!(refusal(&refused), Some((Refusal::RateLimit, Some(Duration::from_millis(40_100)))));
    assert_eq!(handle.left(&model()).tokens, Some(-400), "a refused call owes nothing");
    advance(Duration::from_secs(40)).await;
    assert!(service.oneshot(50).await.is_ok());
    assert_eq!(
        handle.left(&model()).tokens,
        Some(0),
        "it used nothing that was stated: it waited for what was expected"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_go_in_the_order_in_which_they_came_and_one_that_leaves_gives_back() {
    let layer = RateLimitLayer::new(RateLimitConfig::default().requests_per_minute(60)).classifier(named());
    let (order, handle) = (Arc::new(Mutex::new(Vec::new())), layer.handle());
    let seen = order.clone();
    let service = layer.layer(service_fn(move |n: u64| {
        lock(&seen).push(n);
        std::future::ready(Ok::<_, Infallible>(Verdict::completed()))
    }));
    let began = Instant::now();
    let calls: Vec<_> = (0..64).map(|n| tokio::spawn(service.clone().oneshot(n))).collect();
    // A runtime does not run all its tasks at once.
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    let mut leaves = Box::pin(service.clone().oneshot(99));
    assert!(timeout(Duration::from_millis(1), &mut leaves).await.is_err());
    assert_eq!(handle.left(&model()).requests, Some(-5));
    drop(leaves);
    assert_eq!(handle.left(&model()).requests, Some(-4));
    for call in calls {
        assert!(call.await.expect("no panic").is_ok());
    }
    assert_eq!(began.elapsed(), Duration::from_secs(4));
    assert_eq!(*lock(&order), (0..64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_comes_back_and_what_was_given_up_does_not() {
    let layer = RateLimitLayer::new(tokens(600)).classifier(named());
    let handle = layer.handle();
    let refuses = service_fn(|_: u64| async {
        Err::<Verdict, Error>(Rejected::new("semantic_breaker", Refusal::Open, Scope::TARGET, &model()).into())
    });
    assert!(layer.layer(refuses).oneshot(500).await.is_err());
    let unreachable =
        service_fn(|_: u64| async { Err::<Verdict, _>(io::Error::from(io::ErrorKind::ConnectionRefused)) });
    assert!(layer.layer(unreachable).oneshot(500).await.is_err());
    assert_eq!(handle.left(&model()).tokens, Some(600));
    let hangs = layer.layer(Scripted::<u64, Verdict>::new([Step::stall()]));
    assert!(timeout(Duration::from_millis(1), hangs.oneshot(500)).await.is_err());
    assert!(handle.left(&model()).tokens.is_some_and(|left| left <= 101));
    // A minute later nothing is left of it.
    advance(Duration::from_secs(60)).await;
    assert_eq!(handle.left(&model()).tokens, Some(600));
}

#[tokio::test(start_paused = true)]
async fn keys_do_not_share_a_rate_and_a_deadline_is_kept() {
    let call = |key: &u64| {
        let call = Call::to("llm").operation("m").credential(&key.to_string()).effect(Effect::ReadOnly);
        call.deadline(Instant::now() + Duration::from_secs(2))
    };
    let config = RateLimitConfig::default().requests_per_minute(20);
    let layer = RateLimitLayer::new(config).classifier(classify_fn(call).judge(|verdict: &Verdict| verdict.clone()));
    let service = layer.layer(service_fn(|_: u64| async { Ok::<_, Infallible>(Verdict::completed()) }));
    for key in [1, 2] {
        for _ in 0..20 {
            assert!(service.clone().oneshot(key).await.is_ok());
        }
        // The next could go in three seconds; its deadline is in two.
        assert_eq!(
            refusal(&service.clone().oneshot(key).await),
            Some((Refusal::RateLimit, Some(Duration::from_secs(3))))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_of_the_other_side_holds_all_back_also_those_who_wait() {
    let layer = RateLimitLayer::new(RateLimitConfig::default().requests_per_minute(60)).classifier(named());
    let limited = || Verdict::new(Reason::RateLimited).with_retry_at(Instant::now() + Duration::from_secs(5));
    let service = layer.layer(service_fn(move |n: u64| async move {
        Ok::<_, Infallible>(if n == 60 { limited() } else { Verdict::completed() })
    }));
    let began = Instant::now();
    for n in 0..60 {
        assert!(service.clone().oneshot(n).await.is_ok());
    }
    let first = tokio::spawn(service.clone().oneshot(60));
    tokio::task::yield_now().await;
    let second = tokio::spawn(service.clone().oneshot(1));
    assert!(first.await.expect("no panic").is_ok() && second.await.expect("no panic").is_ok());
    // Its own turn was after two seconds; after one the other side asked for five more.
    assert_eq!(began.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn headers_only_make_the_rate_stricter_and_lies_do_not_last() {
    type Told = (&'static [(&'static str, &'static str)], i64, Option<u64>);
    let cases: [Told; 7] = [
        (&[("x-ratelimit-remaining-tokens", "50")], 50, None),
        (&[("x-ratelimit-remaining-tokens", "999999")], 500, None),
        (&[("anthropic-ratelimit-tokens-remaining", "7")], 7, None),
        (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "1m30s")], 500, Some(90)),
        (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "99999h")], 500, Some(600)),
        (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "-5")], 500, None),
        (&[("x-ratelimit-remaining-tokens", "many"), ("ratelimit", "x")], 500, None),
    ];
    for (headers, left, gate) in cases {
        let named = crate::classify::classify_http(|_: &crate::classify::RequestHead<'_>, call: Call| {
            call.target("llm").operation("m").estimate(100).effect(Effect::ReadOnly)
        });
        let layer = RateLimitLayer::new(tokens(600).scope(Scope::TARGET)).classifier(named);
        let service = layer.layer(service_fn(move |_: Request<String>| {
            let mut response = Response::builder();
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            let body = WatchedBody::new(BodyScript::new().data("x"));
            std::future::ready(Ok::<_, BoxError>(response.body(body).expect("a response")))
        }));
        let answer =
            service.oneshot(Request::post("/").body(String::new()).expect("a request")).await.expect("an answer");
        drop(answer);
        let told = layer.handle().left(&model());
        assert_eq!(
            (told.tokens, told.gated_until.map(|at| (at - Instant::now()).as_secs())),
            (Some(left), gate),
            "{headers:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_lets_everything_pass_and_nothing_is_limited_by_default() {
    let watching = RateLimitLayer::new(tokens(1)).classifier(named()).dry_run();
    let off = RateLimitLayer::new(RateLimitConfig::off()).classifier(named());
    for layer in [watching, off] {
        let service = layer.layer(service_fn(|_: u64| async { Ok::<_, Infallible>(Verdict::completed()) }));
        for _ in 0..100 {
            assert!(service.clone().oneshot(1_000).await.is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_rate_holds_at_once_and_impossible_ones_are_named() {
    let layer = RateLimitLayer::new(tokens(600)).classifier(named());
    let service = layer.layer(service_fn(|_: u64| async { Ok::<_, Infallible>(Verdict::completed()) }));
    assert!(service.clone().oneshot(600).await.is_ok());
    let models = tokens(100).model("m", Rates::default().tokens_per_minute(1_200));
    layer.handle().update(models).expect("valid");
    assert_eq!(layer.handle().left(&model()).tokens, Some(600));
    for (config, field) in [
        (tokens(0), "tokens_per_minute"),
        (RateLimitConfig::default().requests_per_minute(0), "requests_per_minute"),
        (tokens(1).model("m", Rates::default().requests_per_minute(0)), "models.m.requests_per_minute"),
        (tokens(1).scope(Scope::TARGET).model("m", Rates::default()), "models"),
    ] {
        assert_eq!(layer.handle().update(config.clone()).err().map(|it| it.field().to_owned()).as_deref(), Some(field));
        let refused =
            RateLimitLayer::new(config).classifier(named()).layer(Scripted::<u64, Verdict>::new([])).oneshot(1).await;
        assert_eq!(refusal(&refused).map(|(code, _)| code), Some(Refusal::Misconfigured));
    }
}

#[test]
fn threads_together_never_exceed_the_rate() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let layer = RateLimitLayer::new(RateLimitConfig::default().requests_per_minute(1_000).max_wait(Duration::ZERO))
            .classifier(named());
        let service = layer.layer(service_fn(|_: u64| async { Ok::<_, Infallible>(Verdict::completed()) }));
        let began = Instant::now();
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let service = service.clone();
                tokio::spawn(async move {
                    let mut passed = 0_u32;
                    for _ in 0..500 {
                        passed += u32::from(service.clone().oneshot(1).await.is_ok());
                    }
                    passed
                })
            })
            .collect();
        let mut passed = 0;
        for call in calls {
            passed += call.await.expect("no panic");
        }
        let back = began.elapsed().as_secs_f64() * 1_000.0 / 60.0;
        assert!(passed >= 1_000 && f64::from(passed) <= 1_001.0 + back, "{passed}");
    });
}
