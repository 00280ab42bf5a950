//! What an error is on the wire: the one table behind the HTTP answer, the gRPC answer and the tonic status.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::{
    call::{Call, Effect},
    classify::error_verdict,
    error::{Error, Refusal, Rejected},
    reason::{Class, Reason, Retry},
    verdict::Verdict,
};

/// The gRPC status codes that are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grpc {
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    Internal = 13,
    Unavailable = 14,
}

pub(super) const fn of_refusal(refusal: Refusal) -> (StatusCode, Grpc) {
    match refusal {
        Refusal::Gated | Refusal::RateLimit => (StatusCode::TOO_MANY_REQUESTS, Grpc::ResourceExhausted),
        Refusal::BulkheadFull | Refusal::BulkheadWait => (StatusCode::SERVICE_UNAVAILABLE, Grpc::ResourceExhausted),
        Refusal::PollTooSoon => (StatusCode::TOO_MANY_REQUESTS, Grpc::ResourceExhausted),
        Refusal::Repeated | Refusal::LoopEnded => (StatusCode::CONFLICT, Grpc::FailedPrecondition),
        Refusal::DeadlinePassed => (StatusCode::GATEWAY_TIMEOUT, Grpc::DeadlineExceeded),
        Refusal::InProgress => (StatusCode::CONFLICT, Grpc::Aborted),
        Refusal::AlreadyDone | Refusal::InDoubt | Refusal::ActionConflict => {
            (StatusCode::CONFLICT, Grpc::FailedPrecondition)
        }
        Refusal::ActorBlocked => (StatusCode::FORBIDDEN, Grpc::PermissionDenied),
        Refusal::Open | Refusal::Degraded | Refusal::Probing | Refusal::Recovering => {
            (StatusCode::SERVICE_UNAVAILABLE, Grpc::Unavailable)
        }
        Refusal::BudgetSpent | Refusal::StepsSpent | Refusal::TimeSpent => {
            (StatusCode::PAYMENT_REQUIRED, Grpc::ResourceExhausted)
        }
        // Somebody has to act first, and some gRPC clients repeat whatever is unavailable.
        Refusal::WritesOpen
        | Refusal::AwaitingProbe
        | Refusal::CredentialOpen
        | Refusal::ForcedOpen
        | Refusal::Misconfigured
        | Refusal::TooManyWrites
        | Refusal::Unpriced
        | Refusal::Killed => (StatusCode::SERVICE_UNAVAILABLE, Grpc::FailedPrecondition),
    }
}

pub(super) const fn of_reason(reason: Reason) -> (StatusCode, Grpc) {
    match reason {
        Reason::RateLimited => (StatusCode::TOO_MANY_REQUESTS, Grpc::ResourceExhausted),
        Reason::Overloaded | Reason::WarmingUp => (StatusCode::SERVICE_UNAVAILABLE, Grpc::Unavailable),
        Reason::ConnectFailed => (StatusCode::BAD_GATEWAY, Grpc::Unavailable),
        Reason::Timeout | Reason::Hung => (StatusCode::GATEWAY_TIMEOUT, Grpc::DeadlineExceeded),
        Reason::InvalidRequest => (StatusCode::BAD_REQUEST, Grpc::InvalidArgument),
        Reason::ContextOverflow => (StatusCode::PAYLOAD_TOO_LARGE, Grpc::InvalidArgument),
        Reason::NotFound => (StatusCode::NOT_FOUND, Grpc::NotFound),
        Reason::Conflict => (StatusCode::CONFLICT, Grpc::Aborted),
        Reason::PermissionDenied | Reason::CrossTenant | Reason::PolicyDenied => {
            (StatusCode::FORBIDDEN, Grpc::PermissionDenied)
        }
        Reason::ContentFiltered | Reason::Refused => (StatusCode::UNPROCESSABLE_ENTITY, Grpc::FailedPrecondition),
        // Ours to mend: the credential is the server's, not the client's.
        Reason::Unauthenticated | Reason::QuotaExhausted | Reason::NotEntitled => {
            (StatusCode::BAD_GATEWAY, Grpc::FailedPrecondition)
        }
        // Not `Unavailable`: it may have been applied, and some gRPC clients repeat that by themselves.
        Reason::ConnectionLost | Reason::Cut | Reason::Unproven | Reason::Abandoned | Reason::Unclassified => {
            (StatusCode::BAD_GATEWAY, Grpc::Unknown)
        }
        Reason::ServerError
        | Reason::Failed
        | Reason::Unparsable
        | Reason::EmptyAnswer
        | Reason::OutputLimit
        | Reason::SchemaViolation
        | Reason::BadArguments
        | Reason::UnknownTool
        | Reason::ToolCallInvalid
        | Reason::Completed
        | Reason::Paused
        | Reason::Accepted => (StatusCode::BAD_GATEWAY, Grpc::Internal),
    }
}

/// An error, ready to be put on the wire. Every text in it is our own.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(super) status: StatusCode,
    pub(crate) grpc: Grpc,
    pub(super) code: &'static str,
    pub(super) layer: Option<&'static str>,
    pub(crate) detail: String,
    wait: Option<Duration>,
    repeatable: bool,
}

impl Answer {
    pub(crate) fn to(error: &Error) -> Self {
        match error.rejected() {
            Some(rejected) => Self::refused(rejected),
            None => Self::failed(&error_verdict(&Call::new(), error)),
        }
    }

    fn refused(rejected: &Rejected) -> Self {
        let (status, grpc) = of_refusal(rejected.code());
        let doubt = rejected.is_in_doubt();
        Self {
            status,
            grpc: if doubt { Grpc::Unknown } else { grpc },
            code: rejected.code().code(),
            layer: Some(rejected.layer()),
            detail: rejected.model_text(),
            wait: rejected.retry_after().filter(|_| !doubt),
            repeatable: false,
        }
    }

    fn failed(verdict: &Verdict) -> Self {
        let reason = verdict.reason;
        let (status, grpc) = of_reason(reason);
        let applied = match reason.class() {
            Class::Unknown => " It may or may not have been carried out.",
            Class::Failed | Class::RateLimited => " It was not carried out.",
            Class::Success | Class::Denied | Class::Malformed => "",
        };
        // A wait invites to repeat the call, and for some clients it proves that nothing was applied.
        let wait = match (reason.class(), verdict.retry_at) {
            (Class::Unknown, _) | (_, None) => None,
            (_, Some(at)) => Some(at.saturating_duration_since(Instant::now())),
        };
        Self {
            status,
            grpc,
            code: reason.code(),
            layer: None,
            detail: format!("The call failed: {}.{applied}", reason.meaning()),
            wait,
            repeatable: matches!(reason.retry(Effect::Sensitive), Retry::Backoff | Retry::AtHint),
        }
    }

    /// The wait in whole seconds, rounded up; never 0.
    pub(super) fn wait_secs(&self) -> Option<u64> {
        self.wait.map(|wait| (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1))
    }

    /// The wait in whole milliseconds, rounded up.
    pub(super) fn wait_millis(&self) -> Option<u64> {
        self.wait.map(|wait| u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// The value of `grpc-retry-pushback-ms`: the wait, or -1 where the call must not be repeated.
    pub(crate) fn pushback(&self) -> Option<i32> {
        match self.wait_millis() {
            Some(millis) => Some(i32::try_from(millis).unwrap_or(i32::MAX)),
            None if self.repeatable => None,
            None => Some(-1),
        }
    }
}
