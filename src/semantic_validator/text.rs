//! Ready-made validators of text.

use super::{Answered, Validate};
use crate::{
    reason::Reason,
    violation::{Violation, Violations},
};

pub(super) fn broken(keyword: &'static str, expected: impl Into<String>) -> Violations {
    Violations::new(Reason::SchemaViolation, vec![Violation::new("", keyword, expected)])
}

/// The text is one JSON value, and nothing around it. An answer that only calls tools is none of its business.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonText;

impl Validate for JsonText {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        if answer.text.is_empty() && !answer.tool_calls.is_empty() {
            return Ok(());
        }
        match serde_json::from_str::<serde::de::IgnoredAny>(answer.text) {
            Ok(_) => Ok(()),
            Err(_) if answer.text.trim_start().starts_with("```") => {
                Err(broken("json", "The answer must be JSON alone, without a code fence"))
            }
            Err(error) if error.is_eof() => {
                Err(broken("json", "The answer must be whole JSON: it ended in the middle"))
            }
            Err(_) => Err(broken("json", "The answer must be one JSON value and nothing around it")),
        }
    }
}

/// Every code fence that is opened is closed.
#[derive(Debug, Clone, Copy, Default)]
pub struct BalancedFences;

impl Validate for BalancedFences {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        match fences(answer.text, |_, _| Ok(())) {
            Ok(true) => Ok(()),
            Ok(false) | Err(()) => Err(broken("fences", "Every code fence that is opened must be closed")),
        }
    }
}

/// Shows every fenced block to `see`, with its language; says whether the last one is closed.
///
/// A fence is three or more backticks or tildes at the beginning of a line, and is closed by as many or more.
pub(super) fn fences<E>(text: &str, mut see: impl FnMut(&str, &str) -> Result<(), E>) -> Result<bool, E> {
    struct Open<'a> {
        mark: char,
        length: usize,
        language: &'a str,
        from: usize,
    }
    let (mut open, mut at) = (None::<Open<'_>>, 0);
    for line in text.split_inclusive('\n') {
        let begins = at;
        at += line.len();
        let trimmed = line.trim_start_matches(' ').trim_end();
        let Some(mark @ ('`' | '~')) = trimmed.chars().next() else { continue };
        let rest = trimmed.trim_start_matches(mark);
        let length = trimmed.len() - rest.len();
        match &open {
            _ if length < 3 => {}
            Some(fence) if fence.mark == mark && length >= fence.length && rest.is_empty() => {
                see(fence.language, &text[fence.from..begins])?;
                open = None;
            }
            Some(_) => {}
            // Backticks behind backticks are code within a line.
            None if mark == '`' && rest.contains('`') => {}
            None => {
                let language = rest.split([' ', ',', '{']).find(|word| !word.is_empty()).unwrap_or("");
                open = Some(Open { mark, length, language, from: at });
            }
        }
    }
    Ok(open.is_none())
}

/// A term occurs at most so often in a thousand words.
///
/// ```
/// use tower_belay::semantic_validator::Density;
/// assert_eq!(Density::new("telemetry", 5.0).of("Telemetry is what telemetry does, not tele-metry."), 2.0 / 7.0 * 1000.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Density {
    term: String,
    per_thousand: f64,
}

/// Of so few words no density is taken: one term in them would be over any ceiling.
const FEWEST: usize = 100;

impl Density {
    /// At most `per_thousand` occurrences of `term`, one word, in a thousand words.
    pub fn new(term: impl Into<String>, per_thousand: f64) -> Self {
        Self { term: term.into().to_lowercase(), per_thousand }
    }

    /// How often the term occurs in a thousand words of `text`.
    pub fn of(&self, text: &str) -> f64 {
        let (terms, words) = self.count(text);
        if words == 0 { 0.0 } else { terms as f64 / words as f64 * 1_000.0 }
    }

    fn count(&self, text: &str) -> (usize, usize) {
        let words = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        words.filter(|word| !word.is_empty()).fold((0, 0), |(terms, words), word| {
            let is_term = word.len() <= self.term.len() * 4 && word.to_lowercase() == self.term;
            (terms + usize::from(is_term), words + 1)
        })
    }
}

impl Validate for Density {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        let (terms, words) = self.count(answer.text);
        if words < FEWEST || terms as f64 <= self.per_thousand * words as f64 / 1_000.0 {
            return Ok(());
        }
        let expected = format!("{:?} must occur at most {} times in a thousand words", self.term, self.per_thousand);
        Err(broken("density", expected))
    }
}
