use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};

use super::{
    state::{Decision, Failed, decide},
    *,
};
use crate::{
    amend::{Amendment, amend_fn},
    call::{Call, Effect, Scope},
    classify::{Auto, Classify, classify_fn},
    error::{Error, Failure, Refusal, Rejected},
    reason::Reason,
    testing::{Scripted, Step},
    verdict::Verdict,
};

type Answers = Scripted<&'static str, Reason>;

const READ: &str = "read";
const WRITE: &str = "write";

fn call_of(request: &&str) -> Call {
    Call::to("crm").effect(if *request == WRITE { Effect::Consequential } else { Effect::ReadOnly })
}

async fn send(
    policy: RetryPolicy,
    script: impl IntoIterator<Item = Step<Reason>>,
    request: &'static str,
) -> (Result<Reason, Error>, usize) {
    let service: Answers = Scripted::new(script);
    let names = classify_fn(call_of).replay_clones().judge(|reason: &Reason| *reason);
    let retry = RetryLayer::new(policy).classifier(names).layer(service.clone());
    (retry.oneshot(request).await, service.calls())
}

fn answers(reasons: impl IntoIterator<Item = Reason>) -> Vec<Step<Reason>> {
    reasons.into_iter().map(Step::answer).collect()
}

fn failed(verdict: &Verdict, attempt: u32) -> Failed<'_> {
    let (effect, now) = (Effect::ReadOnly, Instant::now());
    Failed { verdict, effect, attempt, deadline: None, is_idempotent: false, now, draw: 0.5 }
}

#[tokio::test(start_paused = true)]
async fn a_read_is_attempted_again_and_a_write_that_may_have_been_applied_is_not() {
    let script = || answers([Reason::Timeout, Reason::Completed]);
    let (read, sent) = send(RetryPolicy::default(), script(), READ).await;
    assert_eq!((read.expect("an answer"), sent), (Reason::Completed, 2));
    let (write, sent) = send(RetryPolicy::default(), script(), WRITE).await;
    assert_eq!((write.expect("an answer"), sent), (Reason::Timeout, 1));
}

