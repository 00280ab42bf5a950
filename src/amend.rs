//! Changes a request so that it fares better: [`Amend`].
//!
//! An unchanged request is never sent again for an error that it would meet again. What is to be changed is an
//! [`Amendment`], decided by code from the reason of the failure; how a request of one kind is changed is an [`Amend`].

use std::fmt;

use crate::{reason::Reason, verdict::Verdict};

/// What is to be changed about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Amendment {
    /// Say what was wrong with the last answer, in our own words.
    Warn(String),
    /// Allow a longer answer.
    RaiseOutputCap,
    /// Ask for a shorter answer.
    AskForLess,
    /// Ask for an answer at all.
    Nudge,
    /// Make the input shorter: only the user knows what may go.
    Compact,
    /// Ask for the final answer, and offer no tools: the budget is nearly spent.
    FinishUp(FinishUp),
}

/// How a run is to be finished.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishUp {
    /// What the model is told, in our own words and numbers.
    pub text: String,
    /// How long the answer may be, in tokens.
    pub max_output_tokens: u64,
}

impl FinishUp {
    /// Says `text` to the model and leaves it so many tokens for its answer.
    pub fn new(text: impl Into<String>, max_output_tokens: u64) -> Self {
        Self { text: text.into(), max_output_tokens }
    }
}

impl Amendment {
    /// What helps after `verdict`, which ended attempt number `attempt`; `None` where nothing does.
    pub fn after(verdict: &Verdict, attempt: u32) -> Option<Self> {
        Some(match verdict.reason {
            Reason::ContextOverflow => Self::Compact,
            Reason::OutputLimit if attempt == 1 => Self::RaiseOutputCap,
            Reason::OutputLimit => Self::AskForLess,
            Reason::EmptyAnswer => Self::Nudge,
            Reason::SchemaViolation => warn(verdict, "The last answer did not match its schema."),
            Reason::BadArguments => warn(verdict, "The arguments of the last tool call were not valid JSON."),
            Reason::UnknownTool => warn(verdict, "The last answer called a tool that does not exist."),
            Reason::ToolCallInvalid => warn(verdict, "The last tool call did not match the tool's schema."),
            _ => return None,
        })
    }
}

/// What the verdict itself says was wrong, else what its reason says.
fn warn(verdict: &Verdict, otherwise: &str) -> Amendment {
    Amendment::Warn(verdict.note().unwrap_or(otherwise).to_owned())
}

/// Changes requests of one kind.
pub trait Amend<Req> {
    /// `request`, changed; `None` where it cannot be.
    fn amend(&self, request: &Req, amendment: &Amendment) -> Option<Req>;
}

/// Changes nothing: what could only succeed after a change is not sent again.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAmend;

impl<Req> Amend<Req> for NoAmend {
    fn amend(&self, _: &Req, _: &Amendment) -> Option<Req> {
        None
    }
}

/// Changes requests by a closure.
pub fn amend_fn<F>(amend: F) -> AmendFn<F> {
    AmendFn(amend)
}

/// Changes requests by a closure, see [`amend_fn`].
#[derive(Clone)]
pub struct AmendFn<F>(F);

impl<F, Req> Amend<Req> for AmendFn<F>
where
    F: Fn(&Req, &Amendment) -> Option<Req>,
{
    fn amend(&self, request: &Req, amendment: &Amendment) -> Option<Req> {
        (self.0)(request, amendment)
    }
}

impl<F> fmt::Debug for AmendFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmendFn").finish_non_exhaustive()
    }
}
