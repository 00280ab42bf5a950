use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

use proptest::prelude::*;
use tokio::time::advance;
use tower::{BoxError, Layer, ServiceExt, service_fn};

use super::{canonical::Canonical, *};
use crate::{
    Call, Effect, Refusal, ToolCall, ToolOutput,
    classify::classify_fn,
    error::{Error, Rejected},
    events::Event,
    testing::{Scripted, Step as Scripted1},
};

mod reading;

fn run_of(run: &str) -> Call {
    Call::to("read").run(run).effect(Effect::ReadOnly)
}

fn ask(run: &str, arguments: &str) -> ToolCall {
    ToolCall::new("1", "read", arguments).with_call(run_of(run))
}

/// Answers with what it was asked.
fn echo() -> impl tower::Service<ToolCall, Response = ToolOutput, Error = BoxError, Future: Send> + Clone {
    service_fn(|call: ToolCall| async move { Ok::<_, BoxError>(ToolOutput::new(call.arguments)) })
}

fn code<T>(answer: Result<T, Error>) -> Option<Refusal> {
    answer.err().and_then(|error| error.rejected().map(Rejected::code))
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_is_warned_refused_and_ended_and_another_run_goes_on() {
    let layer = LoopDetectorLayer::new(LoopPolicy::default());
    let tool = layer.layer(echo());
    let first = tool.clone().oneshot(ask("a", r#"{"x":1,"y":2}"#)).await.expect("new");
    assert_eq!(first.content, r#"{"x":1,"y":2}"#);
    // Another spelling of the same, whose result happens to be spelled as before.
    let spelled = service_fn(|_: ToolCall| async { Ok::<_, BoxError>(ToolOutput::new(r#"{"x":1,"y":2}"#)) });
    let warned = layer.layer(spelled).oneshot(ask("a", r#"{ "y": 2.0, "x": 1e0 }"#)).await.expect("warned");
    assert!(warned.content.starts_with("{\"x\":1,\"y\":2}\n\nTHINK: You made this call before"), "{}", warned.content);
    let refused = tool.clone().oneshot(ask("a", r#"{"x":1,"y":2}"#)).await.expect_err("refused");
    assert_eq!(refused.find::<Found>().map(|found| (found.rule, found.times)), Some((Rule::Repeat, 2)));
    assert_eq!(code::<()>(Err(refused)), Some(Refusal::Repeated));
    assert_eq!(code(tool.clone().oneshot(ask("a", r#"{"x":1,"y":2}"#)).await), Some(Refusal::LoopEnded));
    assert_eq!(code(tool.clone().oneshot(ask("a", "something new")).await), Some(Refusal::LoopEnded));
    assert!(tool.oneshot(ask("b", r#"{"x":1,"y":2}"#)).await.is_ok());
    let state = layer.handle().state(&run_of("a")).expect("known");
    assert_eq!((state.steps, state.warnings, state.refusals), (4, 1, 1));
    assert!(state.ended.is_some_and(|found| found.is_end && found.rule == Rule::Repeat));
}

#[tokio::test(start_paused = true)]
async fn clones_and_services_of_one_layer_watch_the_same_runs_and_tenants_do_not() {
    let layer = LoopDetectorLayer::new(LoopPolicy::default());
    let (one, other) = (layer.layer(echo()), layer.clone().layer(echo()));
    assert!(one.clone().oneshot(ask("a", "1")).await.is_ok());
    assert!(other.clone().oneshot(ask("a", "1")).await.expect("warned").content.contains("THINK"));
    assert_eq!(code(one.oneshot(ask("a", "1")).await), Some(Refusal::Repeated));
    let of_tenant = ToolCall::new("1", "read", "1").with_call(run_of("a").tenant("acme"));
    assert_eq!(other.oneshot(of_tenant).await.expect("another run").content, "1");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_neither_new_nor_a_repetition() {
    let layer = LoopDetectorLayer::new(LoopPolicy::default());
    let never = layer.layer(Scripted::<ToolCall, ToolOutput>::by(|_: &ToolCall| Scripted1::stall()));
    for _ in 0..10 {
        let mut call = Box::pin(never.clone().oneshot(ask("a", "1")));
        assert!(Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let tool = layer.layer(echo());
    assert_eq!(tool.clone().oneshot(ask("a", "1")).await.expect("the first result").content, "1");
    assert!(tool.oneshot(ask("a", "1")).await.expect("warned").content.contains("THINK"));
}

#[tokio::test(start_paused = true)]
async fn a_closed_run_begins_anew_and_what_comes_late_changes_nothing() {
    let layer = LoopDetectorLayer::new(LoopPolicy::default());
    let handle = layer.handle();
    let slow = layer.layer(service_fn(|call: ToolCall| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, BoxError>(ToolOutput::new(call.arguments))
    }));
    let tool = layer.layer(echo());
    tool.clone().oneshot(ask("a", "1")).await.expect("new");
    let late = tokio::spawn(slow.oneshot(ask("a", "1")));
    tokio::task::yield_now().await;
    handle.close(&run_of("a"));
    assert_eq!(handle.state(&run_of("a")), None);
    assert_eq!(late.await.expect("no panic").expect("it was sent").content, "1");
    assert_eq!(handle.state(&run_of("a")), None);
    assert_eq!(tool.oneshot(ask("a", "1")).await.expect("new").content, "1");
}

#[tokio::test(start_paused = true)]
async fn a_user_turn_and_the_handle_let_a_run_go_on() {
    let layer = LoopDetectorLayer::new(LoopPolicy::default());
    let tool = layer.layer(echo());
    for _ in 0..4 {
        let _ = tool.clone().oneshot(ask("a", "1")).await;
    }
    assert_eq!(code(tool.clone().oneshot(ask("a", "1")).await), Some(Refusal::LoopEnded));
    layer.handle().user_spoke(&run_of("a"));
    assert_eq!(tool.clone().oneshot(ask("a", "1")).await.expect("the user spoke").content, "1");
    assert!(tool.clone().oneshot(ask("a", "1")).await.expect("warned").content.contains("THINK"));
    let later = ToolCall::new("1", "read", "1").with_call(run_of("a").at_step(1, 1));
    assert_eq!(tool.oneshot(later).await.expect("a later turn").content, "1");
}

#[tokio::test(start_paused = true)]
async fn calls_without_a_run_are_refused_and_never_ended() {
    let tool = LoopDetectorLayer::new(LoopPolicy::default()).layer(echo());
    let nameless = || ToolCall::new("1", "read", "1");
    for _ in 0..2 {
        assert!(tool.clone().oneshot(nameless()).await.is_ok());
    }
    for _ in 0..20 {
        assert_eq!(code(tool.clone().oneshot(nameless()).await), Some(Refusal::Repeated));
    }
    assert!(tool.oneshot(ToolCall::new("1", "read", "2")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_comes_too_soon_hears_when_it_may_come() {
    let pollable = crate::tool::Pollable::new(Duration::from_secs(5), Duration::from_secs(60));
    let policy = LoopPolicy::default().tool("read", ToolRules::default().pollable(pollable));
    let tool = LoopDetectorLayer::try_new(policy).expect("valid").layer(echo());
    assert!(tool.clone().oneshot(ask("a", "1")).await.is_ok());
    let paced = tool.clone().oneshot(ask("a", "1")).await.expect_err("too soon");
    let rejected = paced.rejected().expect("ours");
    assert_eq!((rejected.code(), rejected.retry_after()), (Refusal::PollTooSoon, Some(Duration::from_secs(5))));
    advance(Duration::from_secs(5)).await;
    assert_eq!(tool.oneshot(ask("a", "1")).await.expect("in time").content, "1");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing_and_tells_what_it_would_do() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let seen = heard.clone();
    let layer = LoopDetectorLayer::new(LoopPolicy::default()).dry_run().listener(move |event: &Event<'_>| {
        seen.lock().expect("no panic").push(match event {
            Event::Looping(looping) => looping.to_string(),
            Event::WouldRefuse(rejected) => rejected.code().to_string(),
            event => event.to_string(),
        });
    });
    let tool = layer.layer(echo());
    for _ in 0..4 {
        assert_eq!(tool.clone().oneshot(ask("a", "1")).await.expect("only watched").content, "1");
    }
    let heard = heard.lock().expect("no panic");
    assert!(heard[0].starts_with("warned run=a: repeat, 2 times"), "{heard:?}");
    assert_eq!(heard.last().map(String::as_str), Some("loop_ended"));
    assert!(heard.contains(&"repeated".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_tool_count_and_refusals_of_others_do_not() {
    let layer = LoopDetectorLayer::new(LoopPolicy::default());
    let broken = layer.layer(service_fn(|_: ToolCall| async { Err::<ToolOutput, BoxError>("no such table".into()) }));
    for expected in [None, None, Some(Refusal::Repeated), Some(Refusal::LoopEnded)] {
        assert_eq!(code(broken.clone().oneshot(ask("a", "1")).await), expected);
    }
    let refusing = layer.layer(service_fn(|_: ToolCall| async {
        Err::<ToolOutput, BoxError>(Rejected::new("x", Refusal::Open, crate::Scope::TARGET, &Call::new()).into())
    }));
    for _ in 0..10 {
        assert_eq!(code(refusing.clone().oneshot(ask("b", "1")).await), Some(Refusal::Open));
    }
}

#[tokio::test(start_paused = true)]
async fn an_impossible_policy_refuses_until_it_is_replaced_and_off_lets_all_pass() {
    let impossible = LoopPolicy::default().repeats(1);
    let field = impossible.validate().expect_err("the first call repeats nothing");
    assert_eq!(field.field(), "repeats");
    let layer = LoopDetectorLayer::new(impossible);
    let tool = layer.layer(echo());
    assert_eq!(code(tool.clone().oneshot(ask("a", "1")).await), Some(Refusal::Misconfigured));
    layer.handle().update(LoopPolicy::off()).expect("valid");
    for _ in 0..10 {
        assert_eq!(tool.clone().oneshot(ask("a", "1")).await.expect("off").content, "1");
    }
    let pollable = crate::tool::Pollable::new(Duration::from_secs(5), Duration::from_secs(5));
    let rules = LoopPolicy::default().tool("x", ToolRules::default().pollable(pollable));
    assert_eq!(rules.validate().expect_err("no time").field(), "tools.x.pollable.max_wait");
    let same: LoopPolicy = toml::from_str(&toml::to_string(&LoopPolicy::default()).expect("writes")).expect("reads");
    assert_eq!(same, LoopPolicy::default());
}

#[tokio::test(start_paused = true)]
async fn closures_read_requests_and_answers_of_any_type() {
    let layer = LoopDetectorLayer::new(LoopPolicy::default())
        .classifier(classify_fn(|_: &&str| Call::to("search").run("a").effect(Effect::ReadOnly)))
        .observe(observe_fn(
            |request: &&'static str| (!request.is_empty()).then(|| Asked::new("search", request)),
            |response: &String| Some(Got::good(response)),
            |response, text| response + text,
        ));
    let tool =
        layer.layer(service_fn(|request: &'static str| async move { Ok::<_, BoxError>(request.to_uppercase()) }));
    assert_eq!(tool.clone().oneshot("rope").await.expect("new"), "ROPE");
    assert!(tool.clone().oneshot("rope").await.expect("warned").starts_with("ROPETHINK"));
    assert_eq!(code(tool.clone().oneshot("rope").await), Some(Refusal::Repeated));
    // What is no call of a tool is not watched.
    for _ in 0..5 {
        assert_eq!(tool.clone().oneshot("").await.expect("passes"), "");
    }
}

#[test]
fn warnings_are_short() {
    for rule in [Rule::Repeat, Rule::Failing, Rule::FailingAlike, Rule::Near, Rule::SameAnswer, Rule::Futile] {
        let text = Found::new(rule, 9, 9).ending().text();
        assert!(text.len() <= 500 && text.starts_with("THINK: "), "{text}");
    }
}
