//! For what something else may answer: [`FallbackConfig`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// How a call came to nothing for which something else may answer.
///
/// What was forbidden, what was refused for good and a request that is wrong are not among them: nothing else is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FallbackOn {
    /// Refused for now: the advice of the refusal is to wait.
    Wait,
    /// Refused for this target: the advice is to use another.
    UseAnother,
    /// A read, refused until somebody mends something; or a write that is stopped, for which lines may answer.
    AskHuman,
    /// Failed, and certainly not applied.
    Failed,
    /// Over a rate of the provider.
    RateLimited,
    /// A read without an answer.
    Unanswered,
    /// A read whose answer cannot be used.
    Malformed,
    /// A read with a credential that does not work: the fallback has another.
    Credential,
    /// A write that may have been applied: it can be answered for, and is not sent.
    InDoubt,
}

/// For what something else may answer. By default, for all that [`FallbackOn`] lists.
///
/// ```
/// # use tower_belay::fallback::{FallbackConfig, FallbackOn};
/// let config: FallbackConfig = toml::from_str(r#"on = ["wait", "use_another", "failed"]"#).unwrap();
/// assert_eq!(config, FallbackConfig::off().on([FallbackOn::Wait, FallbackOn::UseAnother, FallbackOn::Failed]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FallbackConfig {
    /// How a call may have come to nothing.
    pub on: BTreeSet<FallbackOn>,
}

impl Default for FallbackConfig {
    fn default() -> Self {
        use FallbackOn::*;
        let all = [Wait, UseAnother, AskHuman, Failed, RateLimited, Unanswered, Malformed, Credential, InDoubt];
        Self { on: all.into() }
    }
}

impl FallbackConfig {
    /// Nothing else answers.
    pub const fn off() -> Self {
        Self { on: BTreeSet::new() }
    }

    /// Sets for what something else may answer.
    #[must_use]
    pub fn on(mut self, on: impl IntoIterator<Item = FallbackOn>) -> Self {
        self.on = on.into_iter().collect();
        self
    }
}
