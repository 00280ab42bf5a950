//! A refusal by one of our own layers, as operators, agents and models are told of it: [`Rejected`].

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    call::{Call, Effect, Name, Scope, Shown},
    reason::Class,
    verdict::Verdict,
};

/// What the agent may do instead of a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// Wait until the refusal's `retry_at`.
    Wait,
    /// Use another model, tool or approach.
    UseAnother,
    /// Bring in a person.
    AskHuman,
    /// End the run.
    Stop,
}

macro_rules! refusals {
    ($( $name:ident $code:literal $advice:ident $doc:literal $model:literal; )*) => {
        /// Why a layer refused a call.
        ///
        /// | code | meaning |
        /// |---|---|
        $(#[doc = concat!("| `", $code, "` | ", $doc, " |")])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Refusal { $(#[doc = $doc] $name,)* }

        impl Refusal {
            /// Every refusal, in the order of the table.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name),*];

            /// The stable, documented code of this refusal.
            pub const fn code(self) -> &'static str {
                match self { $(Refusal::$name => $code,)* }
            }

            /// What the agent may do instead.
            pub const fn advice(self) -> Advice {
                match self { $(Refusal::$name => Advice::$advice,)* }
            }

            /// The key of the counter of refusals with this code, made once so that counting allocates nothing.
            pub(crate) fn counter(self) -> &'static metrics::Key {
                match self {
                    $(Refusal::$name => {
                        static LABELS: [metrics::Label; 1] = [metrics::Label::from_static_parts("code", $code)];
                        static KEY: metrics::Key = metrics::Key::from_static_parts("belay_refusals_total", &LABELS);
                        &KEY
                    })*
                }
            }

            const fn model_text(self) -> &'static str {
                match self { $(Refusal::$name => $model,)* }
            }
        }
    };
}

