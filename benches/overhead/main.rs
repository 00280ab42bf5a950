//! What a call costs above the bare service, ours beside its peers: nanoseconds alone and contended, allocations, and
//! instructions counted by callgrind.
//!
//! ```text
//! cargo bench --bench overhead                      everything
//! cargo bench --bench overhead -- --part breakers   or `stack`, `reading`, `loops`
//! cargo bench --bench overhead -- --subject NAME --iters N   one subject, N times, nothing measured: for profilers
//! ```
//!
//! Nanoseconds on a shared machine mean little; their ratio within one run does. Subjects take turns in short rounds, each
//! round's order one step on from the last, and what is reported is the median over the rounds of the difference to the
//! bare service *of the same round*. Allocations and instructions are exact and repeat, so they alone are held to a budget:
//! the program fails when one is exceeded.

mod alloc;
mod breakers;
mod harness;
mod loops;
mod reading;
mod stack;
mod streams;

use std::process::ExitCode;

use harness::Subject;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).map(String::as_str)
    };

    if let Some(name) = value("--subject") {
        let iterations = value("--iters").and_then(|n| n.parse().ok()).unwrap_or(1_000);
        return run_one(name, iterations);
    }
    let part = value("--part");
    let mut kept = true;
    if part.is_none_or(|part| part == "breakers") {
        kept = breakers::report();
    }
    if part.is_none_or(|part| part == "stack") {
        kept &= stack::report();
    }
    if part.is_none_or(|part| part == "reading") {
        reading::report();
    }
    if part.is_none_or(|part| part == "loops") {
        loops::report();
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_one(name: &str, iterations: usize) -> ExitCode {
    let subjects: Vec<Box<dyn Subject>> =
        [breakers::subjects(), stack::subjects(), stack::amending(), reading::subjects()]
            .into_iter()
            .flatten()
            .collect();
    let Some(subject) = subjects.iter().find(|subject| subject.name() == name) else {
        eprintln!("no such subject; there are:");
        subjects.iter().for_each(|subject| eprintln!("  {}", subject.name()));
        return ExitCode::FAILURE;
    };
    (subject.caller())(iterations);
    ExitCode::SUCCESS
}
