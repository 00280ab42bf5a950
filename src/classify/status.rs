//! What an HTTP status says when nobody reads the body.

use std::time::SystemTime;

use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::wait;
use crate::{
    call::{Call, Effect},
    reason::Reason,
    verdict::Verdict,
};

/// The reason behind an HTTP status for a call with this effect.
///
/// Above `ReadOnly` no 5xx proves that nothing was applied, nor that a call was given up on its way (424, 460, 499), nor
/// does a 429 or 503 without the server's own `retry-after`: those are [`Reason::Unproven`].
pub(crate) fn status_reason(status: u16, effect: Effect, refused: Proof) -> Reason {
    let reason = match status {
        0..=399 => return Reason::Completed,
        401 | 407 => Reason::Unauthenticated,
        402 => Reason::QuotaExhausted,
        403 => Reason::PermissionDenied,
        404 | 410 => Reason::NotFound,
        408 => Reason::Timeout,
        409 | 423 | 425 => Reason::Conflict,
        429 => Reason::RateLimited,
        451 => Reason::PolicyDenied,
        // Somebody in between, or behind, gave it up.
        424 | 460 | 499 => Reason::ServerError,
        400..=499 => Reason::InvalidRequest,
        504 | 522 | 524 => Reason::Timeout,
        503 | 529 => Reason::Overloaded,
        _ => Reason::ServerError,
    };
    let unproven = match status {
        429 | 503 | 529 => refused == Proof::None,
        424 | 460 | 499 => true,
        code => code >= 500,
    };
    if effect > Effect::ReadOnly && unproven { Reason::Unproven } else { reason }
}

/// Whether the server itself said that it did not take the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    None,
    Refused,
}

/// The verdict on a response by its status and headers alone.
pub(crate) fn status_verdict(call: &Call, status: StatusCode, headers: &HeaderMap) -> Verdict {
    if status.as_u16() < 400 {
        return Verdict::completed();
    }
    let wait = wait::asked(headers, SystemTime::now());
    let proof = if wait.is_some() { Proof::Refused } else { Proof::None };
    let at = wait.and_then(|wait| Instant::now().checked_add(wait));
    let verdict = Verdict::new(status_reason(status.as_u16(), call.effect_kind(), proof)).with_retry_at(at);
    verdict.with_should_retry(wait::should_retry(headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn above_read_only_a_server_error_proves_nothing() {
        for code in [424, 460, 499, 500, 502, 503, 504, 529, 599] {
            assert_eq!(status_reason(code, Effect::Reversible, Proof::None), Reason::Unproven);
            assert_ne!(status_reason(code, Effect::ReadOnly, Proof::None), Reason::Unproven);
        }
    }

    #[test]
    fn a_stated_wait_proves_that_a_write_was_refused() {
        assert_eq!(status_reason(429, Effect::Sensitive, Proof::Refused), Reason::RateLimited);
        assert_eq!(status_reason(429, Effect::Sensitive, Proof::None), Reason::Unproven);
    }
}
