//! What a request is, before it is sent: [`Call`], its [`Effect`], and the [`Scope`]s that share state.

mod action;
mod digest;
mod key;
mod scope;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use self::action::ActionId;
use self::digest::{cut, hash_name, keyed_digest};
pub(crate) use self::key::{KeyBuf, KeyRef, Shown};
use self::scope::NAMES;
pub use self::scope::{Name, Scope};

/// What a call may do to the world. Unknown is [`Effect::Sensitive`].
///
/// This enum is exhaustive on purpose: a policy must answer for every effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    ReadOnly,
    /// Changes something that can be put back.
    Reversible,
    /// Changes something that cannot simply be put back.
    Consequential,
    /// Money, personal data, security; and whatever nobody declared.
    #[default]
    Sensitive,
}

/// What a request is, before it is sent: who asks, what is asked, what it may do.
///
/// Names are hashed once, when they are set; cloning a call is one reference count. [`Call::new`] allocates nothing,
/// and a call without any name shares the state of all nameless calls. A name of more than 256 bytes is kept as its
/// beginning and a hash of the whole, keyed for this process: whoever may make up names shall not decide how much is
/// kept of them.
///
/// ```
/// # use tower_belay::{Call, Effect, Name};
/// let call = Call::to("crm").operation("lookup").tenant("acme").effect(Effect::ReadOnly);
/// assert_eq!(call.name(Name::Operation), Some("lookup"));
/// assert_eq!(Call::new().effect_kind(), Effect::Sensitive);
/// ```
#[derive(Clone)]
pub struct Call {
    names: Option<Arc<Names>>,
    facts: Facts,
}

/// All but the names: every layer keeps a call, and this much of it is copied in one go.
#[derive(Clone, Copy)]
struct Facts {
    effect: Effect,
    attempt: u32,
    turn: u32,
    step: u32,
    queue: u32,
    /// A layer further out repeats this call.
    repeated: bool,
    estimate: Option<u64>,
    deadline: Option<Instant>,
    action: Option<ActionId>,
}

#[derive(Clone, Default)]
struct Names {
    /// All names, one after the other.
    text: String,
    spans: [(u32, u32); NAMES],
    hashes: [u64; NAMES],
    set: u8,
    fingerprint: Option<u64>,
}

impl Call {
    /// A call without names, of [`Effect::Sensitive`], at its first attempt.
    pub const fn new() -> Self {
        Self {
            names: None,
            facts: Facts {
                effect: Effect::Sensitive,
                attempt: 1,
                turn: 0,
                step: 0,
                queue: 0,
                repeated: false,
                estimate: None,
                deadline: None,
                action: None,
            },
        }
    }

    /// A call to `target`: a provider or a tool.
    pub fn to(target: &str) -> Self {
        Self::new().target(target)
    }

    /// Sets the tenant that all state nests under.
    #[must_use]
    pub fn tenant(self, tenant: &str) -> Self {
        self.with(Name::Tenant, tenant)
    }

    /// Sets on whose behalf the call is made.
    #[must_use]
    pub fn actor(self, actor: &str) -> Self {
        self.with(Name::Actor, actor)
    }

    /// Sets the class of agent that calls.
    #[must_use]
    pub fn agent(self, agent: &str) -> Self {
        self.with(Name::Agent, agent)
    }

    /// Sets the run that the call belongs to.
    #[must_use]
    pub fn run(self, run: &str) -> Self {
        self.with(Name::Run, run)
    }

    /// Sets the conversation that the call belongs to.
    #[must_use]
    pub fn conversation(self, conversation: &str) -> Self {
        self.with(Name::Conversation, conversation)
    }

    /// Sets the provider or tool that is called.
    #[must_use]
    pub fn target(self, target: &str) -> Self {
        self.with(Name::Target, target)
    }

    /// Sets the model, endpoint or operation of the target.
    #[must_use]
    pub fn operation(self, operation: &str) -> Self {
        self.with(Name::Operation, operation)
    }

    /// Sets the credential's public id, such as a key's name. Never pass the secret: see
    /// [`credential_secret`](Call::credential_secret).
    #[must_use]
    pub fn credential(self, id: &str) -> Self {
        self.with(Name::Credential, id)
    }

    /// Sets the credential to a hash of `secret`, keyed for this process: equal secrets share state, and nothing
    /// that is logged or kept can be turned back into one.
    #[must_use]
    pub fn credential_secret(self, secret: &[u8]) -> Self {
        let id = keyed_digest(secret);
        self.with(Name::Credential, std::str::from_utf8(&id).unwrap_or_default())
    }

