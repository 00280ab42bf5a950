//! Holds the tool calls of an answer to a registry.

use super::{Answered, Validate};
use crate::{registry::Registry, violation::Violations};

/// Every tool call has to be one that the registry lets pass.
impl Validate for Registry {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        answer.tool_calls.iter().try_for_each(|call| self.check(&call.name, &call.arguments).map(drop))
    }

    fn needs_text(&self) -> bool {
        false
    }
}

/// Lets tool calls pass that only [`Registry::mend`] can read.
///
/// The answer reaches its reader as the model wrote it: whoever runs the calls has to ask [`Registry::mend`] for the
/// arguments.
#[derive(Debug, Clone)]
pub struct Mending(pub Registry);

impl Validate for Mending {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        answer.tool_calls.iter().try_for_each(|call| self.0.mend(&call.name, &call.arguments).map(drop))
    }

    fn needs_text(&self) -> bool {
        false
    }
}