refusals! {
    Open "open" UseAnother "the breaker is open after failures of this target"
        "This service has failed repeatedly and is paused.";
    Degraded "degraded" UseAnother "the breaker is open after answers that could not be used"
        "This service keeps giving unusable answers and is paused.";
    WritesOpen "writes_open" AskHuman "writes to this target are stopped: earlier ones may or may not have been applied"
        "Changes through this service are stopped, because the outcome of earlier ones is not known. Reading still works.";
    Probing "probing" Wait "the breaker is testing whether the target has recovered"
        "This service is being tested after a failure.";
    AwaitingProbe "awaiting_probe" AskHuman "the breaker may not test the target with a call like this one"
        "This service is paused until it has been tested by its operators.";
    Recovering "recovering" Wait "the target takes a reduced share of calls while it recovers"
        "This service is recovering and takes only some calls.";
    Gated "gated" Wait "the provider asked for a pause"
        "This service has asked for a pause.";
    ActorBlocked "actor_blocked" Stop "this actor was denied too often"
        "Your access to this service was denied too often and is blocked. Rewording the request does not change that.";
    CredentialOpen "credential_open" AskHuman "the credential does not work at this target"
        "This service does not accept the credential in use. A person has to mend it.";
    ForcedOpen "forced_open" AskHuman "an operator opened the breaker"
        "This service was switched off by its operators.";
    RateLimit "rate_limit" Wait "the rate of requests or tokens is used up for longer than the call may wait"
        "The rate of calls to this service is used up.";
    BulkheadFull "bulkhead_full" Wait "too many calls of this class are in progress, and the queue behind them is full"
        "Too many calls of this kind are in progress.";
    BulkheadWait "bulkhead_wait" Wait "the call was queued for too long behind others of its class"
        "It waited too long for other calls of this kind to end.";
    BudgetSpent "budget_spent" Stop "the budget of the run, its agent class or its tenant is spent"
        "What this work may spend is spent.";
    StepsSpent "steps_spent" Stop "the run has called as many tools as it may"
        "This run has called as many tools as it may.";
    TimeSpent "time_spent" Stop "the time of the run, its agent class or its tenant is over"
        "The time for this work is over.";
    Unpriced "unpriced" UseAnother "money is limited, and nobody knows what the model costs"
        "What this model costs is not known, so it is not used.";
    DeadlinePassed "deadline_passed" Stop "the call's deadline had passed before it could be sent"
        "There is no time left for this call.";
    AlreadyDone "already_done" UseAnother "this write was applied before, and its answer cannot be given again"
        "Exactly this was carried out before.";
    InProgress "in_progress" Wait "this write is under way"
        "Exactly this is being carried out.";
    InDoubt "in_doubt" AskHuman "this write may have been applied before"
        "Exactly this was sent before, and nobody knows yet whether it was carried out.";
    ActionConflict "action_conflict" UseAnother "another request came under the same action id"
        "Something else was sent under this id before.";
    TooManyWrites "too_many_writes" AskHuman "there is no room to remember a further write of this run"
        "This run has made too many changes.";
    Repeated "repeated" UseAnother "the run made this call before with the same result, and was warned"
        "You made this same call before, and each time it gave the same result: you have it already. Say what would have to \
         change for another one, and change that first.";
    PollTooSoon "poll_too_soon" Wait "the tool may be polled, but not so soon after its last answer"
        "It was asked just now, and is not to be asked again so soon.";
    LoopEnded "loop_ended" Stop "the run went in circles in spite of warnings and refusals, and has ended"
        "This run went on repeating itself after it was warned, and has ended. It has not succeeded. Say what you were trying to do \
         and what stood in the way.";
    Misconfigured "misconfigured" AskHuman "the layer was given a configuration with an impossible value"
        "This service is set up wrongly.";
    Killed "killed" Stop "the kill switch is on"
        "All calls were stopped by the operators.";
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A refusal by one of our own layers: *nothing was sent*.
///
/// It is not an outcome: no breaker counts it and no retry repeats it. It has two texts: `Display` is evidence for
/// operators, [`model_text`](Rejected::model_text) is short and safe to show a model. Neither has any payload,
/// secret or query string.
#[derive(Clone)]
pub struct Rejected {
    layer: &'static str,
    code: Refusal,
    scope: Scope,
    retry_at: Option<Instant>,
    call: Call,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Rejected {
    /// A refusal of `call` by `layer`.
    pub fn new(layer: &'static str, code: Refusal, scope: Scope, call: &Call) -> Self {
        Self { layer, code, scope, retry_at: None, call: call.clone(), source: None }
    }

    /// Sets when the call may be tried again.
    #[must_use]
    pub fn with_retry_at(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.retry_at = at.into();
        self
    }

    /// Sets the verdict of the attempt before, which becomes the source of this refusal.
    #[must_use]
    pub fn with_last(mut self, last: Verdict) -> Self {
        self.source = Some(Arc::new(LastVerdict(last)));
        self
    }

    /// Sets the error that made the layer refuse.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The layer that refused.
    pub const fn layer(&self) -> &'static str {
        self.layer
    }

    /// Why it refused.
    pub const fn code(&self) -> Refusal {
        self.code
    }

    /// Which names share the state that refused.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// When the call may be tried again; `None` where nobody knows.
    pub const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// How long to wait from now; `None` where nobody knows.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// What the agent may do instead.
    pub const fn advice(&self) -> Advice {
        self.code.advice()
    }

    /// The verdict of the attempt before this one, where there was one.
    pub fn last_verdict(&self) -> Option<&Verdict> {
        self.source.as_ref().and_then(|source| source.downcast_ref::<LastVerdict>()).map(|last| &last.0)
    }

    /// What people may quote about the call, where it has an action: the same for every attempt.
    pub fn reference(&self) -> Option<String> {
        self.call.reference()
    }

    /// Whether an earlier attempt at the same call may have been applied, although this one was not sent.
    pub fn is_in_doubt(&self) -> bool {
        let unknown = self.last_verdict().is_some_and(|last| last.class() == Class::Unknown);
        unknown && self.call.effect_kind() > Effect::ReadOnly
    }

    /// A text of at most 500 bytes that is safe to show a model: our own words and numbers only.
    pub fn model_text(&self) -> String {
        let wait = match self.retry_after() {
            Some(wait) => {
                format!(" It may be tried again in {} s.", wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
            }
            None => String::new(),
        };
        let instead = match self.advice() {
            Advice::Wait => "Do something else until then.",
            Advice::UseAnother => "Use another way, or go on without it.",
            Advice::AskHuman => "Go on without it, and say so in your answer.",
            Advice::Stop => "Stop, and report this.",
        };
        let doubt = if self.is_in_doubt() { " An earlier attempt may or may not have been carried out." } else { "" };
        format!("The call was not sent.{doubt} {}{wait} Do not repeat it now. {instead}", self.code.model_text())
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (scope {}", self.layer, self.code, self.scope)?;
        for (word, name) in [("target", Name::Target), ("operation", Name::Operation), ("tenant", Name::Tenant)] {
            if let Some(value) = self.call.name(name) {
                write!(f, ", {word} {}", Shown(value))?;
            }
        }
        if let Some(wait) = self.retry_after() {
            write!(f, ", retry in {:.3} s", wait.as_secs_f64())?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("layer", &self.layer)
            .field("code", &self.code)
            .field("scope", &self.scope)
            .field("retry_at", &self.retry_at)
            .finish_non_exhaustive()
    }
}

impl StdError for Rejected {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The verdict of an earlier attempt, as the source of a refusal. Not a [`Failure`], so that nobody counts it twice.
#[derive(Debug, Clone)]
struct LastVerdict(Verdict);

impl fmt::Display for LastVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the attempt before ended as {}", self.0.reason)
    }
}

impl StdError for LastVerdict {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    #[test]
    fn a_refusal_after_an_unknown_write_says_that_it_is_in_doubt() {
        let after = |last, effect| {
            let call = Call::to("crm").effect(effect);
            Rejected::new("retry", Refusal::Open, Scope::TARGET, &call).with_last(Verdict::new(last))
        };
        let doubtful = after(Reason::Timeout, Effect::Consequential);
        assert!(doubtful.is_in_doubt() && doubtful.model_text().contains("may or may not"));
        assert!(!after(Reason::Timeout, Effect::ReadOnly).is_in_doubt());
        assert!(!after(Reason::ConnectFailed, Effect::Consequential).is_in_doubt());
    }

    #[test]
    fn model_texts_are_short_and_say_that_nothing_was_sent() {
        for code in Refusal::ALL {
            let refusal = Rejected::new("semantic_breaker", *code, Scope::TARGET, &Call::to("crm"))
                .with_retry_at(Instant::now() + Duration::from_secs(u32::MAX.into()))
                .with_last(Verdict::new(Reason::Timeout));
            let text = refusal.model_text();
            assert!(text.len() <= 500 && text.starts_with("The call was not sent."), "{text}");
            assert!(!text.contains("crm"));
        }
    }
}
