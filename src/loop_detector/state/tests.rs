use std::time::Duration;

use super::*;
use crate::{loop_detector::sketch::name, tool::Pollable};

mod any;

/// A run, and how its steps are told.
struct Told {
    run: Run,
    policy: LoopPolicy,
    now: Instant,
    turn: u32,
    step: u32,
}

#[derive(Debug, PartialEq)]
enum Came {
    Passed,
    Warned(Rule),
    EndedBy(Rule),
    Paced,
    Refused,
    Ended,
}

use Came::{Ended, EndedBy, Paced, Passed, Refused, Warned};

impl Told {
    fn new() -> Self {
        Self { run: Run::default(), policy: LoopPolicy::default(), now: Instant::now(), turn: 1, step: 0 }
    }

    fn step(&self, tool: &str, arguments: &str) -> Step {
        let (tool, words) = (name(tool), Sketch::of(arguments));
        let key = tool ^ name(arguments).rotate_left(1);
        Step { tool, key, words, is_write: false, turn: self.turn, step: self.step, pollable: None }
    }

    /// A step of its own.
    fn call(&mut self, tool: &str, arguments: &str, result: &str) -> Came {
        self.step += 1;
        self.made(self.step(tool, arguments), good(result))
    }

    fn fail(&mut self, tool: &str, arguments: &str, result: &str) -> Came {
        self.step += 1;
        self.made(self.step(tool, arguments), failed(result))
    }

    fn write(&mut self, arguments: &str, result: &str) -> Came {
        self.step += 1;
        self.made(Step { is_write: true, ..self.step("edit", arguments) }, good(result))
    }

    fn made(&mut self, step: Step, outcome: Outcome) -> Came {
        match self.run.admit(&step, self.now, &self.policy, true) {
            Decision::Pace(_) => Paced,
            Decision::Refuse(_) => Refused,
            Decision::End(_) => Ended,
            Decision::Pass => {
                let ticket = self.run.ticket();
                match self.run.settle(&step, ticket, &outcome, self.now, &self.policy, true) {
                    None => Passed,
                    Some(found) if found.is_end => EndedBy(found.rule),
                    Some(found) => Warned(found.rule),
                }
            }
        }
    }
}

fn good(result: &str) -> Outcome {
    Outcome { digest: name(result), shape: None, words: Sketch::of(result), kind: OutcomeKind::Good }
}

fn failed(result: &str) -> Outcome {
    Outcome { shape: crate::loop_detector::mask::shape(result), kind: OutcomeKind::Failed, ..good(result) }
}

#[test]
fn the_second_is_warned_the_third_refused_and_the_fourth_ends_the_run() {
    let mut run = Told::new();
    let came: Vec<_> = (0..6).map(|_| run.call("read", "a", "text")).collect();
    assert_eq!(came, [Passed, Warned(Rule::Repeat), Refused, Ended, Ended, Ended]);
}

#[test]
fn a_new_result_is_progress() {
    let mut run = Told::new();
    for n in 0..50 {
        assert_eq!(run.call("status", "job", &format!("{n} of 50 done, now at {}", n * 7)), Passed, "{n}");
    }
}

#[test]
fn cycles_of_any_period_to_eight_end() {
    for period in 1..=8 {
        let mut run = Told::new();
        let call = |run: &mut Told, n: usize| {
            run.call("read", &format!("file {}", n % period), &format!("text {}", n % period))
        };
        let came: Vec<_> = (0..period * 4).map(|n| call(&mut run, n)).collect();
        assert!(came[..period].iter().all(|came| *came == Passed), "{period}: {came:?}");
        assert_eq!(came[period], Warned(Rule::Repeat), "{period}");
        assert_eq!(came[period * 2], Refused, "{period}: {came:?}");
        assert!(came.contains(&Ended), "{period}: {came:?}");
    }
}

#[test]
fn a_stray_call_now_and_then_hides_nothing() {
    let mut run = Told::new();
    let came: Vec<_> = (0..16)
        .map(|n| {
            if n % 4 == 3 {
                run.call("read", &format!("stray {n}"), &format!("new {n}"))
            } else {
                run.call("read", "a", "text")
            }
        })
        .collect();
    assert_eq!(came[..3], [Passed, Warned(Rule::Repeat), Refused]);
    // It did something else, and may come once more.
    assert_eq!(came[3..7], [Passed, Warned(Rule::Repeat), Ended, Ended]);
}

#[test]
fn rereading_after_an_edit_is_fine_and_repeating_the_edit_is_not() {
    let mut run = Told::new();
    for n in 0..20 {
        assert_eq!(run.call("test", "all", "12 passed"), Passed);
        assert_eq!(run.write(&format!("line {n}"), "written"), Passed);
    }
    let came: Vec<_> = (0..4).map(|_| run.write("line 19", "written")).collect();
    assert_eq!(came, [Warned(Rule::Repeat), Refused, Ended, Ended]);
}

