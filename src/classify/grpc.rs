//! What a gRPC status says.

use http::{HeaderMap, header};

use crate::{
    call::{Call, Effect},
    reason::Reason,
    verdict::Verdict,
};

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// Whether the status is still to come, in trailers: it may stand in the head of an answer without content.
pub(crate) fn ends_in_trailers(headers: &HeaderMap) -> bool {
    is_grpc(headers) && !headers.contains_key("grpc-status")
}

/// The verdict in trailers, or in the head of a trailers-only answer; `None` where there is no `grpc-status`.
pub(crate) fn grpc_verdict(call: &Call, trailers: &HeaderMap) -> Option<Verdict> {
    let status = trailers.get("grpc-status")?;
    let code = status.to_str().ok().and_then(|code| code.trim().parse::<u32>().ok());
    Some(Verdict::new(grpc_reason(code.unwrap_or(2), call.effect_kind())))
}

fn grpc_reason(code: u32, effect: Effect) -> Reason {
    let read = effect == Effect::ReadOnly;
    match code {
        0 => Reason::Completed,
        3 | 6 | 9 | 11 => Reason::InvalidRequest,
        4 => Reason::Timeout,
        5 | 12 => Reason::NotFound,
        7 => Reason::PermissionDenied,
        10 => Reason::Conflict,
        16 => Reason::Unauthenticated,
        // Without a retry hint neither is proof that a write was refused.
        8 if read => Reason::RateLimited,
        14 if read => Reason::Overloaded,
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
    fn unavailable_trips_a_read_and_proves_nothing_for_a_write() {
        assert_eq!(grpc_reason(14, Effect::ReadOnly), Reason::Overloaded);
        assert_eq!(grpc_reason(14, Effect::Consequential), Reason::Unproven);
    }
}
