//! What an error says, without naming the client that made it.

use std::{error::Error as StdError, io};

use crate::{
    call::Call,
    error::{Failure, find},
    reason::Reason,
    verdict::Verdict,
};

/// The verdict on an error of the inner service, drawn from its chain of sources.
///
/// An error that was judged already keeps its verdict. A refused or unroutable connection was certainly not used;
/// an elapsed timeout and a broken connection may have been too late; anything else is
/// [`Reason::Unclassified`], of class `Unknown`.
pub fn error_verdict(call: &Call, error: &(dyn StdError + 'static)) -> Verdict {
    if let Some(failure) = find::<Failure>(error) {
        return failure.verdict.clone();
    }
    if let Some(reason) = client_reason(call, error) {
        return Verdict::new(reason);
    }
    if find::<tokio::time::error::Elapsed>(error).is_some() || find::<tower::timeout::error::Elapsed>(error).is_some() {
        return Verdict::new(Reason::Timeout);
    }
    Verdict::new(find::<io::Error>(error).map_or(Reason::Unclassified, |error| io_reason(error.kind())))
}

/// What a bare `reqwest::Client` says, which may have followed redirects.
#[cfg(feature = "reqwest")]
fn client_reason(call: &Call, error: &(dyn StdError + 'static)) -> Option<Reason> {
    let error = find::<reqwest::Error>(error)?;
    Some(super::reqwest_reason(error, call.effect_kind(), super::Redirects::Maybe))
}

#[cfg(not(feature = "reqwest"))]
const fn client_reason(_: &Call, _: &(dyn StdError + 'static)) -> Option<Reason> {
    None
}

/// Only what the kind alone proves: a kind that also comes up after a request was written is no proof.
fn io_reason(kind: io::ErrorKind) -> Reason {
    match kind {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::AddrNotAvailable => Reason::ConnectFailed,
        io::ErrorKind::TimedOut => Reason::Timeout,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => Reason::ConnectionLost,
        _ => Reason::Unclassified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call::Effect, error::Error, reason::Class};

    fn reason(error: impl StdError + 'static) -> Reason {
        error_verdict(&Call::new(), &error).reason
    }

    #[test]
    fn a_refused_connection_was_not_used() {
        assert_eq!(reason(io::Error::from(io::ErrorKind::ConnectionRefused)), Reason::ConnectFailed);
    }

    #[test]
    fn a_reset_may_have_come_after_the_request() {
        assert_eq!(reason(io::Error::from(io::ErrorKind::ConnectionReset)).class(), Class::Unknown);
    }

    #[test]
    fn ignorance_is_unknown_and_no_definite_failure_for_a_write() {
        let verdict = error_verdict(&Call::new().effect(Effect::Sensitive), &std::fmt::Error);
        assert_eq!(verdict.class(), Class::Unknown);
    }

    #[test]
    fn a_judged_failure_keeps_its_verdict_at_any_depth() {
        let judged = Error::from(Failure::new(Reason::SchemaViolation));
        assert_eq!(reason(Error::from_boxed(judged.into())), Reason::SchemaViolation);
    }
}
