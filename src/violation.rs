//! What is wrong with an answer or a tool call, safe to show a model: [`Violations`].

use std::{error::Error as StdError, fmt, fmt::Write as _};

use crate::{reason::Reason, verdict::Verdict};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Where, as a JSON pointer; empty for the whole. Keys that no schema names are left out of it.
    pub pointer: String,
    /// The rule that is broken: a keyword of JSON Schema, or the name of a check.
    pub keyword: &'static str,
    /// What was expected, in our own words and facts of the schema: nothing that a model or a user wrote.
    pub expected: String,
}

impl Violation {
    /// Something wrong at `pointer`.
    pub fn new(pointer: impl Into<String>, keyword: &'static str, expected: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), keyword, expected: expected.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        f.write_str(&self.expected)
    }
}

/// Why an answer or a tool call cannot be used.
///
/// Its text is at most 500 bytes long and safe to show a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violations {
    /// What this makes of the call.
    pub reason: Reason,
    /// All that was found, up to a bound.
    pub list: Vec<Violation>,
}

/// No text that is shown a model is longer.
const MAX_TEXT: usize = 500;

impl Violations {
    /// All of `list`, which makes `reason` of the call.
    pub fn new(reason: Reason, list: Vec<Violation>) -> Self {
        Self { reason, list }
    }

    /// The verdict on a call that was answered so.
    pub fn verdict(&self) -> Verdict {
        Verdict::new(self.reason).with_note(self.to_string())
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (at, violation) in self.list.iter().enumerate() {
            let before = text.len();
            let space = if at == 0 { "" } else { " " };
            write!(text, "{space}{violation}.")?;
            if text.len() > MAX_TEXT {
                text.truncate(before);
                break;
            }
        }
        f.write_str(&text)
    }
}

impl StdError for Violations {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_whole_sentences_and_at_most_500_bytes() {
        let list = (0..100).map(|n| Violation::new(format!("/{n}"), "type", "must be a string")).collect();
        let text = Violations::new(Reason::SchemaViolation, list).to_string();
        assert!(text.len() <= MAX_TEXT && text.starts_with("/0: must be a string. /1:") && text.ends_with("string."));
    }
}
