//! What looks at an answer: [`Validate`].

use std::{fmt, sync::Arc};

use crate::{
    call::Call,
    violation::Violations,
    wire::{Reading, ToolCallRead},
};

/// What a model answered, as a validator sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Answered<'a> {
    /// The call that it answers.
    pub call: &'a Call,
    /// The text: without reasoning and tool calls; empty where there is none.
    pub text: &'a str,
    /// The tool calls, with their arguments as the model wrote them.
    pub tool_calls: &'a [ToolCallRead],
    /// All that was read.
    pub reading: &'a Reading,
}

/// Says whether an answer can be used.
///
/// It is asked in the task that reads the answer, so it takes bounded time and never waits.
pub trait Validate: Send + Sync + 'static {
    /// Whether the answer can be used.
    ///
    /// # Errors
    /// All that is wrong, in words that are safe to show the model.
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations>;

    /// How good a usable answer is, for the breaker's [quality](crate::semantic_breaker::Quality) rule. By default
    /// nobody says.
    fn score(&self, answer: &Answered<'_>) -> Option<f64> {
        let _ = answer;
        None
    }

    /// Whether the text is looked at. If not, it need not be kept.
    fn needs_text(&self) -> bool {
        true
    }
}

impl<V: Validate + ?Sized> Validate for Arc<V> {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        (**self).validate(answer)
    }

    fn score(&self, answer: &Answered<'_>) -> Option<f64> {
        (**self).score(answer)
    }

    fn needs_text(&self) -> bool {
        (**self).needs_text()
    }
}

/// All of them have to agree; the first that does not is told. The lowest score counts.
impl Validate for Vec<Arc<dyn Validate>> {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        self.iter().try_for_each(|validator| validator.validate(answer))
    }

    fn score(&self, answer: &Answered<'_>) -> Option<f64> {
        self.iter().filter_map(|validator| validator.score(answer)).min_by(f64::total_cmp)
    }

    fn needs_text(&self) -> bool {
        self.iter().any(|validator| validator.needs_text())
    }
}

/// Both have to agree; the lower score counts.
impl<A: Validate, B: Validate> Validate for (A, B) {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        self.0.validate(answer).and_then(|()| self.1.validate(answer))
    }

    fn score(&self, answer: &Answered<'_>) -> Option<f64> {
        let scores = [self.0.score(answer), self.1.score(answer)];
        scores.into_iter().flatten().min_by(f64::total_cmp)
    }

    fn needs_text(&self) -> bool {
        self.0.needs_text() || self.1.needs_text()
    }
}

/// Asks a closure.
pub fn validate_fn<F>(validate: F) -> ValidateFn<F>
where
    F: Fn(&Answered<'_>) -> Result<(), Violations> + Send + Sync + 'static,
{
    ValidateFn(validate)
}

/// Asks a closure, see [`validate_fn`].
#[derive(Clone, Copy)]
pub struct ValidateFn<F>(F);

impl<F> Validate for ValidateFn<F>
where
    F: Fn(&Answered<'_>) -> Result<(), Violations> + Send + Sync + 'static,
{
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        (self.0)(answer)
    }
}

impl<F> fmt::Debug for ValidateFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidateFn").finish_non_exhaustive()
    }
}
