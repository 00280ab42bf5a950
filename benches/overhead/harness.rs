//! Rounds, medians, threads, and the callgrind run.
#![allow(clippy::disallowed_types)] // The real clock is what a benchmark reads.

use std::hint::spin_loop;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::alloc;

/// Runs `n` iterations on its own thread.
pub(crate) type Caller = Box<dyn FnMut(usize) + Send>;

/// Something to measure.
pub(crate) trait Subject: Sync {
    fn name(&self) -> &str;
    /// One more user of whatever the subject's callers share.
    fn caller(&self) -> Caller;
}

/// What one iteration costs. [`measure`] gives it twice: by itself, and above the first subject.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) nanos: f64,
    pub(crate) contended: Option<f64>,
    pub(crate) allocations: f64,
    pub(crate) instructions: Option<f64>,
}

/// How long to measure.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Iterations a subject makes in one round.
    pub(crate) iterations: usize,
}

/// The cost of each subject by itself, and above that of the first.
pub(crate) fn measure(subjects: &[Box<dyn Subject>], effort: Effort, contended: bool) -> Vec<(Cost, Cost)> {
    let alone = rounds(subjects.len(), effort.rounds, {
        let mut callers: Vec<Caller> = subjects.iter().map(|subject| subject.caller()).collect();
        move |subject| {
            let start = Instant::now();
            callers[subject](effort.iterations);
            start.elapsed().as_nanos() as f64 / effort.iterations as f64
        }
    });
    let shared = contended.then(|| meetings(subjects, effort));
    let exact: Vec<_> = subjects
        .iter()
        .map(|subject| (allocations(subject.as_ref(), effort.iterations), instructions(subject.name(), effort)))
        .collect();

    (0..subjects.len())
        .map(|i| {
            let own = Cost {
                nanos: median(alone.iter().map(|round| round[i])),
                contended: shared.as_ref().and_then(|shared| met(shared.iter().filter_map(|round| round[i]))),
                allocations: exact[i].0,
                instructions: exact[i].1,
            };
            let above = Cost {
                nanos: median(alone.iter().map(|round| round[i] - round[0])),
                contended: shared.as_ref().and_then(|shared| {
                    met(shared.iter().filter_map(|round| round[i].zip(round[0]).map(|(own, bare)| own - bare)))
                }),
                allocations: exact[i].0 - exact[0].0,
                instructions: exact[i].1.zip(exact[0].1).map(|(own, bare)| own - bare),
            };
            (own, above)
        })
        .collect()
}

/// One line a round, one column a subject. The first two rounds warm up and are left out.
fn rounds<T>(subjects: usize, rounds: usize, mut time: impl FnMut(usize) -> T) -> Vec<Vec<T>> {
    let mut lines = Vec::with_capacity(rounds);
    for round in 0..rounds + 2 {
        let first = round % subjects;
        let mut line: Vec<T> = (0..subjects).map(|turn| time((first + turn) % subjects)).collect();
        line.rotate_right(first);
        lines.push(line);
    }
    lines.split_off(2)
}

/// Rounds of [`two_threads`] until every subject had enough meetings, within reason.
fn meetings(subjects: &[Box<dyn Subject>], effort: Effort) -> Vec<Vec<Option<f64>>> {
    let mut lines = Vec::new();
    for _ in 0..8 {
        lines.extend(two_threads(subjects, effort));
        let met = |i: usize| lines.iter().filter(|line| line[0].and(line[i]).is_some()).count();
        if (0..subjects.len()).all(|i| met(i) >= 15) {
            break;
        }
    }
    lines
}

/// Two threads at once, each with a caller of its own; an iteration's cost is the mean of what the two saw. `None` where
/// they did not truly meet: on a busy machine one may have run after the other.
fn two_threads(subjects: &[Box<dyn Subject>], effort: Effort) -> Vec<Vec<Option<f64>>> {
    let iterations = effort.iterations * 4;
    let arrived = AtomicUsize::new(0);
    let run = || {
        let mut callers: Vec<Caller> = subjects.iter().map(|subject| subject.caller()).collect();
        let (arrived, mut expected) = (&arrived, 0);
        move || {
            rounds(subjects.len(), effort.rounds / 4, |subject| {
                expected += 2;
                arrived.fetch_add(1, Ordering::AcqRel);
                let mut turns = 0u32;
                while arrived.load(Ordering::Acquire) < expected {
                    turns += 1;
                    if turns.is_multiple_of(1024) { std::thread::yield_now() } else { spin_loop() }
                }
                let start = Instant::now();
                callers[subject](iterations);
                (start, Instant::now())
            })
        }
    };
    let (mut here, there) = (run(), run());
    let (ours, theirs) = std::thread::scope(|scope| {
        let other = scope.spawn(there);
        (here(), other.join().expect("a benchmark's thread does not panic"))
    });

    let met = |(a, b): (&(Instant, Instant), &(Instant, Instant))| {
        let together = a.1.min(b.1).saturating_duration_since(a.0.max(b.0));
        let (here, there) = (a.1 - a.0, b.1 - b.0);
        (together * 10 >= here.max(there) * 9).then(|| (here + there).as_nanos() as f64 / 2.0 / iterations as f64)
    };
    ours.iter().zip(&theirs).map(|(a, b)| a.iter().zip(b).map(met).collect()).collect()
}

fn allocations(subject: &dyn Subject, iterations: usize) -> f64 {
    let mut caller = subject.caller();
    caller(iterations);
    let before = alloc::count();
    caller(iterations);
    (alloc::count() - before) as f64 / iterations as f64
}

/// Instructions an iteration: this program again under callgrind, twice, so that start-up and warm-up cancel out.
fn instructions(name: &str, effort: Effort) -> Option<f64> {
    let (few, many) = (effort.iterations.min(1_000), effort.iterations.min(1_000) * 3);
    let count = |iterations| callgrind(name, iterations);
    Some((count(many)? - count(few)?) as f64 / (many - few) as f64)
}

fn callgrind(name: &str, iterations: usize) -> Option<i64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["--subject", name, "--iters", &iterations.to_string()])
        .output()
        .ok()?;
    let log = String::from_utf8_lossy(&output.stderr);
    let collected = log.lines().find_map(|line| line.split_once("Collected :"))?.1;
    output.status.success().then(|| collected.trim().parse().ok()).flatten()
}

/// The median, if the threads met often enough to have one.
fn met(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (values.len() >= 5).then(|| median(values.into_iter()))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// A number as the report prints it; `n/a` where there is none.
pub(crate) fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.decimals$}"))
}