#[tokio::test(start_paused = true)]
async fn a_write_is_sent_again_to_a_target_that_honours_its_action_id() {
    let service: Answers = Scripted::new(answers([Reason::Timeout, Reason::Completed]));
    let names = classify_fn(call_of).replay_clones().judge(|reason: &Reason| *reason);
    let layer = RetryLayer::new(RetryPolicy::default()).classifier(names).idempotent(|_| true);
    assert_eq!(layer.layer(service.clone()).oneshot(WRITE).await.expect("an answer"), Reason::Completed);
    assert_eq!(service.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_would_meet_the_same_answer_goes_once() {
    for reason in [Reason::InvalidRequest, Reason::QuotaExhausted, Reason::PermissionDenied, Reason::Unauthenticated] {
        let (_, sent) = send(RetryPolicy::default(), answers([reason, Reason::Completed]), READ).await;
        assert_eq!(sent, 1, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_fails_and_the_last_answer_is_handed_on() {
    let start = Instant::now();
    let (last, sent) = send(RetryPolicy::default(), answers([Reason::Overloaded; 3]), READ).await;
    assert_eq!((last.expect("an answer"), sent), (Reason::Overloaded, 3));
    // 1 s and 2 s, half of each drawn.
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(1_500) && waited <= Duration::from_secs(3), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_double_to_the_cap_and_no_equal_jitter_is_short() {
    let (verdict, policy) = (Verdict::new(Reason::Overloaded), RetryPolicy::default().max_attempts(u32::MAX));
    for (attempt, whole) in [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (200, 30)] {
        for draw in [0.0, 0.5, 1.0, f64::MAX] {
            let Decision::Again(wait) = decide(&policy, &Failed { draw, ..failed(&verdict, attempt) }) else {
                panic!()
            };
            let whole = Duration::from_secs(whole);
            assert!(wait >= whole / 2 && wait <= whole, "attempt {attempt}: {wait:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_waited_out_and_jitter_only_lengthens_it() {
    let at = Instant::now() + Duration::from_micros(2_000_100);
    let verdict = Verdict::new(Reason::RateLimited).with_retry_at(at);
    for (draw, millis) in [(0.0, 2_001.0), (1.0, 2_201.1)] {
        let Decision::Again(wait) = decide(&RetryPolicy::default(), &Failed { draw, ..failed(&verdict, 1) }) else {
            panic!()
        };
        assert!((wait.as_secs_f64() * 1e3 - millis).abs() < 0.01, "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_without_a_word_is_left_alone_as_long_as_a_breaker_holds_it() {
    let verdict = Verdict::new(Reason::RateLimited);
    for (attempt, seconds) in [(1, 5), (2, 10), (3, 20), (4, 30)] {
        let policy = RetryPolicy::default().max_attempts(9);
        let Decision::Again(wait) = decide(&policy, &Failed { draw: 0.0, ..failed(&verdict, attempt) }) else {
            panic!()
        };
        assert_eq!(wait, Duration::from_secs(seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn the_other_sides_word_on_retrying_is_heard_where_it_can_do_no_harm() {
    let said = |reason, word: bool, effect| {
        let verdict = Verdict::new(reason).with_should_retry(word);
        decide(&RetryPolicy::default(), &Failed { effect, ..failed(&verdict, 1) })
    };
    let (read, write, never) = (Effect::ReadOnly, Effect::Consequential, Decision::GiveUp(GaveUp::Never));
    for reason in [Reason::Overloaded, Reason::RateLimited, Reason::Timeout] {
        assert_eq!(said(reason, false, read), never, "{reason}");
    }
    assert!(matches!(said(Reason::ContextOverflow, false, read), Decision::Amended(_)), "that is another request");
    assert!(matches!(said(Reason::InvalidRequest, true, read), Decision::Again(_)));
    assert_eq!(said(Reason::InvalidRequest, true, write), never);
    assert_eq!(said(Reason::Timeout, true, write), Decision::GiveUp(GaveUp::MayBeApplied));
    for denied in [Reason::QuotaExhausted, Reason::PermissionDenied, Reason::ContentFiltered] {
        assert_eq!(said(denied, true, read), never, "{denied}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_past_the_cap_or_the_deadline_ends_the_call() {
    let now = Instant::now();
    let year = Verdict::new(Reason::RateLimited).with_retry_at(now + Duration::from_secs(365 * 86_400));
    let give_up = decide(&RetryPolicy::default(), &failed(&year, 1));
    assert_eq!(give_up, Decision::GiveUp(GaveUp::TooLong));
    let soon = Verdict::new(Reason::RateLimited).with_retry_at(now + Duration::from_secs(20));
    let deadline = Some(now + Duration::from_secs(10));
    let give_up = decide(&RetryPolicy::default(), &Failed { deadline, ..failed(&soon, 1) });
    assert_eq!(give_up, Decision::GiveUp(GaveUp::Deadline));
    let past = Verdict::new(Reason::RateLimited).with_retry_at(now);
    assert!(matches!(decide(&RetryPolicy::default(), &failed(&past, 1)), Decision::Again(wait) if !wait.is_zero()));
}

#[tokio::test(start_paused = true)]
async fn the_budget_bounds_retries_whatever_happens() {
    let service: Answers = Scripted::by(|_| Step::answer(Reason::Overloaded));
    let names = classify_fn(call_of).replay_clones().judge(|reason: &Reason| *reason);
    let retry = RetryLayer::new(RetryPolicy::default()).classifier(names).layer(service.clone());
    let calls = (0..1_000).map(|_| retry.clone().oneshot(READ));
    futures_util::future::join_all(calls).await;
    let sent = service.calls();
    assert!((1_000..=1_210).contains(&sent), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_only_changed_for_what_it_would_meet_again() {
    let sends = |amends: bool| async move {
        let service: Answers = Scripted::new(answers([Reason::EmptyAnswer, Reason::Completed]));
        let names = classify_fn(call_of).replay_clones().judge(|reason: &Reason| *reason);
        let nudge = amend_fn(move |_: &&'static str, amendment: &Amendment| {
            (amends && *amendment == Amendment::Nudge).then_some("read, and answer")
        });
        let layer = RetryLayer::new(RetryPolicy::default()).classifier(names).amend(nudge);
        let answer = layer.layer(service.clone()).oneshot(READ).await.expect("an answer");
        (answer, service.take_requests())
    };
    assert_eq!(sends(true).await, (Reason::Completed, vec![READ, "read, and answer"]));
    assert_eq!(sends(false).await, (Reason::EmptyAnswer, vec![READ]));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_final_and_tells_of_the_attempt_before() {
    let refusal = Rejected::new("semantic_breaker", Refusal::Open, Scope::TARGET, &Call::new());
    let script = [Step::answer(Reason::Overloaded), Step::fail(Error::from(refusal)), Step::answer(Reason::Completed)];
    let (error, sent) = send(RetryPolicy::default(), script, READ).await;
    let error = error.expect_err("a refusal");
    let last = error.rejected().and_then(Rejected::last_verdict).map(|verdict| verdict.reason);
    assert_eq!((last, sent), (Some(Reason::Overloaded), 2));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_judged_and_keeps_its_cause() {
    let script =
        [Step::fail(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)), Step::answer(Reason::Completed)];
    let (answer, sent) = send(RetryPolicy::default(), script, WRITE).await;
    assert_eq!((answer.expect("it was certainly not sent"), sent), (Reason::Completed, 2));
    let script = [Step::fail(Error::from(Failure::new(Reason::Unproven)))];
    let (error, sent) = send(RetryPolicy::default(), script, WRITE).await;
    let reason = error.expect_err("a failure").failure().map(Failure::reason);
    assert_eq!((reason, sent), (Some(Reason::Unproven), 1));
}

fn http() -> Request<String> {
    Request::get("http://crm.test/").body(String::new()).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn nested_retries_do_not_multiply_and_attempts_are_told_inside() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let service = tower::service_fn(move |request: Request<String>| {
        told.lock()
            .expect("no panic")
            .push((Auto.classify(&request).attempt_number(), Auto.classify(&request).action_id()));
        async {
            Ok::<_, std::convert::Infallible>(Response::builder().status(503).body(String::new()).expect("a response"))
        }
    });
    let inner = RetryLayer::new(RetryPolicy::default()).layer(service);
    let mut outer = RetryLayer::new(RetryPolicy::default()).layer(inner);
    let response = outer.ready().await.expect("ready").call(http()).await.expect("the last answer");
    assert_eq!(response.status(), 503);
    let seen = seen.lock().expect("no panic");
    assert_eq!(seen.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(seen.iter().all(|(_, action)| action.is_some() && *action == seen[0].1), "one intent, one id");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_copied_goes_once() {
    let service: Answers = Scripted::new(answers([Reason::Overloaded, Reason::Completed]));
    let names = classify_fn(call_of).judge(|reason: &Reason| *reason);
    let retry = RetryLayer::new(RetryPolicy::default()).classifier(names).layer(service.clone());
    assert_eq!(retry.oneshot(READ).await.expect("an answer"), Reason::Overloaded);
    assert_eq!(service.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_sends_nothing_more() {
    let service: Answers = Scripted::new(answers([Reason::Overloaded, Reason::Completed]));
    let names = classify_fn(call_of).replay_clones().judge(|reason: &Reason| *reason);
    let retry = RetryLayer::new(RetryPolicy::default()).classifier(names).layer(service.clone());
    let waited = tokio::time::timeout(Duration::from_millis(100), retry.oneshot(READ)).await;
    assert!(waited.is_err());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(service.calls(), 1);
}

#[test]
fn an_impossible_policy_names_its_field() {
    for (policy, field) in [
        (RetryPolicy::default().max_attempts(0), "max_attempts"),
        (RetryPolicy::default().base(Duration::ZERO), "base"),
        (RetryPolicy::default().cap(Duration::from_millis(1)), "cap"),
        (RetryPolicy::default().budget_percent(5_000), "budget_percent"),
    ] {
        assert_eq!(RetryLayer::try_new(policy).expect_err("impossible").field(), field);
    }
}