    /// Sets what the call may do.
    #[must_use]
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.facts.effect = effect;
        self
    }

    /// Sets which attempt this is; the first is 1.
    #[must_use]
    pub const fn attempt(mut self, attempt: u32) -> Self {
        self.facts.attempt = attempt;
        self
    }

    /// Sets the turn of the conversation and the step of the run.
    #[must_use]
    pub const fn at_step(mut self, turn: u32, step: u32) -> Self {
        self.facts.turn = turn;
        self.facts.step = step;
        self
    }

    /// Sets how many other calls were queued when this one was let through.
    #[must_use]
    pub const fn queue(mut self, waiting: u32) -> Self {
        self.facts.queue = waiting;
        self
    }

    /// Sets the tokens that the call is expected to use.
    #[must_use]
    pub const fn estimate(mut self, tokens: u64) -> Self {
        self.facts.estimate = Some(tokens);
        self
    }

    /// Sets the instant after which nobody waits for an answer.
    #[must_use]
    pub fn deadline(mut self, deadline: impl Into<Option<Instant>>) -> Self {
        self.facts.deadline = deadline.into();
        self
    }

    /// Sets the identity of the intended effect, equal for every attempt at it. A write without one cannot be
    /// reconciled when its outcome is unknown.
    #[must_use]
    pub const fn action(mut self, action: ActionId) -> Self {
        self.facts.action = Some(action);
        self
    }

    /// Sets a digest of what is asked, equal for calls that ask the same thing.
    #[must_use]
    pub fn fingerprint(mut self, digest: u64) -> Self {
        self.names_mut().fingerprint = Some(digest);
        self
    }

    /// One of the call's names, if it is set.
    pub fn name(&self, name: Name) -> Option<&str> {
        let names = self.names.as_deref()?;
        let (start, end) = names.spans[name as usize];
        (names.set & (1 << name as u8) != 0).then(|| &names.text[start as usize..end as usize])
    }

    /// What the call may do.
    pub const fn effect_kind(&self) -> Effect {
        self.facts.effect
    }

    /// Which attempt this is; the first is 1.
    pub const fn attempt_number(&self) -> u32 {
        self.facts.attempt
    }

    /// The turn of the conversation.
    pub const fn turn(&self) -> u32 {
        self.facts.turn
    }

    /// The step of the run.
    pub const fn step(&self) -> u32 {
        self.facts.step
    }

    /// How many other calls were queued when this one was let through.
    pub const fn queue_length(&self) -> u32 {
        self.facts.queue
    }

    /// The tokens that the call is expected to use.
    pub const fn estimated_tokens(&self) -> Option<u64> {
        self.facts.estimate
    }

    /// The instant after which nobody waits for an answer.
    pub const fn deadline_at(&self) -> Option<Instant> {
        self.facts.deadline
    }

    /// The identity of the intended effect.
    pub const fn action_id(&self) -> Option<ActionId> {
        self.facts.action
    }

    /// What people may quote about this call, where it has an [action](Call::action): the same for every attempt.
    pub fn reference(&self) -> Option<String> {
        let id = self.action_id()?.to_string();
        Some(format!("belay-{}", &id[id.len() - 12..]))
    }

    /// The digest of what is asked.
    pub fn fingerprint_digest(&self) -> Option<u64> {
        self.names.as_ref()?.fingerprint
    }

    /// Says whether nobody repeats this call yet; from now on somebody does.
    pub(crate) const fn begin_attempts(&mut self) -> bool {
        !std::mem::replace(&mut self.facts.repeated, true)
    }

    fn with(mut self, name: Name, value: &str) -> Self {
        let value = &*cut(value);
        let names = self.names_mut();
        let start = names.text.len() as u32;
        names.text.push_str(value);
        names.spans[name as usize] = (start, names.text.len() as u32);
        names.hashes[name as usize] = hash_name(value);
        names.set |= 1 << name as u8;
        self
    }

    fn names_mut(&mut self) -> &mut Names {
        let fresh = || Arc::new(Names { text: String::with_capacity(96), ..Names::default() });
        Arc::make_mut(self.names.get_or_insert_with(fresh))
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Call");
        for (name, word) in Name::WORDS {
            if let Some(value) = self.name(name) {
                s.field(word, &value);
            }
        }
        s.field("effect", &self.facts.effect).field("attempt", &self.facts.attempt).finish_non_exhaustive()
    }
}
