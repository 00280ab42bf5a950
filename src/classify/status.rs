//! What an HTTP status says when nobody reads the body.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use tokio::time::Instant;

use crate::{
    call::{Call, Effect},
    reason::Reason,
    verdict::Verdict,
};

/// The longest wait that is taken at its word; anything longer is held as this. A year fits every clock.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

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
    let wait = retry_after(headers);
    let proof = if wait.is_some() { Proof::Refused } else { Proof::None };
    let at = wait.and_then(|wait| Instant::now().checked_add(wait));
    Verdict::new(status_reason(status.as_u16(), call.effect_kind(), proof)).with_retry_at(at)
}

/// The wait that a `retry-after` header asks for: seconds, whole or not, or an HTTP date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds >= 0.0)
            .then(|| Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let date = headers.get(header::DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    // A server's clock is compared with itself where it says what time it has.
    let now = date.unwrap_or_else(SystemTime::now);
    Some(at.duration_since(now).unwrap_or_default().min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, text.parse().expect("a header value"));
        headers.insert(header::DATE, "Wed, 19 Aug 2026 14:34:22 GMT".parse().expect("a header value"));
        retry_after(&headers)
    }

    #[test]
    fn waits_are_seconds_or_dates_and_never_negative_or_endless() {
        assert_eq!(wait("2"), Some(Duration::from_secs(2)));
        assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("Wed, 19 Aug 2026 14:34:52 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(wait("Wed, 19 Aug 2020 14:34:52 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("1e300"), Some(LONGEST_WAIT));
        assert_eq!(wait("inf"), Some(LONGEST_WAIT));
        assert_eq!((wait("-1"), wait("NaN"), wait("soon")), (None, None, None));
    }

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
