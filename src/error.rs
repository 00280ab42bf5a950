//! What a layer returns when there is no answer: [`Error`], made of a [`Failure`] (it was judged) or a [`Rejected`]
//! (we did not send).

mod rejected;

use std::{error::Error as StdError, fmt};

use tokio::time::Instant;
use tower::BoxError;

pub use self::rejected::{Advice, Refusal, Rejected};
use crate::{adapt::without_url, reason::Reason, verdict::Verdict};

/// The error of every layer of this crate.
///
/// It is sized, so `?` carries it into `anyhow` and the like, and it flattens itself: an `Error` inside a box that
/// becomes an `Error` again is the same one. What it holds is found at any depth, also below other layers' errors.
///
/// Its `Display` is one short line. Code, reason and names are told by its source: log the chain (`{:#}` of `anyhow`),
/// or [`rejected`](Error::rejected) and [`failure`](Error::failure).
///
/// ```
/// # use tower_belay::{Call, Error, Refusal, Rejected, Scope};
/// let refusal = Rejected::new("semantic_breaker", Refusal::Open, Scope::TARGET, &Call::to("crm"));
/// let error = Error::from(refusal);
/// assert_eq!(error.rejected().map(Rejected::code), Some(Refusal::Open));
/// assert!(error.failure().is_none());
/// ```
pub struct Error(Box<Kind>);

enum Kind {
    Rejected(Rejected),
    Failure(Failure),
    Other(BoxError),
}

impl Error {
    /// Takes any error; one of ours comes out as it went in.
    ///
    /// It gives a service the error type that it has behind a layer, as `tower::util::option_layer` asks for:
    /// `.layer(option_layer(breaker)).map_err(Error::new)`.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self::from_boxed(error.into())
    }

    /// Takes any boxed error; one of ours comes out as it went in.
    pub fn from_boxed(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(ours) => *ours,
            Err(error) => match error.downcast::<Rejected>() {
                Ok(rejected) => Self::from(*rejected),
                Err(error) => match error.downcast::<Failure>() {
                    Ok(failure) => Self::from(*failure),
                    Err(other) => Self(Box::new(Kind::Other(without_url(other)))),
                },
            },
        }
    }

    /// The refusal by one of our layers, if that is what it is: nothing was sent.
    pub fn rejected(&self) -> Option<&Rejected> {
        match &*self.0 {
            Kind::Rejected(rejected) => Some(rejected),
            Kind::Failure(_) => None,
            Kind::Other(other) => find(&**other),
        }
    }

    /// The judged failure, if that is what it is.
    pub fn failure(&self) -> Option<&Failure> {
        match &*self.0 {
            Kind::Rejected(_) => None,
            Kind::Failure(failure) => Some(failure),
            Kind::Other(other) => match find::<Rejected>(&**other) {
                Some(_) => None,
                None => find(&**other),
            },
        }
    }

    /// The first `E` in this error and its sources, such as the error that the inner service gave.
    ///
    /// ```
    /// # use std::io;
    /// # use tower_belay::{Error, Failure, Reason};
    /// let error = Error::from(Failure::new(Reason::Cut).caused_by(io::Error::from(io::ErrorKind::UnexpectedEof)));
    /// assert_eq!(error.find::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::UnexpectedEof));
    /// ```
    pub fn find<E: StdError + 'static>(&self) -> Option<&E> {
        find(self)
    }

    /// When the call may be tried again, by a refusal or by the other side's word.
    pub fn retry_at(&self) -> Option<Instant> {
        match self.rejected() {
            Some(rejected) => rejected.retry_at(),
            None => self.failure().and_then(|failure| failure.verdict.retry_at),
        }
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Self {
        Self(Box::new(Kind::Rejected(rejected)))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self(Box::new(Kind::Failure(failure)))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Rejected(rejected) => rejected.fmt(f),
            Kind::Failure(failure) => failure.fmt(f),
            Kind::Other(other) => other.fmt(f),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Rejected(rejected) => write!(f, "refused by {} ({}), not sent", rejected.layer(), rejected.code()),
            Kind::Failure(failure) => write!(f, "the call failed ({failure})"),
            Kind::Other(other) => other.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &*self.0 {
            Kind::Rejected(rejected) => Some(rejected),
            Kind::Failure(failure) => Some(failure),
            Kind::Other(other) => other.source(),
        }
    }
}

/// The first `E` in the chain of `error` and its sources, looking through [`Error`].
pub(crate) fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    // A chain that loops on itself would be a defect of another crate; it must not hang us.
    let mut next = Some(error);
    for _ in 0..64 {
        let error = next?;
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = match error.downcast_ref::<Error>().map(|ours| &*ours.0) {
            Some(Kind::Other(other)) => Some(&**other),
            _ => error.source(),
        };
    }
    None
}

/// An error that was judged: a bad answer, a cut stream, a timeout.
///
/// Breakers count it, retry may repeat it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// What came of the call.
    pub verdict: Verdict,
    source: Option<BoxError>,
}

impl Failure {
    /// A failure with this verdict.
    pub fn new(verdict: impl Into<Verdict>) -> Self {
        Self { verdict: verdict.into(), source: None }
    }

    /// Keeps the error that the verdict was drawn from.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<BoxError>) -> Self {
        self.source = Some(match cause.into().downcast::<Error>() {
            Ok(error) => match *error.0 {
                // As an error of ours it would hide the outermost of its causes from whoever walks the sources.
                Kind::Other(other) => other,
                _ => error,
            },
            Err(other) => other,
        });
        self
    }

    /// Why the call failed.
    pub const fn reason(&self) -> Reason {
        self.verdict.reason
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verdict.reason.code())
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Scope};

    fn rejected() -> Rejected {
        Rejected::new("semantic_breaker", Refusal::Open, Scope::TARGET, &Call::to("crm"))
    }

    #[derive(Debug)]
    struct Wrapped(BoxError);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("wrapped")
        }
    }

    impl StdError for Wrapped {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&*self.0)
        }
    }

    #[test]
    fn an_error_flattens_itself() {
        let mut error = Error::from(rejected());
        for _ in 0..5 {
            error = Error::from_boxed(error.into());
        }
        assert!(matches!(*error.0, Kind::Rejected(_)));
    }

    #[test]
    fn a_refusal_is_found_at_any_depth_through_foreign_errors() {
        let deep = Wrapped(Box::new(Wrapped(Error::from(rejected()).into())));
        let error = Error::from_boxed(Box::new(deep));
        assert_eq!(error.rejected().map(Rejected::code), Some(Refusal::Open));
        let again = Error::from_boxed(Box::new(Wrapped(error.into())));
        assert_eq!(again.rejected().map(Rejected::code), Some(Refusal::Open));
    }

    #[test]
    fn the_last_verdict_of_a_refusal_is_its_source_but_not_a_failure() {
        let error = Error::from(rejected().with_last(Verdict::new(Reason::Timeout)));
        assert!(error.failure().is_none());
        assert!(find::<Failure>(&error).is_none());
        let source = error.source().and_then(StdError::source).map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("the attempt before ended as timeout"));
    }
}
