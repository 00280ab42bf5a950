//! What a gRPC status says.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use tokio::time::Instant;

use super::{status::Proof, wait::LONGEST};
use crate::{
    call::{Call, Effect},
    reason::Reason,
    verdict::Verdict,
};

/// Whether a message is gRPC or gRPC-Web, which has the same calls and statuses.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    after_grpc(headers).is_some()
}

/// gRPC-Web has its trailers inside the body, if anywhere: there are none behind it.
fn has_trailers(headers: &HeaderMap) -> bool {
    after_grpc(headers).is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

fn after_grpc(headers: &HeaderMap) -> Option<&[u8]> {
    const GRPC: &[u8] = b"application/grpc";
    let (kind, rest) = headers.get(header::CONTENT_TYPE)?.as_bytes().split_at_checked(GRPC.len())?;
    kind.eq_ignore_ascii_case(GRPC).then_some(rest)
}

/// Whether a body must end in trailers with a `grpc-status`: there is none in the head, nor any HTTP error.
pub(crate) fn ends_in_status(status: StatusCode, headers: &HeaderMap) -> bool {
    has_trailers(headers) && status.as_u16() < 400 && !headers.contains_key("grpc-status")
}

/// The verdict in trailers, or in the head of a trailers-only answer; `None` where there is no `grpc-status`.
pub(crate) fn grpc_verdict(call: &Call, trailers: &HeaderMap) -> Option<Verdict> {
    let status = trailers.get("grpc-status")?;
    let code = status.to_str().ok().and_then(|code| code.trim().parse::<u32>().ok());
    let wait = pushback(trailers);
    let proof = if wait.is_some() { Proof::Refused } else { Proof::None };
    let reason = grpc_reason(code.unwrap_or(2), call.effect_kind(), proof);
    Some(Verdict::new(reason).with_retry_at(wait.and_then(|wait| Instant::now().checked_add(wait))))
}

/// The wait that the server asks for before the call is sent again; a negative one says that it must not be.
fn pushback(trailers: &HeaderMap) -> Option<Duration> {
    let millis = trailers.get("grpc-retry-pushback-ms")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_millis(millis).min(LONGEST))
}

fn grpc_reason(code: u32, effect: Effect, refused: Proof) -> Reason {
    let read = effect == Effect::ReadOnly;
    let surely = read || refused == Proof::Refused;
    match code {
        0 => Reason::Completed,
        3 | 6 | 9 | 11 => Reason::InvalidRequest,
        4 => Reason::Timeout,
        5 | 12 => Reason::NotFound,
        7 => Reason::PermissionDenied,
        10 => Reason::Conflict,
        16 => Reason::Unauthenticated,
        // Without a retry hint neither is proof that a write was refused.
        8 if surely => Reason::RateLimited,
        14 if surely => Reason::Overloaded,
        13 | 15 if read => Reason::ServerError,
        1 | 2 if read => Reason::Unclassified,
        _ => Reason::Unproven,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Class;

    #[test]
    fn a_status_that_nobody_knows_is_unknown() {
        for code in ["99", "", "ok", "-1"] {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", code.parse().expect("a header value"));
            let verdict = grpc_verdict(&Call::new(), &trailers).expect("there is a status");
            assert_eq!(verdict.class(), Class::Unknown, "{code}");
        }
        assert!(grpc_verdict(&Call::new(), &HeaderMap::new()).is_none());
    }

    #[test]
    fn only_grpc_itself_ends_in_trailers() {
        let ends = |kind: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, kind.parse().expect("a header value"));
            (is_grpc(&headers), ends_in_status(StatusCode::OK, &headers))
        };
        for kind in ["application/grpc", "application/grpc+proto", "Application/GRPC; charset=utf-8"] {
            assert_eq!(ends(kind), (true, true), "{kind}");
        }
        for kind in ["application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text"] {
            assert_eq!(ends(kind), (true, false), "{kind}");
        }
        assert_eq!(ends("application/gr"), (false, false));
    }

    #[test]
    fn unavailable_trips_a_read_and_proves_nothing_for_a_write() {
        assert_eq!(grpc_reason(14, Effect::ReadOnly, Proof::None), Reason::Overloaded);
        assert_eq!(grpc_reason(14, Effect::Consequential, Proof::None), Reason::Unproven);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stated_wait_proves_that_a_write_was_refused() {
        let verdict = |code: &str, wait: &str| {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", code.parse().expect("a header value"));
            trailers.insert("grpc-retry-pushback-ms", wait.parse().expect("a header value"));
            grpc_verdict(&Call::new(), &trailers).expect("there is a status")
        };
        let at = Instant::now() + Duration::from_millis(1_500);
        assert_eq!(verdict("8", "1500"), Verdict::new(Reason::RateLimited).with_retry_at(at));
        assert_eq!(verdict("14", "1500"), Verdict::new(Reason::Overloaded).with_retry_at(at));
        assert_eq!(verdict("13", "1500").reason, Reason::Unproven);
        for never in ["-1", "soon"] {
            assert_eq!(verdict("14", never), Verdict::new(Reason::Unproven));
        }
    }
}
