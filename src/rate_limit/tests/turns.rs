//! Who goes when, and that nothing is lost on the way.

use std::{
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Waker},
};

use proptest::prelude::*;
use tokio::time::sleep;

use super::*;

fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_goes_to_whoever_has_waited_longest_and_at_once() {
    let layer = RateLimitLayer::new(tokens(600).max_wait(Duration::from_secs(60))).classifier(named());
    let began = Instant::now();
    let slow = layer.layer(Scripted::new([Step::answer(used(10)).after(Duration::from_secs(2))]));
    let first = tokio::spawn(slow.oneshot(600));
    tokio::task::yield_now().await;
    let quick = layer.layer(service_fn(|_: u64| async { Ok::<_, Infallible>(Verdict::completed()) }));
    let second = tokio::spawn(quick.clone().oneshot(300));
    tokio::task::yield_now().await;
    // Alone it could go sooner than the one before it.
    let third = tokio::spawn(quick.clone().oneshot(1));
    tokio::task::yield_now().await;
    assert_eq!(layer.handle().left(&model()).waiting, 2);
    for call in [first, second, third] {
        assert!(call.await.expect("no panic").is_ok());
        assert_eq!(began.elapsed(), Duration::from_secs(2), "of 600 tokens 590 came back");
    }
    assert_eq!(layer.handle().left(&model()).tokens, Some(600 - 10 + 20 - 10 - 301));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_what_may_come_back_and_is_refused_when_it_did_not() {
    let layer = RateLimitLayer::new(tokens(600)).classifier(named());
    let hangs = layer.layer(Scripted::<u64, Verdict>::new([Step::stall()]));
    let mut running = Box::pin(hangs.clone().oneshot(600));
    assert!(is_pending(&mut running));
    let began = Instant::now();
    let refused = hangs.clone().oneshot(300).await;
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    assert_eq!(refusal(&refused), Some((Refusal::RateLimit, Some(Duration::from_secs(20)))));
    // Given up, it stays taken: nothing can come back any more.
    drop(running);
    let began = Instant::now();
    assert!(refusal(&hangs.oneshot(300).await).is_some());
    assert_eq!((began.elapsed(), layer.handle().left(&model()).waiting), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_larger_than_a_minutes_worth_goes_when_the_bucket_is_full() {
    let layer = RateLimitLayer::new(tokens(600)).classifier(named());
    let service = layer.layer(service_fn(|_: u64| async { Ok::<_, Infallible>(Verdict::completed()) }));
    assert!(service.clone().oneshot(6_000).await.is_ok());
    let refused = service.clone().oneshot(6_000).await;
    assert_eq!(refusal(&refused), Some((Refusal::RateLimit, Some(Duration::from_secs(600)))));
    advance(Duration::from_secs(600)).await;
    assert!(service.oneshot(6_000).await.is_ok(), "the time that a refusal names is true");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_stated_is_not_nothing_and_what_broke_off_gives_nothing_back() {
    let cut = |used| Verdict::new(Reason::Cut).with_usage(used);
    for (verdict, spent) in [
        (used(100), 100),
        (Verdict::completed(), 300),
        (Verdict::completed().with_usage(usage(Some(100), None)), 300),
        (Verdict::completed().with_usage(usage(Some(400), None)), 400),
        (Verdict::completed().with_usage(usage(None, None)), 300),
        (cut(usage(Some(100), Some(1))), 300),
        (cut(usage(Some(400), Some(1))), 401),
        (Verdict::completed().with_usage(usage(Some(u64::MAX), Some(u64::MAX))), i64::MAX),
    ] {
        let layer = RateLimitLayer::new(tokens(600)).classifier(named());
        assert!(layer.layer(Scripted::new([Step::answer(verdict.clone())])).oneshot(300).await.is_ok());
        let left = layer.handle().left(&model()).tokens.expect("a limit");
        assert!(left == 600 - spent || spent == i64::MAX && left < -i64::MAX / 2, "{verdict:?}: {left}");
        layer.handle().reset(&model());
        assert_eq!(layer.handle().left(&model()).tokens, Some(600));
        assert!(layer.handle().all().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_an_attempt_that_was_sent_gives_nothing_back() {
    let layer = RateLimitLayer::new(tokens(600)).classifier(named());
    let inner = service_fn(|_: u64| async {
        let refused = Rejected::new("semantic_breaker", Refusal::Open, Scope::TARGET, &model());
        Err::<Verdict, Error>(refused.with_last(Verdict::new(Reason::ServerError)).into())
    });
    assert!(layer.layer(inner).oneshot(500).await.is_err());
    assert_eq!(layer.handle().left(&model()).tokens, Some(100));
}

#[tokio::test(start_paused = true)]
async fn another_rate_and_a_reset_let_those_who_wait_go_on() {
    let layer = RateLimitLayer::new(tokens(600).max_wait(Duration::from_secs(60))).classifier(named());
    let service = layer.layer(service_fn(|_: u64| async { Ok::<_, Infallible>(Verdict::completed()) }));
    let began = Instant::now();
    assert!(service.clone().oneshot(600).await.is_ok());
    let waiting = tokio::spawn(service.clone().oneshot(300));
    tokio::task::yield_now().await;
    layer.handle().update(tokens(1_200).max_wait(Duration::from_secs(60))).expect("valid");
    assert!(waiting.await.expect("no panic").is_ok());
    let waiting = tokio::spawn(service.clone().oneshot(1_000));
    tokio::task::yield_now().await;
    layer.handle().reset(&model());
    assert!(waiting.await.expect("no panic").is_ok());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn keys_without_number_are_forgotten_when_their_rate_is_full_again() {
    let named = classify_fn(|n: &u64| Call::to("llm").operation(&format!("m{n}")).effect(Effect::ReadOnly));
    let layer = RateLimitLayer::new(RateLimitConfig::default().requests_per_minute(60)).classifier(named);
    let service = layer.layer(service_fn(|n: u64| async move { Ok::<_, Infallible>(n) }));
    for n in 0..3_000 {
        assert!(service.clone().oneshot(n).await.is_ok());
        advance(Duration::from_millis(2)).await;
    }
    assert!(layer.handle().all().len() <= 1_025);
    advance(Duration::from_secs(120)).await;
    assert!(layer.handle().all().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Calls of any size, given up at any time: in order, never over the rate, and every token is accounted for.
    #[test]
    fn nothing_is_lost_and_nobody_overtakes(
        calls in prop::collection::vec((0..40_u64, 1..300_u64, 0..300_u64, 0..30_u64, prop::option::of(0..40_u64)), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let layer = RateLimitLayer::new(tokens(600).max_wait(Duration::from_secs(20))).classifier(
                classify_fn(|(_, tokens, ..): &(usize, u64, u64, u64)| model().estimate(*tokens).effect(Effect::ReadOnly))
                    .judge(|verdict: &Verdict| verdict.clone()),
            );
            let came = Arc::new(Mutex::new(Vec::new()));
            let sent = Arc::new(Mutex::new(Vec::new()));
            let log = sent.clone();
            let began = Instant::now();
            let service = layer.layer(service_fn(move |(n, _, used_up, takes): (usize, u64, u64, u64)| {
                lock(&log).push(n);
                async move {
                    sleep(Duration::from_secs(takes)).await;
                    Ok::<_, Infallible>(used(used_up))
                }
            }));
            let spent = AtomicU64::new(0);
            let all = calls.iter().enumerate().map(|(n, &(start, estimate, used_up, takes, patience))| {
                let (service, came, sent, spent) = (service.clone(), came.clone(), sent.clone(), &spent);
                async move {
                    sleep(Duration::from_secs(start)).await;
                    lock(&came).push(n);
                    let call = service.oneshot((n, estimate, used_up, takes));
                    let done = match patience {
                        Some(patience) => timeout(Duration::from_secs(patience), call).await.is_ok_and(|it| it.is_ok()),
                        None => call.await.is_ok(),
                    };
                    let was_sent = lock(&sent).contains(&n);
                    let counts = if done { used_up } else { estimate };
                    spent.fetch_add(if was_sent { counts } else { 0 }, Ordering::Relaxed);
                }
            });
            futures_util::future::join_all(all).await;
            let (came, sent) = (lock(&came).clone(), lock(&sent).clone());
            let turns: Vec<_> = sent.iter().map(|n| came.iter().position(|it| it == n)).collect();
            assert!(turns.is_sorted(), "{turns:?}");
            let left = layer.handle().left(&model());
            let spent = spent.load(Ordering::Relaxed) as i64;
            let refilled = (began.elapsed().as_secs_f64() * 10.0).ceil() as i64;
            assert_eq!(left.waiting, 0);
            let tokens = left.tokens.expect("a limit");
            assert!(tokens <= 600 && tokens <= 600 - spent + refilled, "{tokens} left of {spent} spent");
            // Full again when all that is owed has come back: what was given up left nothing behind.
            advance(Duration::from_secs(6_000)).await;
            assert!(layer.handle().all().is_empty());
        });
    }
}

#[test]
fn threads_together_never_spend_more_tokens_than_the_rate() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let layer = RateLimitLayer::new(tokens(60_000).max_wait(Duration::ZERO)).classifier(named());
        let sent = Arc::new(AtomicU64::new(0));
        let counted = sent.clone();
        let service = layer.layer(service_fn(move |tokens: u64| {
            counted.fetch_add(tokens, Ordering::SeqCst);
            async { Ok::<_, Infallible>(Verdict::completed()) }
        }));
        let began = Instant::now();
        let calls = (0..8).map(|_| {
            let service = service.clone();
            tokio::spawn(async move {
                for tokens in 0..400 {
                    drop(service.clone().oneshot(tokens).await);
                }
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.expect("no panic");
        }
        let sent = sent.load(Ordering::SeqCst) as f64;
        assert!(sent >= 59_000.0 && sent <= 60_001.0 + began.elapsed().as_secs_f64() * 1_000.0, "{sent}");
    });
}
