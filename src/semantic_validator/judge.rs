//! Judges one answer.

use std::sync::Arc;

use super::{Answered, LAYER, Validate, text::broken};
use crate::{
    call::Call,
    error::Failure,
    reason::{Class, Reason},
    verdict::Verdict,
    violation::Violations,
    wire::Reading,
};

#[derive(Clone)]
pub(super) struct Judge {
    validator: Arc<dyn Validate>,
    dry_run: bool,
}

impl Judge {
    pub(super) fn new(validator: Arc<dyn Validate>) -> Self {
        Self { validator, dry_run: false }
    }

    pub(super) fn dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn needs_text(&self) -> bool {
        self.validator.needs_text()
    }

    /// The verdict on an answer, or why it cannot be used. Its tokens were spent either way.
    pub(super) fn judge(&self, call: &Call, reading: Option<&Reading>, verdict: &Verdict) -> Result<Verdict, Failure> {
        if !verdict.is_success() {
            return self.judge_bad(reading, verdict);
        }
        let Some(reading) = reading else {
            return self.fails(verdict, unreadable(Reason::Unparsable)).map(|()| verdict.clone());
        };
        // What the model goes on with, or makes later, is judged then.
        if matches!(verdict.reason, Reason::Paused | Reason::Accepted) {
            return Ok(verdict.clone());
        }
        let is_cut = self.needs_text() && reading.text.is_none();
        let answer = Answered {
            call,
            text: reading.text.as_deref().unwrap_or_default(),
            tool_calls: &reading.tool_calls,
            reading,
        };
        let found = match () {
            // Part of it was not kept, or there are others beside it: whatever is said of this is said of another answer.
            () if is_cut || reading.incomplete || reading.more_choices => Err(unreadable(Reason::SchemaViolation)),
            () => self.validator.validate(&answer),
        };
        if let Err(violations) = found {
            self.fails(verdict, violations)?;
        }
        Ok(match self.validator.score(&answer) {
            Some(score) => verdict.clone().with_score(score),
            None => verdict.clone(),
        })
    }

    /// An answer that is known to be bad is its reader's to judge, but for tool calls in it: cut ones must never run.
    fn judge_bad(&self, reading: Option<&Reading>, verdict: &Verdict) -> Result<Verdict, Failure> {
        let has_calls = reading.is_some_and(|reading| !reading.tool_calls.is_empty());
        if verdict.class() == Class::Malformed && has_calls && !self.dry_run {
            return Err(Failure::new(verdict.clone()));
        }
        Ok(verdict.clone())
    }

    fn fails(&self, verdict: &Verdict, violations: Violations) -> Result<(), Failure> {
        let reason = violations.reason.code();
        tracing::debug!(layer = LAYER, reason, %violations, dry_run = self.dry_run, "answer is not valid");
        metrics::counter!("belay_invalid_answers_total", "reason" => reason).increment(1);
        if self.dry_run {
            return Ok(());
        }
        Err(Failure::new(violations.verdict().with_usage(verdict.usage())).caused_by(violations))
    }
}

fn unreadable(reason: Reason) -> Violations {
    Violations { reason, ..broken("unreadable", "The answer is too long or in a form that cannot be checked") }
}
