//! Whatever a run does.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
struct Any {
    tool: u8,
    arguments: u8,
    result: u8,
    kind: OutcomeKind,
    is_write: bool,
    turn: u32,
    step: u32,
    is_polled: bool,
    late: bool,
    seconds: u64,
}

fn any() -> impl Strategy<Value = Any> {
    let kind = prop_oneof![Just(OutcomeKind::Good), Just(OutcomeKind::Failed), Just(OutcomeKind::Transient)];
    let flags = (any_bool(), any_bool(), any_bool());
    (0..40_u8, 0..=255_u8, 0..4_u8, kind, flags, prop_oneof![9 => Just(0_u32), 1 => 0..5_u32], 0..9_u32, 0..9_u64)
        .prop_map(|(tool, arguments, result, kind, (is_write, is_polled, late), turn, step, seconds)| Any {
            tool,
            arguments,
            result,
            kind,
            is_write,
            turn,
            step,
            is_polled,
            late,
            seconds,
        })
}

fn any_bool() -> impl Strategy<Value = bool> {
    proptest::bool::ANY
}

proptest! {
    #[test]
    fn whatever_comes_memory_is_bounded_and_an_end_is_kept(all in proptest::collection::vec(any(), 0..600)) {
        let mut told = Told::new();
        let mut late = Vec::new();
        for one in all {
            told.now += Duration::from_secs(one.seconds);
            let pollable = one.is_polled.then(|| Pollable::new(Duration::from_secs(2), Duration::from_secs(9)));
            let named = told.step(&one.tool.to_string(), &one.arguments.to_string());
            let step = Step { is_write: one.is_write, turn: one.turn, step: one.step, pollable, ..named };
            let outcome = Outcome { kind: one.kind, ..failed(&one.result.to_string()) };
            let had_ended = told.run.ended().is_some();
            let before = told.run.epoch;
            let decision = told.run.admit(&step, told.now, &told.policy, true);
            if had_ended && told.run.epoch == before {
                prop_assert!(matches!(decision, Decision::End(_)));
            }
            if decision == Decision::Pass {
                late.push((step, told.run.ticket(), outcome));
                if !one.late {
                    for (step, ticket, outcome) in late.drain(..) {
                        told.run.settle(&step, ticket, &outcome, told.now, &told.policy, true);
                    }
                }
            }
            prop_assert!(told.run.size() <= 64 + 16 * 4);
        }
    }

    #[test]
    fn a_run_that_is_always_new_is_never_held_back(calls in proptest::collection::vec((0..5_u8, proptest::bool::ANY), 1..200)) {
        let mut told = Told::new();
        for (n, (tool, is_write)) in calls.into_iter().enumerate() {
            told.step += 1;
            let step = Step { is_write, ..told.step(&tool.to_string(), &format!("{n} of a kind {}", n * 31)) };
            prop_assert_eq!(told.made(step, good(&format!("{n} {} {}", n * 17, n * 91))), Passed);
        }
    }
}
