//! What one account may spend: [`Limits`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::amount::Dimension;

/// What one account may spend. What is not set is not limited, and 0 is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Tokens of input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens of output, reasoning among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in billionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nano_dollars: Option<u64>,
    /// Calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// The time since the first call, after which none starts.
    #[serde(with = "crate::human::option", skip_serializing_if = "Option::is_none")]
    pub wall_time: Option<Duration>,
}

// === impl Limits ===

impl Limits {
    /// Sets the tokens of input.
    #[must_use]
    pub const fn input_tokens(mut self, tokens: u64) -> Self {
        self.input_tokens = Some(tokens);
        self
    }

    /// Sets the tokens of output.
    #[must_use]
    pub const fn output_tokens(mut self, tokens: u64) -> Self {
        self.output_tokens = Some(tokens);
        self
    }

    /// Sets the tokens in all.
    #[must_use]
    pub const fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets the money, in billionths of a dollar.
    #[must_use]
    pub const fn nano_dollars(mut self, nano_dollars: u64) -> Self {
        self.nano_dollars = Some(nano_dollars);
        self
    }

    /// Sets the calls of tools.
    #[must_use]
    pub const fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Sets the time since the first call.
    #[must_use]
    pub const fn wall_time(mut self, time: Duration) -> Self {
        self.wall_time = Some(time);
        self
    }

    pub(super) const fn of(&self, dimension: Dimension) -> Option<u64> {
        match dimension {
            Dimension::Input => self.input_tokens,
            Dimension::Output => self.output_tokens,
            Dimension::Tokens => self.tokens,
            Dimension::NanoDollars => self.nano_dollars,
            Dimension::Steps => self.steps,
            Dimension::WallTime => None,
        }
    }
}
