//! What was found about a run, and the words for it: [`Found`], [`Rule`].

use std::{error::Error as StdError, fmt};

/// By what a run was found to repeat itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The same call with the same result, at once or in a cycle.
    Repeat,
    /// One tool fails with one message, whatever the arguments.
    Failing,
    /// The same with messages that differ only in what they quote and count.
    FailingAlike,
    /// Nearly the same call with nearly the same result.
    Near,
    /// One tool gives one answer to whatever it is asked.
    SameAnswer,
    /// The same call keeps failing: in whatever way, or in the same way whatever is written in between.
    Futile,
}

impl Rule {
    /// The stable, documented code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Failing => "failing",
            Self::FailingAlike => "failing_alike",
            Self::Near => "near",
            Self::SameAnswer => "same_answer",
            Self::Futile => "futile",
        }
    }

    /// What the agent is told with the result: our own words only.
    pub(super) const fn warning(self) -> &'static str {
        match self {
            Self::Repeat => {
                "THINK: You made this call before and got the same result. Before you call it again, say what you \
                 expect to differ, and why. If nothing will, use the result you have, or do something else."
            }
            Self::Failing | Self::FailingAlike => {
                "THINK: This tool keeps failing in the same way, whatever you ask it. Before you call it again, say \
                 what the message means and what would have to change for it to succeed. If you cannot change that, \
                 use another tool, or report what you could not do."
            }
            Self::Near => {
                "THINK: You keep asking nearly the same, and get nearly the same. Before you ask again, say what you \
                 are looking for and why it was not in these results. If you are waiting for something, wait longer."
            }
            Self::SameAnswer => {
                "THINK: This tool gives the same answer to everything you ask it. Before you ask again, say what \
                 another answer would look like, and whether this tool can give it."
            }
            Self::Futile => {
                "THINK: This call keeps failing. Before you make it again, or change something for it, say what the \
                 failure means, and check that what you change is what it is about."
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// What was found about a run. It is the source of a refusal: `error.find::<Found>()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// By what.
    pub rule: Rule,
    /// How often, refusals included.
    pub times: u32,
    /// The digest of the result that came each time, keyed for this process.
    pub digest: u64,
    /// Whether it ended the run.
    pub is_end: bool,
}

impl Found {
    pub(super) const fn new(rule: Rule, times: u32, digest: u64) -> Self {
        Self { rule, times, digest, is_end: false }
    }

    pub(super) const fn ending(mut self) -> Self {
        self.is_end = true;
        self
    }

    /// What the agent is told with the result.
    pub(super) fn text(&self) -> String {
        let warning = self.rule.warning();
        if self.is_end {
            format!("{warning} This run has ended: no further call is sent. Report this.")
        } else {
            warning.to_owned()
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} times, with the result {:016x}", self.rule, self.times, self.digest)
    }
}

impl StdError for Found {}
