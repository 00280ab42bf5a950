//! What a call asks of an account, and what it hears.

use super::{
    amount::{Amount, Dimension},
    price::Price,
};

/// What a call may need, before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) steps: u64,
    pub(super) pricing: Pricing,
}

/// What is known of a call's price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pricing {
    Known(Price),
    /// Nobody knows it, and it is not free.
    Unknown,
    /// It costs no money, or somebody said that it may be taken so.
    Free,
}

/// How much of an account a call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// All but what is kept back for the final answer, and only while nobody was told to finish.
    Work,
    /// All, and with a shorter answer if need be.
    Final,
    /// All, and the whole of what it needs.
    Whole,
}

/// Why a call may not use an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    /// There is nothing left, or not enough.
    Spent(Dimension),
    /// Money is limited, and nobody knows what the call costs.
    Unpriced,
    /// Only a final answer may still be asked for.
    Finish,
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settlement {
    Exact(Amount),
    AtLeast(Amount),
    NotSent,
}

// === impl Need ===

impl Need {
    /// What asking for a final answer adds to a request, in tokens.
    const ADDED: u64 = 128;

    /// A call of a tool.
    pub(super) const STEP: Self = Self { input: 0, output: 0, steps: 1, pricing: Pricing::Free };

    /// What is reserved for it.
    pub(super) fn amount(&self) -> Amount {
        let money = match self.pricing {
            Pricing::Known(price) => price.at_most(self.input, self.output),
            Pricing::Unknown | Pricing::Free => 0,
        };
        Amount::tokens(self.input, self.output).nano_dollars(money).steps(self.steps)
    }

    /// This call, made to ask for a final answer.
    pub(super) const fn made_last(self) -> Self {
        Self { input: self.input.saturating_add(Self::ADDED), ..self }
    }
}
