//! Which names a call can have, and which of them share one state.

use std::{fmt, ops::BitOr};

use serde::{Deserialize, Serialize};

/// One of the names a [`Call`](super::Call) can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Name {
    /// The customer or workspace that everything else nests under.
    Tenant,
    /// The person or service on whose behalf the call is made.
    Actor,
    /// The class of agent, such as `researcher`.
    Agent,
    /// One run of an agent.
    Run,
    /// One conversation.
    Conversation,
    /// The provider or tool that is called.
    Target,
    /// The model, endpoint or operation of the target.
    Operation,
    /// The credential used, as a keyed hash (see [`credential_secret`](super::Call::credential_secret)).
    Credential,
}

pub(super) const NAMES: usize = 8;

impl Name {
    /// Every name with its word, each at the index that is its discriminant.
    pub(super) const WORDS: [(Self, &'static str); NAMES] = [
        (Self::Tenant, "tenant"),
        (Self::Actor, "actor"),
        (Self::Agent, "agent"),
        (Self::Run, "run"),
        (Self::Conversation, "conversation"),
        (Self::Target, "target"),
        (Self::Operation, "operation"),
        (Self::Credential, "credential"),
    ];
}

/// Which of a call's names share one state. Every scope but [`Scope::GLOBAL`] nests under the tenant.
///
/// ```
/// # use tower_belay::Scope;
/// let scope = Scope::TARGET | Scope::OPERATION;
/// assert!(scope.contains(Scope::TARGET));
/// assert_eq!(scope.to_string(), "target|operation");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scope(u8);

impl Scope {
    /// One state for everything, whatever the tenant.
    pub const GLOBAL: Self = Self(0);
    /// One state a tenant.
    pub const TENANT: Self = Self::of(Name::Tenant);
    /// One state an actor.
    pub const ACTOR: Self = Self::of(Name::Actor);
    /// One state an agent class.
    pub const AGENT: Self = Self::of(Name::Agent);
    /// One state a run.
    pub const RUN: Self = Self::of(Name::Run);
    /// One state a conversation.
    pub const CONVERSATION: Self = Self::of(Name::Conversation);
    /// One state a target.
    pub const TARGET: Self = Self::of(Name::Target);
    /// One state an operation.
    pub const OPERATION: Self = Self::of(Name::Operation);
    /// One state a credential.
    pub const CREDENTIAL: Self = Self::of(Name::Credential);

    const fn of(name: Name) -> Self {
        Self(1 << name as u8)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether all of `other` is in this scope.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names that make up a key of this scope: its own, and the tenant under which all but GLOBAL nest.
    pub(super) const fn key_bits(self) -> u16 {
        if self.0 == 0 { 0 } else { (self.0 | Self::TENANT.0) as u16 }
    }
}

impl BitOr for Scope {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("global");
        }
        let mut first = true;
        for (_, word) in Name::WORDS.iter().filter(|(name, _)| self.contains(Self::of(*name))) {
            f.write_str(if first { "" } else { "|" })?;
            f.write_str(word)?;
            first = false;
        }
        Ok(())
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({self})")
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl TryFrom<String> for Scope {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "global" {
            return Ok(Self::GLOBAL);
        }
        text.split('|').try_fold(Self::GLOBAL, |scope, word| {
            let known = Name::WORDS.iter().find(|(_, known)| *known == word.trim());
            known.map(|(name, _)| scope | Self::of(*name)).ok_or_else(|| {
                let names = Name::WORDS.map(|(_, known)| known).join("`, `");
                format!("unknown scope `{}`, expected `global`, or one or more of `{names}` joined by `|`", word.trim())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_from_their_words() {
        let scope = Scope::try_from("target|operation".to_owned()).expect("two known words");
        assert_eq!(scope, Scope::TARGET | Scope::OPERATION);
        let error = Scope::try_from("planet".to_owned()).expect_err("no such word");
        assert!(
            error.starts_with("unknown scope `planet`, expected `global`") && error.contains("`operation`"),
            "{error}"
        );
    }
}
