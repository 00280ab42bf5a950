//! What is spent: [`Amount`], of which there are five [`Dimension`]s, on three [`Level`]s.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dimension {
    /// Tokens of the input.
    Input,
    /// Tokens of the output, reasoning among them.
    Output,
    /// Tokens in all.
    Tokens,
    /// Money, in billionths of a dollar.
    NanoDollars,
    /// Calls of tools.
    Steps,
    /// The time since the first call.
    WallTime,
}

/// Whose account it is. A run spends its agent's budget too, and an agent its tenant's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// One run.
    Run,
    /// One class of agent.
    Agent,
    /// One tenant.
    Tenant,
}

/// An amount of each thing that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Amount {
    /// Tokens of the input.
    pub input_tokens: u64,
    /// Tokens of the output, reasoning among them.
    pub output_tokens: u64,
    /// Tokens in all.
    pub tokens: u64,
    /// Money, in billionths of a dollar.
    pub nano_dollars: u64,
    /// Calls of tools.
    pub steps: u64,
}

// === impl Amount ===

impl Amount {
    /// So many tokens of input and output, and their sum.
    pub const fn tokens(input: u64, output: u64) -> Self {
        Self {
            input_tokens: input,
            output_tokens: output,
            tokens: input.saturating_add(output),
            nano_dollars: 0,
            steps: 0,
        }
    }

    /// Sets the money.
    #[must_use]
    pub const fn nano_dollars(mut self, nano_dollars: u64) -> Self {
        self.nano_dollars = nano_dollars;
        self
    }

    /// Sets the calls of tools.
    #[must_use]
    pub const fn steps(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }

    pub(super) const fn of(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Input => self.input_tokens,
            Dimension::Output => self.output_tokens,
            Dimension::Tokens => self.tokens,
            Dimension::NanoDollars => self.nano_dollars,
            Dimension::Steps => self.steps,
            Dimension::WallTime => 0,
        }
    }
}

// === impl Dimension ===

impl Dimension {
    /// All that add up, call by call.
    pub(super) const SUMMED: [Self; 5] = [Self::Input, Self::Output, Self::Tokens, Self::NanoDollars, Self::Steps];

    /// The stable, documented code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Input => "input_tokens",
            Self::Output => "output_tokens",
            Self::Tokens => "tokens",
            Self::NanoDollars => "nano_dollars",
            Self::Steps => "steps",
            Self::WallTime => "wall_time",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

// === impl Level ===

impl Level {
    /// The stable, documented code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Agent => "agent",
            Self::Tenant => "tenant",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Sums of amounts. Wider than what is summed, so that no sum overflows and what was added can be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums([u128; Dimension::SUMMED.len()]);

impl Sums {
    pub(super) const fn of(&self, dimension: Dimension) -> u128 {
        match dimension {
            Dimension::WallTime => 0,
            dimension => self.0[dimension as usize],
        }
    }

    pub(super) fn add(&mut self, amount: &Amount) {
        for (sum, dimension) in self.0.iter_mut().zip(Dimension::SUMMED) {
            *sum = sum.saturating_add(amount.of(dimension).into());
        }
    }

    pub(super) fn take(&mut self, amount: &Amount) {
        for (sum, dimension) in self.0.iter_mut().zip(Dimension::SUMMED) {
            debug_assert!(*sum >= amount.of(dimension).into(), "only what was added is taken away");
            *sum = sum.saturating_sub(amount.of(dimension).into());
        }
    }

    /// For the outside, where nobody reads more than `u64::MAX`.
    pub(super) fn amount(&self) -> Amount {
        let of = |dimension| u64::try_from(self.of(dimension)).unwrap_or(u64::MAX);
        Amount {
            input_tokens: of(Dimension::Input),
            output_tokens: of(Dimension::Output),
            tokens: of(Dimension::Tokens),
            nano_dollars: of(Dimension::NanoDollars),
            steps: of(Dimension::Steps),
        }
    }
}
