//! What a request is, before it is sent: [`Call`], its [`Effect`], and the [`Scope`]s that share state.

use std::{
    borrow::Cow,
    fmt,
    hash::{BuildHasher, Hasher},
    ops::BitOr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use hashbrown::DefaultHashBuilder;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

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

/// One of the names a [`Call`] can carry.
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
    /// The credential used, as a keyed hash (see [`Call::credential_secret`]).
    Credential,
}

const NAMES: usize = 8;

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

    const WORDS: [(&'static str, Self); NAMES] = [
        ("tenant", Self::TENANT),
        ("actor", Self::ACTOR),
        ("agent", Self::AGENT),
        ("run", Self::RUN),
        ("conversation", Self::CONVERSATION),
        ("target", Self::TARGET),
        ("operation", Self::OPERATION),
        ("credential", Self::CREDENTIAL),
    ];

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
    const fn key_bits(self) -> u16 {
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
        for (word, _) in Self::WORDS.iter().filter(|(_, scope)| self.contains(*scope)) {
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
            let known = Self::WORDS.iter().find(|(known, _)| *known == word.trim());
            known.map(|(_, bit)| scope | *bit).ok_or_else(|| format!("unknown scope `{}`", word.trim()))
        })
    }
}

/// The identity of an intended effect: equal for every attempt at it, new for every new intent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActionId(u128);

impl ActionId {
    /// A new id, unique in this process and random across processes.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let high = std::hash::RandomState::new().hash_one(count);
        Self((u128::from(high) << 64) | u128::from(secret_seed().hash_one(count)))
    }

    /// An id from the caller's own idempotency key.
    pub fn from_key(key: u128) -> Self {
        Self(key)
    }
}

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActionId({self})")
    }
}

/// What a request is, before it is sent: who asks, what is asked, what it may do.
///
/// Names are hashed once, when they are set; cloning a call is one reference count. A call without any name
/// allocates nothing, and shares the state of all nameless calls. A name of more than 256 bytes is kept as its beginning
/// and a hash of the whole, keyed for this process: whoever may make up names shall not decide how much is kept of them.
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

    /// Sets the identity of the intended effect, equal for every attempt at it.
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

    /// The digest of what is asked.
    pub fn fingerprint_digest(&self) -> Option<u64> {
        self.names.as_ref()?.fingerprint
    }

    /// This call's names, with what `attached` alone knows: attempt, deadline, action, turn and step.
    #[must_use]
    pub fn inherit(mut self, attached: &Call) -> Self {
        self.attempt = attached.attempt;
        self.turn = attached.turn;
        self.step = attached.step;
        self.queue = attached.queue;
        self.deadline = self.deadline.or(attached.deadline);
        self.estimate = self.estimate.or(attached.estimate);
        if self.action_id().is_none() && attached.action_id().is_some() {
            self.names_mut().action = attached.action_id();
        }
        self
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
        for (word, scope) in Scope::WORDS {
            let name = ALL_NAMES.iter().find(|name| Scope::of(**name) == scope);
            if let Some(value) = name.and_then(|name| self.name(*name)) {
                s.field(word, &value);
            }
        }
        s.field("effect", &self.effect).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

const ALL_NAMES: [Name; NAMES] = [
    Name::Tenant,
    Name::Actor,
    Name::Agent,
    Name::Run,
    Name::Conversation,
    Name::Target,
    Name::Operation,
    Name::Credential,
];

/// A key of one scope, borrowed from a call: compared name by name, never by hash alone.
#[derive(Clone, Copy)]
pub(crate) struct KeyRef<'a> {
    names: Option<&'a Names>,
    bits: u16,
    hash: u64,
}

/// Marks the state that keys of a tenant share when there is no room for their own.
const OVERFLOW: u16 = 0x100;

impl<'a> KeyRef<'a> {
    #[inline]
    pub(crate) fn new(call: &'a Call, scope: Scope) -> Self {
        Self::of(call.names.as_deref(), scope.key_bits())
    }

    /// The state that keys of this tenant share when there is no room for their own.
    pub(crate) fn overflow_of_tenant(call: &'a Call) -> Self {
        Self::of(call.names.as_deref(), Scope::TENANT.key_bits() | OVERFLOW)
    }

    /// The state that everybody shares when there is no room even for tenants.
    pub(crate) fn overflow_of_all() -> Self {
        Self::of(None, OVERFLOW)
    }

