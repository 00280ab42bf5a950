//! What a budget tells before it refuses: [`Signal`].

use std::fmt;

use super::{amount::Level, balance::Balance};

/// What an account has come to, before anything is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signal {
    /// What it is about.
    pub kind: SignalKind,
    /// Whose account it is.
    pub level: Level,
    /// The names of the account, such as `tenant=acme run=7`.
    pub key: String,
    /// How it stands.
    pub balance: Balance,
}

/// What a [`Signal`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SignalKind {
    /// So much is spent and reserved that runs are told to finish.
    SoftStop,
    /// Tokens were spent without progress.
    NoProgress,
}

impl SignalKind {
    /// The stable, documented code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::SoftStop => "soft_stop",
            Self::NoProgress => "no_progress",
        }
    }
}

impl fmt::Display for SignalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, level, key, balance } = self;
        write!(f, "{kind} of the budget of {level} {key}: {} tokens spent", balance.spent.tokens)
    }
}
