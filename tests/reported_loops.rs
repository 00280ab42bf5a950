//! What went wrong with loop detectors elsewhere, and does not here. Each test is named for the number of its report.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tokio::time::advance;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_belay::{
    Advice, Call, Effect, Error, LoopDetectorLayer, LoopPolicy, Pollable, Refusal, Rejected, ToolCall, ToolOutput,
    loop_detector::{Found, Rule, ToolRules},
};

/// One run, whose tools answer what they are told to.
struct Agent<S> {
    tools: S,
    next: Arc<Mutex<ToolOutput>>,
    step: u32,
}

/// How far it came.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Got {
    Passed,
    Warned,
    Refused(Refusal),
}

const REPEATED: Got = Got::Refused(Refusal::Repeated);
const ENDED: Got = Got::Refused(Refusal::LoopEnded);

fn agent(policy: LoopPolicy) -> Agent<impl Service<ToolCall, Response = ToolOutput, Error = Error> + Clone> {
    let next = Arc::new(Mutex::new(ToolOutput::default()));
    let tools = LoopDetectorLayer::try_new(policy).expect("valid").layer(service_fn({
        let next = next.clone();
        move |_: ToolCall| {
            let output = next.lock().expect("no panic").clone();
            async move { Ok::<_, BoxError>(output) }
        }
    }));
    Agent { tools, next, step: 0 }
}

impl<S> Agent<S>
where
    S: Service<ToolCall, Response = ToolOutput, Error = Error> + Clone,
{
    async fn read(&mut self, tool: &str, arguments: &str, result: &str) -> Got {
        self.call(tool, arguments, ToolOutput::new(result), Effect::ReadOnly).await
    }

    async fn fail(&mut self, tool: &str, arguments: &str, result: &str) -> Got {
        self.call(tool, arguments, ToolOutput::error(result), Effect::ReadOnly).await
    }

    async fn write(&mut self, tool: &str, arguments: &str, result: &str) -> Got {
        self.call(tool, arguments, ToolOutput::new(result), Effect::Reversible).await
    }

    async fn call(&mut self, tool: &str, arguments: &str, output: ToolOutput, effect: Effect) -> Got {
        self.step += 1;
        *self.next.lock().expect("no panic") = output;
        let call = Call::to(tool).run("run").effect(effect).at_step(1, self.step);
        match self.tools.clone().oneshot(ToolCall::new("1", tool, arguments).with_call(call)).await {
            Ok(output) if output.content.contains("THINK") => Got::Warned,
            Ok(_) => Got::Passed,
            Err(error) => Got::Refused(error.rejected().map(Rejected::code).expect("ours")),
        }
    }
}

