//! The closed list of answers to "what came of this call?", and what each one means to every layer.
//!
//! One table is the truth: [`Reason`] says its [`Class`], its [`Retry`] disposition and its [`Impact`] on a
//! breaker. No layer decides these by itself. The table of [`Reason`] is printed from the code.
//!
//! ```
//! use tower_belay::{Class, Effect, Impact, Reason, Retry};
//!
//! // Nobody knows whether a call was applied that got no answer in time. A read is simply sent again; a write is not.
//! assert_eq!(Reason::Timeout.class(), Class::Unknown);
//! assert_eq!(Reason::Timeout.retry(Effect::ReadOnly), Retry::Backoff);
//! assert_eq!(Reason::Timeout.retry(Effect::Consequential), Retry::AfterReconciling);
//!
//! // A denial is held against the actor, never against the target.
//! assert_eq!(Reason::PermissionDenied.impact(Effect::ReadOnly), Impact::Denial);
//! assert_eq!(Reason::PermissionDenied.retry(Effect::ReadOnly), Retry::Never);
//! ```

use std::{fmt, time::Duration};

use crate::call::Effect;

/// The coarse outcome of a call, fixed by its [`Reason`].
///
/// This enum is exhaustive on purpose: a policy must answer for every class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Applied, and answered as asked.
    Success,
    /// Certainly not applied.
    Failed,
    /// May have been applied: nobody can tell from here.
    Unknown,
    /// Refused by the other side for who asks or for what is asked.
    Denied,
    /// Answered, but the answer cannot be used.
    Malformed,
    /// Refused for now, by rate.
    RateLimited,
}

/// What may be done about a call, as far as its [`Reason`] decides it.
///
/// This enum is exhaustive on purpose: whoever repeats calls must answer for every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The same call meets the same answer.
    Never,
    /// May be sent again after a growing, jittered wait.
    Backoff,
    /// May be sent again when the other side said, else after a wait.
    AtHint,
    /// May be sent again only after the request was changed.
    AfterAmending,
    /// May be sent again only after a look-up showed that it was not applied.
    AfterReconciling,
}

/// What a breaker makes of a call.
///
/// This enum is exhaustive on purpose: a breaker must answer for every impact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Impact {
    /// Counts as a failure of the target.
    Trip,
    /// Counts as a malformed answer, apart from failures.
    Malformed,
    /// Counts against the actor, not the target.
    Denial,
    /// Holds the credential back until the other side's window has passed.
    Gate,
    /// Opens the credential at this target: it does not work until it is mended.
    Credential,
    /// Proof of life, and nothing else.
    Neutral,
}

/// How long a rate limit holds that says no time, at first. What a breaker refuses for so long, no retry asks for sooner.
pub(crate) const FIRST_HOLD: Duration = Duration::from_secs(5);

macro_rules! text {
    (Success) => {
        "success"
    };
    (Failed) => {
        "failed"
    };
    (Unknown) => {
        "unknown"
    };
    (Denied) => {
        "denied"
    };
    (Malformed) => {
        "malformed"
    };
    (RateLimited) => {
        "rate limited"
    };
    (Never) => {
        "never"
    };
    (Backoff) => {
        "backoff"
    };
    (AtHint) => {
        "at hint"
    };
    (AfterAmending) => {
        "after amending"
    };
    (AfterReconciling) => {
        "after reconciling"
    };
    (Trip) => {
        "trip"
    };
    (Denial) => {
        "denial"
    };
    (Gate) => {
        "gate"
    };
    (Credential) => {
        "credential"
    };
    (Neutral) => {
        "neutral"
    };
}

macro_rules! reasons {
    ($( $name:ident $code:literal $class:ident $retry:ident $impact:ident $doc:literal; )*) => {
        /// Why a call ended as it did.
        ///
        /// An `unknown` reason counts as `trip` only for a call whose [`Effect`] is `ReadOnly`, and such a call
        /// may simply be sent again; above that it is a write that may have been applied (see
        /// [`retry`](Reason::retry) and [`impact`](Reason::impact)).
        ///
        /// | reason | class | retry | breaker | meaning |
        /// |---|---|---|---|---|
        $(#[doc = concat!("| `", $code, "` | ", text!($class), " | ", text!($retry), " | ", text!($impact), " | ", $doc, " |")])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason { $(#[doc = $doc] $name,)* }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &'static [Reason] = &[$(Reason::$name),*];

            /// The stable, documented code of this reason.
            pub const fn code(self) -> &'static str {
                match self { $(Reason::$name => $code,)* }
            }

            /// The class of this reason.
            #[inline]
            pub const fn class(self) -> Class {
                match self { $(Reason::$name => Class::$class,)* }
            }

            /// What it means, in a few words of our own: safe to show a model.
            pub const fn meaning(self) -> &'static str {
                match self { $(Reason::$name => $doc,)* }
            }

            #[inline]
            const fn row(self) -> (Retry, Impact) {
                match self { $(Reason::$name => (Retry::$retry, Impact::$impact),)* }
            }
        }
    };
}