    #[inline]
    fn of(names: Option<&'a Names>, bits: u16) -> Self {
        let mut hash = u64::from(bits) ^ 0x9e37_79b9_7f4a_7c15;
        if let Some(names) = names {
            let mut rest = bits as u8 & names.set;
            while rest != 0 {
                let index = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let part = names.hashes[index].rotate_left(index as u32 * 8);
                hash = (hash ^ part).wrapping_mul(0xd6e8_feb8_6659_fd93);
                hash ^= hash >> 32;
            }
        }
        Self { names, bits, hash }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    fn part(&self, index: usize) -> Option<&'a str> {
        let names = self.names?;
        let (start, end) = names.spans[index];
        (names.set & self.bits as u8 & (1 << index) != 0).then(|| &names.text[start as usize..end as usize])
    }

    /// The tenant that the key nests under.
    pub(crate) fn tenant(&self) -> &'a str {
        self.part(Name::Tenant as usize).unwrap_or("")
    }

    pub(crate) fn to_owned(self) -> KeyBuf {
        let mut text = String::new();
        let mut ends = [u32::MAX; NAMES];
        for (index, end) in ends.iter_mut().enumerate() {
            if let Some(part) = self.part(index) {
                text.push_str(part);
                *end = text.len() as u32;
            }
        }
        KeyBuf { text: text.into_boxed_str(), ends, bits: self.bits, hash: self.hash }
    }
}

/// A key of one scope that owns its names.
#[derive(Clone)]
pub(crate) struct KeyBuf {
    text: Box<str>,
    /// Where each name ends; `u32::MAX` where it is absent.
    ends: [u32; NAMES],
    bits: u16,
    hash: u64,
}

impl KeyBuf {
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) const fn is_overflow(&self) -> bool {
        self.bits & OVERFLOW != 0
    }

    pub(crate) fn tenant(&self) -> &str {
        match self.ends[Name::Tenant as usize] {
            u32::MAX => "",
            end => &self.text[..end as usize],
        }
    }

    pub(crate) fn is(&self, key: &KeyRef<'_>) -> bool {
        if self.hash != key.hash || self.bits != key.bits {
            return false;
        }
        let mut start = 0;
        self.ends.iter().enumerate().all(|(index, end)| match (*end, key.part(index)) {
            (u32::MAX, None) => true,
            (u32::MAX, Some(_)) | (_, None) => false,
            (end, Some(part)) => {
                let stored = &self.text[start..end as usize];
                start = end as usize;
                stored == part
            }
        })
    }
}

impl fmt::Display for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut start = 0;
        let mut first = true;
        for ((word, _), end) in Scope::WORDS.iter().zip(self.ends) {
            if end != u32::MAX {
                let value = Shown(&self.text[start..end as usize]);
                write!(f, "{}{word}={value}", if first { "" } else { " " })?;
                start = end as usize;
                first = false;
            }
        }
        if first { f.write_str("all") } else { Ok(()) }
    }
}

/// A name as it may stand in a line of text: quoted where it could be taken for more than a name.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/#@+~%$!*".contains(c);
        if !self.0.is_empty() && self.0.chars().all(is_plain) {
            f.write_str(self.0)
        } else {
            fmt::Debug::fmt(self.0, f)
        }
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
    cut.push_str(std::str::from_utf8(&digest).unwrap_or_default());
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
    fn names_that_run_together_are_different_keys() {
        let scope = Scope::TARGET | Scope::OPERATION;
        let a = Call::to("ab").operation("c");
        let b = Call::to("a").operation("bc");
        assert!(!key(&a, scope).is(&KeyRef::new(&b, scope)));
        assert!(key(&a, scope).is(&KeyRef::new(&a.clone(), scope)));
    }

    #[test]
    fn an_absent_name_is_not_an_empty_one() {
        let empty = Call::to("crm").operation("");
        let absent = Call::to("crm");
        let scope = Scope::TARGET | Scope::OPERATION;
        assert!(!key(&empty, scope).is(&KeyRef::new(&absent, scope)));
    }

    #[test]
    fn every_scope_but_global_nests_under_the_tenant() {
        let a = Call::to("crm").tenant("a");
        let b = Call::to("crm").tenant("b");
        assert!(!key(&a, Scope::TARGET).is(&KeyRef::new(&b, Scope::TARGET)));
        assert!(key(&a, Scope::GLOBAL).is(&KeyRef::new(&b, Scope::GLOBAL)));
    }

    #[test]
    fn setting_a_name_again_replaces_it_and_leaves_clones_alone() {
        let first = Call::to("one");
        let second = first.clone().target("two");
        assert_eq!((first.name(Name::Target), second.name(Name::Target)), (Some("one"), Some("two")));
        let plain = Call::to("two");
        assert!(key(&second, Scope::TARGET).is(&KeyRef::new(&plain, Scope::TARGET)));
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

    #[test]
    fn scopes_are_read_from_their_words() {
        let scope = Scope::try_from("target|operation".to_owned()).expect("two known words");
        assert_eq!(scope, Scope::TARGET | Scope::OPERATION);
        assert!(Scope::try_from("planet".to_owned()).is_err());
    }
}
