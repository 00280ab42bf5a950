//! What calls bring, and how often running one tool brings the same.

use super::{Found, LoopPolicy, Rule, Sketch, Step};

/// So many tools are followed at a time.
const TOOLS: usize = 16;

/// A result, without its text.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Outcome {
    pub(in super::super) digest: u64,
    /// Of an error: what it shares with those that quote and count otherwise.
    pub(in super::super) shape: Option<u64>,
    pub(in super::super) words: Sketch,
    pub(in super::super) kind: OutcomeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum OutcomeKind {
    Good,
    Failed,
    /// It failed, and may fare better in a moment.
    Transient,
}

/// What each tool brought last.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<Line>);

/// What one tool brings, running.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    tool: u64,
    key: u64,
    step: u32,
    has_failed: bool,
    digest: u64,
    same: u32,
    shape: Option<u64>,
    alike: u32,
    /// It failed like this just before.
    pub(super) is_old_failure: bool,
}

#[cfg(test)]
pub(super) const SIZE: usize = size_of::<Line>();

impl Lines {
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, made: &Step, step: u32, outcome: &Outcome) -> Line {
        let has_failed = outcome.kind != OutcomeKind::Good;
        let fresh = Line {
            tool: made.tool,
            key: made.key,
            step,
            has_failed,
            digest: outcome.digest,
            same: 1,
            shape: outcome.shape,
            alike: 1,
            is_old_failure: false,
        };
        let Some(line) = self.0.iter_mut().find(|line| line.tool == made.tool) else {
            if self.0.len() == TOOLS {
                self.0.remove(0);
            }
            self.0.push(fresh);
            return fresh;
        };
        // A batch is one step.
        let more = u32::from(line.step != step);
        let is_same = line.has_failed == has_failed && line.digest == outcome.digest;
        // Repeated reads are another rule's; writes that all bring "done" are many writes.
        let counts = has_failed || (line.key != made.key && !made.is_write && made.pollable.is_none());
        let is_alike = line.has_failed && has_failed && line.shape.is_some() && line.shape == outcome.shape;
        *line = Line {
            same: if is_same { line.same.saturating_add(if counts { more } else { 0 }) } else { 1 },
            alike: if is_alike { line.alike.saturating_add(more) } else { 1 },
            ..fresh
        };
        line.is_old_failure = has_failed && (is_same || line.alike >= 3);
        *line
    }
}

impl Line {
    /// What was found, and whether it ends the run.
    pub(super) fn found(&self, outcome: &Outcome, policy: &LoopPolicy) -> (Option<Found>, bool) {
        let found = |rule, times| Some(Found::new(rule, times, outcome.digest));
        let (failures, alike) = (policy.failures, policy.failures_alike);
        match self {
            Self { has_failed: false, same, .. } if *same >= policy.same_answer => {
                (found(Rule::SameAnswer, *same), false)
            }
            Self { has_failed: false, .. } => (None, false),
            Self { same, .. } if *same >= failures.warn => (found(Rule::Failing, *same), *same >= failures.end),
            Self { alike: times, .. } if *times >= alike.warn => {
                (found(Rule::FailingAlike, *times), *times >= alike.end)
            }
            Self { .. } => (None, false),
        }
    }
}