/// OpenHands/OpenHands#10350: empty polls of a long command were taken for a loop.
#[tokio::test(start_paused = true)]
async fn reported_27_empty_polls_of_a_long_command_are_let_be() {
    let pollable = Pollable::new(Duration::from_secs(10), Duration::from_secs(3_600));
    let mut agent = agent(LoopPolicy::default().tool("bash", ToolRules::default().pollable(pollable)));
    for _ in 0..300 {
        assert_eq!(agent.read("bash", r#"{"command":""}"#, "").await, Got::Passed);
        advance(Duration::from_secs(10)).await;
    }
    assert_eq!(agent.read("bash", r#"{"command":""}"#, "build finished").await, Got::Passed);
}

/// google-gemini/gemini-cli#5873: moving many files was taken for a loop.
#[tokio::test(start_paused = true)]
async fn reported_28_many_files_may_be_moved_one_by_one() {
    let mut agent = agent(LoopPolicy::default());
    for n in 0..100 {
        let arguments = format!(r#"{{"from":"src/part_{n}.rs","to":"src/parts/part_{n}.rs"}}"#);
        assert_eq!(agent.write("move", &arguments, "done").await, Got::Passed, "{n}");
    }
}

/// google-gemini/gemini-cli#20056: A, B, A, B was not seen.
#[tokio::test(start_paused = true)]
async fn reported_29_two_calls_in_turn_are_a_loop() {
    let mut agent = agent(LoopPolicy::default());
    let mut got = Vec::new();
    for _ in 0..3 {
        got.push(agent.read("read", "a", "text of a").await);
        got.push(agent.read("read", "b", "text of b").await);
    }
    assert_eq!(got, [Got::Passed, Got::Passed, Got::Warned, Got::Warned, REPEATED, ENDED]);
}

/// Illospace/illospace#506: a reworded reason in the arguments hid forty minutes of one and the same call.
#[tokio::test(start_paused = true)]
async fn reported_30_a_declared_volatile_field_hides_nothing() {
    let mut agent = agent(LoopPolicy::default().tool("query", ToolRules::default().volatile(["reason"])));
    let mut got = Vec::new();
    for reason in ["to check", "checking again", "let me verify this once more", "one last look"] {
        got.push(agent.read("query", &format!(r#"{{"id":7,"reason":"{reason}"}}"#), "0 rows").await);
    }
    assert_eq!(got, [Got::Passed, Got::Warned, REPEATED, ENDED]);
}

/// xalgorix/xalgorix#158: any answer that looked healthy set the counters back, 2,106 times.
#[tokio::test(start_paused = true)]
async fn reported_31_only_what_is_new_is_progress() {
    let mut agent = agent(LoopPolicy::default());
    let mut calls = 0;
    // A healthy answer every time, and never a new one.
    while agent.read(["scan", "list", "status"][calls % 3], "{}", "200 OK").await != ENDED {
        calls += 1;
        assert!(calls < 20);
    }
    assert_eq!(agent.read("scan", r#"{"target":"another"}"#, "201").await, ENDED);
}

/// macanderson/stella#359: a cycle of three was missed, and polling was stopped.
#[tokio::test(start_paused = true)]
async fn reported_32_a_cycle_of_three_ends_and_a_poll_goes_on() {
    let pollable = Pollable::new(Duration::from_secs(1), Duration::from_secs(600));
    let mut agent = agent(LoopPolicy::default().tool("job", ToolRules::default().pollable(pollable)));
    for _ in 0..500 {
        assert_eq!(agent.read("job", "7", "running").await, Got::Passed);
        advance(Duration::from_secs(1)).await;
    }
    let mut got = Vec::new();
    for n in 0..8 {
        let name = ["a", "b", "c"][n % 3];
        got.push(agent.read("read", name, &format!("the text of {name}")).await);
    }
    assert_eq!(got[3..], [Got::Warned, Got::Warned, Got::Warned, REPEATED, ENDED]);
}

/// roackb2/heddle#7: looking again after an edit was blocked.
#[tokio::test(start_paused = true)]
async fn reported_33_what_was_written_may_be_verified() {
    let mut agent = agent(LoopPolicy::default());
    for n in 0..30 {
        assert_eq!(agent.read("test", "all", "12 passed, 1 failed").await, Got::Passed);
        assert_eq!(agent.read("read", "a.rs", "fn main() {}").await, Got::Passed);
        assert_eq!(agent.write("edit", &format!("line {n}"), "edited").await, Got::Passed);
    }
}

/// RooCodeInc/Roo-Code#6834: with a limit of one the first call was blocked.
#[tokio::test(start_paused = true)]
async fn reported_34_the_first_call_repeats_nothing() {
    let error = LoopPolicy::default().repeats(1).validate().expect_err("impossible");
    assert_eq!(error.field(), "repeats");
    let mut agent = agent(LoopPolicy::default().repeats(2));
    assert_eq!(agent.read("read", "a", "text").await, Got::Passed);
}

/// gke-labs/gemini-for-kubernetes-development#680: a loop was found, and the program ended with 0.
#[tokio::test(start_paused = true)]
async fn reported_35_a_run_that_went_in_circles_did_not_succeed() {
    let tools = LoopDetectorLayer::new(LoopPolicy::default())
        .layer(service_fn(|_: ToolCall| async { Ok::<_, BoxError>(ToolOutput::new("text")) }));
    let ask = || ToolCall::new("1", "read", "a").with_call(Call::to("read").run("run").effect(Effect::ReadOnly));
    for _ in 0..3 {
        let _ = tools.clone().oneshot(ask()).await;
    }
    let error = tools.oneshot(ask()).await.expect_err("never an output");
    let rejected = error.rejected().expect("ours");
    assert_eq!((rejected.code(), rejected.advice()), (Refusal::LoopEnded, Advice::Stop));
    assert!(rejected.model_text().contains("It has not succeeded."));
    assert!(error.find::<Found>().is_some_and(|found| found.is_end && found.rule == Rule::Repeat));
}

/// Where each sequence is warned and where it ends, by its call, and what detectors in use make of it.
#[tokio::test(start_paused = true)]
async fn the_table_of_the_docs_holds() {
    type Make = fn(usize) -> (&'static str, String, ToolOutput, Effect);
    let rows: [(&str, Option<usize>, Option<usize>, Make); 15] = [
        ("same call, same result", Some(2), Some(4), |_| read("read", "a", "text")),
        ("same call, same error", Some(2), Some(4), |_| error("read", "a", "no such file: a")),
        ("poll, result changes", None, None, |n| read("job", "7", &format!("{n} of 60 done"))),
        ("poll, \"running\", undeclared", Some(2), Some(4), |_| read("job", "7", "running")),
        ("poll and sleep in turn, result changes", None, None, |n| match n % 2 {
            0 => read("job", "7", &format!("{n} of 60 done")),
            _ => write("sleep", "5", "slept"),
        }),
        ("key order flips", Some(2), Some(4), |n| {
            read("read", [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#][n % 2], "text")
        }),
        ("timestamp argument", Some(4), None, |n| {
            read("read", &format!(r#"{{"path":"a","at":"2026-01-31T12:{:02}:{:02}Z"}}"#, n / 9, n * 7 % 60), "text")
        }),
        ("A-B", Some(3), Some(6), |n| read("read", ["a", "b"][n % 2], ["text a", "text b"][n % 2])),
        ("A-B-C", Some(4), Some(8), |n| read("read", ["a", "b", "c"][n % 3], ["text a", "text b", "text c"][n % 3])),
        ("period 6", Some(7), Some(14), |n| read("read", &format!("{}", n % 6), &format!("text {}", n % 6))),
        ("one stray call in four", Some(2), Some(6), |n| match n % 4 {
            3 => read("read", &format!("stray {n}"), &format!("new {n}")),
            _ => read("read", "a", "text"),
        }),
        ("another edit, same failing test", Some(9), None, |n| match n % 2 {
            0 => error("test", "all", "assertion failed: left == right"),
            _ => write("edit", &format!("line {n}"), "edited"),
        }),
        ("another query, same error", Some(4), Some(7), |n| {
            error("sql", &format!("select {n}"), "no database selected")
        }),
        ("ids that do not exist", Some(5), Some(9), |n| {
            error("get", &format!("P{n}"), &format!("Error: plan with id P{n} not found"))
        }),
        ("many moves", None, None, |n| write("move", &format!("part_{n}"), "done")),
    ];
    for (name, warned, ended, make) in rows {
        let mut agent = agent(LoopPolicy::default());
        let (mut first_warned, mut first_ended) = (None, None);
        for n in 0..60 {
            let (tool, arguments, output, effect) = make(n);
            match agent.call(tool, &arguments, output, effect).await {
                Got::Passed => {}
                ENDED => first_ended = first_ended.or(Some(n + 1)),
                Got::Warned | Got::Refused(_) => first_warned = first_warned.or(Some(n + 1)),
            }
        }
        assert_eq!((first_warned, first_ended), (warned, ended), "{name}");
    }
}

fn read(tool: &'static str, arguments: &str, result: &str) -> (&'static str, String, ToolOutput, Effect) {
    (tool, arguments.to_owned(), ToolOutput::new(result), Effect::ReadOnly)
}

fn error(tool: &'static str, arguments: &str, result: &str) -> (&'static str, String, ToolOutput, Effect) {
    (tool, arguments.to_owned(), ToolOutput::error(result), Effect::ReadOnly)
}

fn write(tool: &'static str, arguments: &str, result: &str) -> (&'static str, String, ToolOutput, Effect) {
    (tool, arguments.to_owned(), ToolOutput::new(result), Effect::Reversible)
}

/// Sequences out of the tests of other detectors: wherever theirs fires, ours has at least warned by then.
#[tokio::test(start_paused = true)]
async fn what_other_detectors_find_is_found_no_later() {
    let shared = std::env::var("BELAY_SHARED").unwrap_or_else(|_| "../shared".to_owned());
    let Ok(cases) = std::fs::read_to_string(format!("{shared}/trajectories/anchor-cases.jsonl")) else {
        println!("skipped: no anchor cases under {shared}");
        return;
    };
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let mut agent = agent(LoopPolicy::default());
        let mut told = None;
        for (at, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
            let preview = step["result_preview"].as_str().expect("a result");
            let got = match step["is_error"].as_bool() {
                Some(true) => agent.fail("t", &step["arguments"].to_string(), preview).await,
                _ => agent.read("t", &step["arguments"].to_string(), preview).await,
            };
            if got != Got::Passed {
                told = told.or(Some(at as u64));
            }
        }
        if let Some(fires) = case["fires_at"].as_u64() {
            assert!(told.is_some_and(|told| told <= fires), "{}: {told:?}", case["source"]);
        }
    }
}
