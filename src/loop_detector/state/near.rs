//! Calls that are nearly the same and bring nearly the same.

use std::collections::VecDeque;

use super::{LoopPolicy, Outcome, Sketch, Step};

/// So many calls are compared at most.
const COMPARED: usize = 16;
/// How much of the words of two calls, and of two results, has to agree, in percent.
const ARGUMENTS: u32 = 60;
const RESULTS: u32 = 80;

/// The last reads of a run.
#[derive(Debug, Default)]
pub(super) struct Near {
    last: VecDeque<Read>,
}

#[derive(Debug)]
struct Read {
    tool: u64,
    step: u32,
    asked: Sketch,
    got: Sketch,
}

#[cfg(test)]
pub(super) const SIZE: usize = size_of::<Read>();

impl Near {
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.last.len()
    }

    /// A read had its result. How many of the last ones were nearly the same, with itself.
    pub(super) fn add(&mut self, made: &Step, step: u32, outcome: &Outcome, policy: &LoopPolicy) -> u32 {
        let is_near = |read: &&Read| {
            read.tool == made.tool
                && read.step != step
                && step.saturating_sub(read.step) <= policy.window
                && read.got.has_numbers_of(&outcome.words)
                && read.got.likeness(&outcome.words) >= RESULTS
                && read.asked.likeness(&made.words) >= ARGUMENTS
        };
        let near = self.last.iter().filter(is_near).count() as u32;
        if self.last.len() == COMPARED {
            self.last.pop_front();
        }
        self.last.push_back(Read { tool: made.tool, step, asked: made.words, got: outcome.words });
        near + 1
    }
}
