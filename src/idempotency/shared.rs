//! What all services of one layer share: the books of all runs.

use std::{
    any::Any,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;
use tower::util::BoxCloneSyncService;

use super::{
    Found, IdempotencyConfig, LAYER,
    state::{Begin, Book, Outcome, Rules, Ticket},
};
use crate::{
    call::{ActionId, Call, Effect, Scope},
    config_error::ConfigError,
    error::{Error, Refusal, Rejected},
    keyed::{At, Claim, Keep, Kept, Keyed, Limits},
    lock::lock,
    reason::Class,
    teller::Teller,
    verdict::Verdict,
};

/// An answer of some type, kept to be given again.
pub(super) type Stored = Arc<dyn Any + Send + Sync>;
pub(super) type LookUp = BoxCloneSyncService<Call, Found, tower::BoxError>;

/// The caps of the map; a run without room is refused, as its writes could not be told from repeated ones.
const LIMITS: Limits =
    Limits { per_tenant: 16_384, total: 262_144, idle: std::time::Duration::from_secs(24 * 3_600), shares: false };

pub(super) struct Shared {
    books: Keyed<Book<Stored>>,
    config: IdempotencyConfig,
    invalid: Option<ConfigError>,
    look_up: Mutex<Option<LookUp>>,
    pub(super) teller: Teller,
}

impl Kept for Book<Stored> {
    type Rules = Rules;

    fn keep(&self, now: Instant, rules: &Rules) -> Keep {
        match () {
            () if self.is_pending() => Keep::Always,
            () if self.is_empty(now, rules) => Keep::No,
            () => Keep::WhileUsed,
        }
    }
}

/// A write under way; dropped before it is settled, it is in doubt.
pub(super) struct Pass {
    shared: Arc<Shared>,
    call: Call,
    id: ActionId,
    ticket: Ticket,
    settled: bool,
}

/// Whether a call may be sent.
pub(super) enum Admit {
    /// It is none of the layer's business.
    Pass,
    /// A write, with what settles it.
    Run(Pass),
    /// It has to be looked up first.
    LookUp(Pass),
    /// The answer of before.
    Replay(Stored),
    Refuse(Error),
}

impl Shared {
    pub(super) fn new(config: IdempotencyConfig) -> Self {
        let invalid = config.validate().err();
        if let Some(error) = &invalid {
            tracing::error!(%error, "every write is refused: the configuration is invalid");
        }
        Self { books: Keyed::new(LIMITS), config, invalid, look_up: Mutex::default(), teller: Teller::new(LAYER) }
    }

    pub(super) fn set_look_up(&self, look_up: LookUp) {
        *lock(&self.look_up) = Some(look_up);
    }

    pub(super) fn look_up(&self) -> Option<LookUp> {
        lock(&self.look_up).clone()
    }

    pub(super) const fn is_invalid(&self) -> bool {
        self.invalid.is_some()
    }

    pub(super) fn admit(self: &Arc<Self>, call: &Call) -> Admit {
        if call.effect_kind() == Effect::ReadOnly {
            return Admit::Pass;
        }
        if let Some(invalid) = &self.invalid {
            let rejected = Rejected::new(LAYER, Refusal::Misconfigured, Scope::GLOBAL, call);
            return Admit::Refuse(self.teller.refuse(rejected.with_source(invalid.clone())));
        }
        let Some(id) = call.action_id() else { return Admit::Pass };
        let rules = self.rules();
        let at = At { now: Instant::now(), rules: &rules };
        let begin = |book: &mut Book<Stored>| book.begin(id, call.fingerprint_digest(), at.now, &rules);
        let begun = self.books.make(call, Scope::RUN, Claim::Call, &at, Book::default, begin).unwrap_or(Begin::Full);
        let pass = |ticket| Pass { shared: self.clone(), call: call.clone(), id, ticket, settled: false };
        let (code, retry_at) = match begun {
            Begin::Run(ticket) => return Admit::Run(pass(ticket)),
            Begin::LookUp(ticket) => return Admit::LookUp(pass(ticket)),
            Begin::Replay(Some(stored)) => return Admit::Replay(stored),
            Begin::Replay(None) => (Refusal::AlreadyDone, None),
            Begin::Conflict => (Refusal::ActionConflict, None),
            Begin::Running(until) => (Refusal::InProgress, Some(until)),
            Begin::InDoubt => (Refusal::InDoubt, None),
            Begin::Full => (Refusal::TooManyWrites, None),
        };
        Admit::Refuse(self.refuse(code, call, retry_at))
    }

    pub(super) fn refuse(&self, code: Refusal, call: &Call, retry_at: Option<Instant>) -> Error {
        self.teller.refuse(Rejected::new(LAYER, code, Scope::RUN, call).with_retry_at(retry_at))
    }

    pub(super) fn reconciled(&self, call: &Call, id: ActionId, was_applied: bool) -> bool {
        let (rules, now) = (self.rules(), Instant::now());
        let at = At { now, rules: &rules };
        self.books.look(call, Scope::RUN, &at, |book| Some(book.reconciled(id, was_applied, now))).unwrap_or(false)
    }

    pub(super) fn in_doubt(&self, call: &Call) -> Vec<ActionId> {
        let (rules, now) = (self.rules(), Instant::now());
        let at = At { now, rules: &rules };
        self.books.look(call, Scope::RUN, &at, |book| Some(book.in_doubt(now).collect())).unwrap_or_default()
    }

    fn rules(&self) -> Rules {
        let IdempotencyConfig { lease, keep_for, max_per_run } = self.config;
        Rules { lease, keep_for, max_per_run, looks_up: lock(&self.look_up).is_some() }
    }
}

impl Pass {
    /// What came of the write; `answer` is made only where it is kept.
    pub(super) fn settle(mut self, verdict: &Verdict, answer: impl FnOnce() -> Option<Stored>) {
        let outcome = match verdict.class() {
            Class::Success => Outcome::Applied(answer()),
            Class::Failed | Class::Denied | Class::RateLimited => Outcome::NotApplied,
            // An answer that cannot be used was most likely given by somebody who did it.
            Class::Unknown | Class::Malformed => Outcome::Unknown,
        };
        self.end(outcome);
    }

    /// It was not sent.
    pub(super) fn not_sent(mut self) {
        self.end(Outcome::NotApplied);
    }

    /// It was looked up: it was applied before.
    pub(super) fn was_applied(mut self) {
        self.end(Outcome::Applied(None));
    }

    fn end(&mut self, outcome: Outcome<Stored>) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let (rules, now) = (self.shared.rules(), Instant::now());
        let at = At { now, rules: &rules };
        self.shared.books.look(&self.call, Scope::RUN, &at, |book| {
            book.end(self.id, self.ticket, outcome.clone(), now);
            Some(())
        });
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.end(Outcome::Unknown);
    }
}