#[test]
fn writes_that_undo_each_other_are_no_progress() {
    let mut run = Told::new();
    let came: Vec<_> = (0..10).map(|n| run.write(["on", "off"][n % 2], "done")).collect();
    assert!(came.contains(&Refused) && came.contains(&Ended), "{came:?}");
}

#[test]
fn a_failed_write_is_no_progress() {
    let mut run = Told::new();
    run.call("read", "a", "text");
    run.step += 1;
    let step = Step { is_write: true, ..run.step("edit", "a") };
    run.made(step, failed("no such file"));
    assert_eq!(run.call("read", "a", "text"), Warned(Rule::Repeat));
}

#[test]
fn what_the_user_says_begins_anew_and_a_failure_stays_known() {
    let mut run = Told::new();
    for _ in 0..4 {
        run.call("read", "a", "text");
    }
    assert!(run.run.ended().is_some());
    run.turn += 1;
    assert_eq!(run.call("read", "a", "text"), Passed);
    assert_eq!(run.fail("pay", "card", "card 7 not found"), Passed);
    run.turn += 1;
    // It may be tried: the user may have mended it. But it is told at once.
    assert_eq!(run.fail("pay", "card", "card 7 not found"), Warned(Rule::Repeat));
    assert_eq!(run.fail("pay", "card", "card 7 not found"), Refused);
}

#[test]
fn one_failure_whatever_the_arguments_warns_and_ends() {
    let mut run = Told::new();
    let came: Vec<_> = (0..7).map(|n| run.fail("sql", &format!("select {n}"), "no database selected")).collect();
    let warned = || Warned(Rule::Failing);
    assert_eq!(came, [Passed, Passed, Passed, warned(), warned(), EndedBy(Rule::Failing), Ended]);
    let mut run = Told::new();
    let failures: Vec<_> =
        (0..9).map(|n| run.fail("get", &format!("P{n}"), &format!("Error: plan with id P{n} not found"))).collect();
    assert_eq!(failures[4], Warned(Rule::FailingAlike));
    assert_eq!(failures[7..], [EndedBy(Rule::FailingAlike), Ended]);
}

#[test]
fn a_batch_is_one_step() {
    let mut run = Told::new();
    run.step = 1;
    // Ten of the same at once, and ten failures of one tool.
    for _ in 0..10 {
        let step = run.step("read", "a");
        assert_eq!(run.made(step, good("text")), Passed);
    }
    for n in 0..10 {
        let step = run.step("fetch", &format!("https://{n}.example"));
        assert_eq!(run.made(step, failed("network unreachable")), Passed);
    }
    // A batch that comes again: all of it is refused, and the run goes on.
    for (step, expected) in [(2, Warned(Rule::Repeat)), (3, Refused), (4, Ended)] {
        run.step = step;
        let a = run.step("read", "a");
        assert_eq!(run.made(a, good("text")), expected);
        if step == 3 {
            assert_eq!(run.made(a, good("text")), Refused);
        }
    }
}

#[test]
fn a_poll_is_paced_and_not_counted_until_it_has_waited_too_long() {
    let mut run = Told::new();
    let pollable = Pollable::new(Duration::from_secs(5), Duration::from_secs(60));
    let mut poll = |result: &str, after: u64| {
        run.now += Duration::from_secs(after);
        run.step += 1;
        let step = Step { pollable: Some(pollable), ..run.step("status", "job") };
        run.made(step, good(result))
    };
    assert_eq!(poll("running", 0), Passed);
    assert_eq!(poll("running", 1), Paced);
    for _ in 0..11 {
        assert_eq!(poll("running", 5), Passed);
    }
    assert_eq!(poll("still running", 4), Paced);
    assert_eq!(poll("running 80 %", 1), Refused, "60 s without a change");
    assert_eq!(poll("running", 5), Ended);
}

#[test]
fn a_failure_that_may_pass_is_tried_once_more() {
    let mut run = Told::new();
    let busy = Outcome { kind: OutcomeKind::Transient, ..failed("503 service unavailable") };
    let mut came = || {
        run.step += 1;
        let step = run.step("get", "order");
        run.made(step, busy)
    };
    assert_eq!([came(), came(), came(), came(), came()], [Passed, Passed, Warned(Rule::Repeat), Refused, Ended]);
}

#[test]
fn what_came_before_the_user_spoke_says_nothing_afterwards() {
    let mut run = Told::new();
    run.call("read", "a", "text");
    let step = run.step("read", "a");
    assert_eq!(run.run.admit(&step, run.now, &run.policy, true), Decision::Pass);
    let ticket = run.run.ticket();
    run.run.user_spoke();
    assert_eq!(run.run.settle(&step, ticket, &good("text"), run.now, &run.policy, true), None);
    run.turn += 1;
    assert_eq!(run.call("read", "a", "text"), Passed);
}

#[test]
fn a_run_is_small() {
    let most = 64 * size_of::<memory::Known>() + 16 * (near::SIZE + outcome::SIZE + size_of::<(u64, u64, u32)>() * 2);
    assert!(most + size_of::<Run>() < 12 << 10, "{most}");
}
