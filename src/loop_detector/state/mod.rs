//! One run: what it did, and what becomes of its next call. Pure: a step and an instant in, a decision out.

mod memory;
mod near;
mod outcome;
#[cfg(test)]
mod tests;

use tokio::time::Instant;

pub(super) use self::outcome::{Outcome, OutcomeKind};
use self::{memory::Memory, near::Near, outcome::Lines};
use super::{
    config::LoopPolicy,
    found::{Found, Rule},
    sketch::Sketch,
};

/// A call, without what it carries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) tool: u64,
    /// Tool and arguments.
    pub(super) key: u64,
    pub(super) words: Sketch,
    pub(super) is_write: bool,
    /// The turn of the conversation, and the step of the run; calls of one step are a batch. Step 0 is not told.
    pub(super) turn: u32,
    pub(super) step: u32,
    pub(super) pollable: Option<crate::tool::Pollable>,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is sent.
    Pass,
    /// It is not sent; by then it may be.
    Pace(Instant),
    /// It is not sent.
    Refuse(Found),
    /// It is not sent, nor is any other.
    End(Found),
}

/// When a call was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    epoch: u32,
    step: u32,
}

/// What a run did.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// User's turns. A result of an earlier one says nothing about this one.
    epoch: u32,
    turn: u32,
    /// Steps so far; a batch is one.
    step: u32,
    batch: u32,
    /// Results that said something new.
    news: u32,
    warnings: u32,
    refusals: u32,
    /// The last step with a refusal since there was news.
    refused_at: Option<u32>,
    ended: Option<Found>,
    is_over: bool,
    memory: Memory,
    lines: Lines,
    near: Near,
}

impl Run {
    pub(super) const fn ended(&self) -> Option<Found> {
        self.ended
    }

    pub(super) const fn counts(&self) -> (u32, u32, u32) {
        (self.step, self.warnings, self.refusals)
    }

    /// How many things are remembered.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.memory.size() + self.lines.size() + self.near.size()
    }

    /// Forgets everything; what is still under way belongs to nobody.
    pub(super) fn close(&mut self) {
        *self = Self { epoch: self.epoch.wrapping_add(1), is_over: true, ..Self::default() };
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// A call comes. With `may_end` unset it is refused where the run would end.
    pub(super) fn admit(&mut self, step: &Step, now: Instant, policy: &LoopPolicy, may_end: bool) -> Decision {
        if step.turn > self.turn {
            self.turn = step.turn;
            self.user_spoke();
        }
        if let Some(found) = self.ended {
            return Decision::End(found);
        }
        if step.step == 0 || step.step != self.batch {
            self.batch = step.step;
            self.step = self.step.saturating_add(1);
        }
        let Some(known) = self.memory.get(step.key) else { return Decision::Pass };
        let times = known.times();
        let is_useless = match step.pollable {
            Some(pollable) => {
                let free = known.answered_at + pollable.min_interval;
                if now < free {
                    return Decision::Pace(free);
                }
                now.saturating_duration_since(known.changed_at) >= pollable.max_wait
            }
            // At once again, or once more among other calls.
            None => {
                (known.is_repeated(policy.repeats) && known.news == self.news)
                    || (known.is_overdue(policy.repeats) && self.step - known.step <= policy.window)
            }
        };
        let is_refused_now = known.is_refused_in(self.step);
        if !is_useless || (known.step == self.step && !is_refused_now) {
            return Decision::Pass;
        }
        // The agent was told to do something else, and did.
        if known.is_forgiven(self.news) {
            return Decision::Pass;
        }
        let found = Found::new(Rule::Repeat, times, known.result);
        if is_refused_now {
            return Decision::Refuse(found);
        }
        let was_refused = self.refused_at.is_some_and(|at| at < self.step) || known.was_refused(self.step);
        if may_end && (was_refused || self.refusals >= policy.refusals) {
            self.ended = Some(found);
            return Decision::End(found);
        }
        known.refuse(self.step, self.news);
        self.refusals += 1;
        self.refused_at = Some(self.step);
        Decision::Refuse(found)
    }

    /// For the call that was let through just now.
    pub(super) const fn ticket(&self) -> Ticket {
        Ticket { epoch: self.epoch, step: self.step }
    }

    /// A call that was let through has its result. What is found warns, or ended the run.
    pub(super) fn settle(
        &mut self,
        step: &Step,
        ticket: Ticket,
        outcome: &Outcome,
        now: Instant,
        policy: &LoopPolicy,
        may_end: bool,
    ) -> Option<Found> {
        // What the user said came in between.
        if ticket.epoch != self.epoch || self.ended.is_some() {
            return None;
        }
        let grace = u32::from(outcome.kind == OutcomeKind::Transient);
        let known = self.memory.settle(step, ticket.step, outcome, now);
        let mut is_news = known.is_new;
        let repeat = (!is_news && step.pollable.is_none() && known.times >= policy.repeats + grace)
            .then(|| Found::new(Rule::Repeat, known.times, outcome.digest));
        let line = self.lines.add(step, ticket.step, outcome);
        is_news &= !line.is_old_failure;
        let (line, ends) = line.found(outcome, policy);
        let futile = match self.memory.failures(step.key, outcome) {
            times if times >= policy.futile => Some(times),
            _ => (known.failed > policy.repeats + grace).then_some(known.failed),
        };
        let futile = futile.map(|times| Found::new(Rule::Futile, times, outcome.digest));
        let near = if step.is_write || step.pollable.is_some() {
            0
        } else {
            self.near.add(step, ticket.step, outcome, policy)
        };
        let near = (near >= policy.near).then(|| Found::new(Rule::Near, near, outcome.digest));
        if known.is_change {
            self.changed(step.key);
        }
        if step.is_write && outcome.kind == OutcomeKind::Good {
            if self.memory.is_known_write(step.key, outcome.digest) {
                is_news = false;
            } else if is_news {
                self.changed(step.key);
                self.lines = Lines::default();
                self.near = Near::default();
            }
        }
        if is_news {
            self.news = self.news.wrapping_add(1);
            self.refused_at = None;
        }
        self.memory.mark(step.key, self.news);
        let found = repeat.or(line).or(futile).or(near)?;
        self.warnings += 1;
        if let (true, true, Some(found)) = (ends, may_end, line) {
            self.ended = Some(found);
            return Some(found.ending());
        }
        Some(found)
    }

    /// A write changed something, or a read shows that something did: what else was read may read otherwise now.
    fn changed(&mut self, key: u64) {
        self.memory.renew_all_but(key);
        self.refusals = 0;
        self.refused_at = None;
    }

    /// The user spoke: what was asked before may be asked again, and a run that had ended goes on.
    pub(super) fn user_spoke(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.news = self.news.wrapping_add(1);
        self.memory.user_spoke();
        self.lines = Lines::default();
        self.near = Near::default();
        self.refusals = 0;
        self.refused_at = None;
        self.ended = None;
    }
}
