//! What a request is, before it is sent: [`Call`], its [`Effect`], and the [`Scope`]s that share state.

mod action;
mod key;
mod scope;

use std::{
    borrow::Cow,
    fmt,
    hash::{BuildHasher, Hasher},
    sync::{Arc, OnceLock},
};

use hashbrown::DefaultHashBuilder;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use self::action::ActionId;
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
    effect: Effect,
    attempt: u32,
    turn: u32,
    step: u32,
    queue: u32,
    /// A layer further out repeats this call.
    repeated: bool,
    estimate: Option<u64>,
    deadline: Option<Instant>,
}

#[derive(Clone, Default)]
struct Names {
    /// All names, one after the other.
    text: String,
    spans: [(u32, u32); NAMES],
    hashes: [u64; NAMES],
    set: u8,
    action: Option<ActionId>,
    fingerprint: Option<u64>,
}

impl Call {
    /// A call without names, of [`Effect::Sensitive`], at its first attempt.
    pub const fn new() -> Self {
        Self {
            names: None,
            effect: Effect::Sensitive,
            attempt: 1,
            turn: 0,
            step: 0,
            queue: 0,
            repeated: false,
            estimate: None,
            deadline: None,
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
        self.effect = effect;
        self
    }

    /// Sets which attempt this is; the first is 1.
    #[must_use]
    pub const fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Sets the turn of the conversation and the step of the run.
    #[must_use]
    pub const fn at_step(mut self, turn: u32, step: u32) -> Self {
        self.turn = turn;
        self.step = step;
        self
    }

    /// Sets how many other calls were queued when this one was let through.
    #[must_use]
    pub const fn queue(mut self, waiting: u32) -> Self {
        self.queue = waiting;
        self
    }

    /// Sets the tokens that the call is expected to use.
    #[must_use]
    pub const fn estimate(mut self, tokens: u64) -> Self {
        self.estimate = Some(tokens);
        self
    }

    /// Sets the instant after which nobody waits for an answer.
    #[must_use]
    pub fn deadline(mut self, deadline: impl Into<Option<Instant>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Sets the identity of the intended effect, equal for every attempt at it. A write without one cannot be
    /// reconciled when its outcome is unknown.
    #[must_use]
    pub fn action(mut self, action: ActionId) -> Self {
        self.names_mut().action = Some(action);
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
        self.effect
    }

    /// Which attempt this is; the first is 1.
    pub const fn attempt_number(&self) -> u32 {
        self.attempt
    }

    /// The turn of the conversation.
    pub const fn turn(&self) -> u32 {
        self.turn
    }

    /// The step of the run.
    pub const fn step(&self) -> u32 {
        self.step
    }

    /// How many other calls were queued when this one was let through.
    pub const fn queue_length(&self) -> u32 {
        self.queue
    }

    /// The tokens that the call is expected to use.
    pub const fn estimated_tokens(&self) -> Option<u64> {
        self.estimate
    }

    /// The instant after which nobody waits for an answer.
    pub const fn deadline_at(&self) -> Option<Instant> {
        self.deadline
    }

    /// The identity of the intended effect.
    pub fn action_id(&self) -> Option<ActionId> {
        self.names.as_ref()?.action
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
        !std::mem::replace(&mut self.repeated, true)
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
        s.field("effect", &self.effect).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// The beginning of a name that is too long, with a digest of all of it.
fn cut(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 256;
    if name.len() <= LONGEST {
        return Cow::Borrowed(name);
    }
    let digest = keyed_digest(name.as_bytes());
    let mut end = LONGEST - digest.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut cut = String::with_capacity(LONGEST);
    cut.push_str(&name[..end]);
    cut.push_str(str::from_utf8(&digest).unwrap_or_default());
    Cow::Owned(cut)
}

/// `#` and a hash in hexadecimal digits, keyed for this process.
fn keyed_digest(bytes: &[u8]) -> [u8; 17] {
    let hash = secret_seed().hash_one(bytes);
    let digit = |at: u32| char::from_digit((hash >> (60 - 4 * at)) as u32 & 0xf, 16).unwrap_or('0') as u8;
    let mut digest = [b'#'; 17];
    digest[1..].iter_mut().zip(0..).for_each(|(byte, at)| *byte = digit(at));
    digest
}

fn hash_name(value: &str) -> u64 {
    static SEED: OnceLock<DefaultHashBuilder> = OnceLock::new();
    let mut hasher = SEED.get_or_init(DefaultHashBuilder::default).build_hasher();
    hasher.write(value.as_bytes());
    hasher.finish()
}

/// SipHash with a random key: what it hashes cannot be guessed from the outside.
fn secret_seed() -> &'static std::hash::RandomState {
    static SEED: OnceLock<std::hash::RandomState> = OnceLock::new();
    SEED.get_or_init(std::hash::RandomState::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call: &Call, scope: Scope) -> KeyBuf {
        KeyRef::new(call, scope).to_owned()
    }

    #[test]
    fn setting_a_name_again_replaces_it_and_leaves_clones_alone() {
        let first = Call::to("one");
        let second = first.clone().target("two");
        assert_eq!((first.name(Name::Target), second.name(Name::Target)), (Some("one"), Some("two")));
        let plain = Call::to("two");
        assert!(KeyRef::new(&second, Scope::TARGET).to_owned().is(&KeyRef::new(&plain, Scope::TARGET)));
    }

    #[test]
    fn of_a_long_name_little_is_kept_and_it_is_still_another_name() {
        for letter in ["a", "\u{e9}", "\u{1f980}"] {
            let name = letter.repeat(10 << 20);
            let (call, same, other) = (Call::to(&name), Call::to(&name), Call::to(&format!("{name}!")));
            let kept = call.name(Name::Target).expect("it is set");
            assert!(kept.len() <= 256 && kept.starts_with(&letter.repeat(50)), "{kept}");
            assert!(key(&call, Scope::TARGET).is(&KeyRef::new(&same, Scope::TARGET)));
            assert!(!key(&call, Scope::TARGET).is(&KeyRef::new(&other, Scope::TARGET)));
            assert!(call.names.expect("names").text.capacity() < 1_024);
        }
        let name = "n".repeat(256);
        assert_eq!(Call::to(&name).name(Name::Target), Some(&*name));
    }

    #[test]
    fn no_name_can_be_taken_for_a_line_or_a_name_beside_it() {
        let shown = |name: &str| key(&Call::to("crm").operation(name), Scope::TARGET | Scope::OPERATION).to_string();
        assert_eq!(shown("openai/gpt-4o:free"), "target=crm operation=openai/gpt-4o:free");
        for hostile in
            ["a\nERROR killed", "a\0b", "\u{202e}b", "a tenant=acme", "\u{1b}[2J", "a=b", "\"", "", "a, tenant b"]
        {
            let line = shown(hostile);
            assert_eq!(line, format!("target=crm operation={hostile:?}"));
            assert!(line.chars().all(|c| c == ' ' || c.is_ascii_graphic()), "{line:?}");
            let call = Call::to("crm").operation(hostile);
            let refused =
                crate::Rejected::new("semantic_breaker", crate::Refusal::Open, Scope::TARGET, &call).to_string();
            assert!(refused.ends_with(&format!(", operation {hostile:?})")), "{refused}");
        }
    }

    #[test]
    fn a_secret_is_not_kept() {
        let call = Call::new().credential_secret(b"sk-very-secret");
        assert!(!format!("{call:?}").contains("secret"));
        let expected = format!("#{:016x}", secret_seed().hash_one(&b"sk-very-secret"[..]));
        assert_eq!(call.name(Name::Credential), Some(&*expected));
        assert_eq!(
            call.name(Name::Credential),
            Call::new().credential_secret(b"sk-very-secret").name(Name::Credential)
        );
    }
}