reasons! {
    Completed "completed" Success Never Neutral "answered in full";
    Paused "paused" Success Never Neutral "answered so far; the model asks to be called again to go on";
    Accepted "accepted" Success Never Neutral "accepted to run in the background; the answer comes later";
    ConnectFailed "connect_failed" Failed Backoff Trip "no connection was made, so nothing was sent";
    Overloaded "overloaded" Failed Backoff Trip "the other side has no capacity";
    ServerError "server_error" Failed Backoff Trip "the other side failed at a call that changes nothing";
    WarmingUp "warming_up" Failed Backoff Neutral "the model is being loaded";
    Conflict "conflict" Failed Backoff Neutral "a lock or a newer version was in the way";
    InvalidRequest "invalid_request" Failed Never Neutral "the request itself is wrong";
    NotFound "not_found" Failed Never Neutral "no such model, endpoint or object";
    ContextOverflow "context_overflow" Failed AfterAmending Neutral "the input is too long for the model";
    Failed "failed" Failed Backoff Trip "failed, and whoever judged it knows that nothing was applied";
    Timeout "timeout" Unknown AfterReconciling Trip "no answer in time";
    ConnectionLost "connection_lost" Unknown AfterReconciling Trip "the connection broke after the request was sent";
    Cut "cut" Unknown AfterReconciling Trip "the answer ended before its terminator";
    Unproven "unproven" Unknown AfterReconciling Trip "an error status without proof that nothing was applied";
    Hung "hung" Unknown AfterReconciling Trip "given up by the caller after a long silence";
    Abandoned "abandoned" Unknown AfterReconciling Neutral "given up by the caller";
    Unclassified "unclassified" Unknown AfterReconciling Trip "an error that nobody recognised";
    Unauthenticated "unauthenticated" Denied Never Credential "the credential is missing, wrong or expired";
    QuotaExhausted "quota_exhausted" Denied Never Credential "the account has no quota or credit left";
    NotEntitled "not_entitled" Denied Never Credential "the account has no right to this model or feature";
    PermissionDenied "permission_denied" Denied Never Denial "this actor may not do this";
    CrossTenant "cross_tenant" Denied Never Denial "reached for something of another tenant";
    PolicyDenied "policy_denied" Denied Never Denial "forbidden by a business policy of the target";
    ContentFiltered "content_filtered" Denied Never Neutral "the prompt or the answer met a content filter";
    Refused "refused" Denied Never Neutral "the model declined to answer";
    Unparsable "unparsable" Malformed Backoff Malformed "the answer is not what its protocol says";
    EmptyAnswer "empty_answer" Malformed AfterAmending Malformed "nothing visible and no tool call, or thinking only";
    OutputLimit "output_limit" Malformed AfterAmending Malformed "the answer was ended by a token limit";
    SchemaViolation "schema_violation" Malformed AfterAmending Malformed "the answer or a tool call breaks its schema";
    BadArguments "bad_arguments" Malformed AfterAmending Malformed "tool arguments that do not parse";
    UnknownTool "unknown_tool" Malformed AfterAmending Malformed "a call to a tool that does not exist";
    ToolCallInvalid "tool_call_invalid" Malformed AfterAmending Malformed "the provider itself rejected the model's tool call";
    RateLimited "rate_limited" RateLimited AtHint Gate "over a rate; nothing was done";
}

impl Reason {
    /// What may be done about a call with this `effect`.
    ///
    /// An unknown outcome of a read may simply be tried again; anything above `ReadOnly` must be looked up first. So
    /// must a write that was answered by something that cannot be used: it was most likely applied.
    pub const fn retry(self, effect: Effect) -> Retry {
        match (self.row().0, self.class(), effect) {
            (Retry::AfterReconciling, _, Effect::ReadOnly) => Retry::Backoff,
            (retry, _, Effect::ReadOnly) => retry,
            (_, Class::Malformed, _) => Retry::AfterReconciling,
            (retry, _, _) => retry,
        }
    }

    /// What a breaker makes of a call that ended so.
    ///
    /// Of a class [`Class::Unknown`] only reads trip: an unknown write has a rule of its own.
    #[inline]
    pub const fn impact(self, effect: Effect) -> Impact {
        match (self.class(), effect) {
            (Class::Unknown, Effect::ReadOnly) => self.row().1,
            (Class::Unknown, _) => Impact::Neutral,
            _ => self.row().1,
        }
    }

    /// Whether the call was answered as asked.
    #[inline]
    pub const fn is_success(self) -> bool {
        matches!(self.class(), Class::Success)
    }

    /// The reason with this code, if there is one.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_found_again() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(*reason));
        }
    }

    #[test]
    fn a_write_whose_answer_cannot_be_used_is_looked_up_first() {
        for reason in Reason::ALL.iter().filter(|r| r.class() == Class::Malformed) {
            assert_eq!(reason.retry(Effect::Consequential), Retry::AfterReconciling, "{reason}");
        }
        assert_eq!(Reason::Unparsable.retry(Effect::ReadOnly), Retry::Backoff, "it is no fault of the request");
    }

    #[test]
    fn an_unknown_write_neither_trips_nor_is_resent() {
        for reason in Reason::ALL.iter().filter(|r| r.class() == Class::Unknown) {
            for effect in [Effect::Reversible, Effect::Consequential, Effect::Sensitive] {
                assert_eq!(reason.retry(effect), Retry::AfterReconciling, "{reason}");
                assert_eq!(reason.impact(effect), Impact::Neutral, "{reason}");
            }
            assert_eq!(reason.retry(Effect::ReadOnly), Retry::Backoff, "{reason}");
        }
    }
}
