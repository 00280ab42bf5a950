//! How a body is read.

use http::{HeaderMap, header, response::Parts};

use crate::wire::{Framing, Protocol};

/// How a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Its first bytes will tell.
    Undecided,
    /// The body of an error status, as a whole.
    Error,
    /// A JSON answer, as a whole.
    Json,
    /// A stream of events.
    Stream,
    /// Not at all.
    Opaque,
}

impl Mode {
    /// By the head alone.
    pub(super) fn of(parts: &Parts, protocol: Option<Protocol>) -> Self {
        match () {
            () if is_encoded(&parts.headers) => Self::Opaque,
            () if parts.status.as_u16() >= 400 => Self::Error,
            // A redirect is no answer, and none of the model's failures.
            () if protocol.is_none() || !parts.status.is_success() => Self::Opaque,
            () => Self::Undecided,
        }
    }

    /// By the first bytes that are not white space, once there are enough to tell.
    pub(super) fn sniff(beginning: &[u8], declared: Option<Framing>) -> Option<Self> {
        const ENOUGH: usize = b"\xef\xbb\xbfretry:".len();
        match Framing::of(None, beginning) {
            Some(framing) => Some(framing.into()),
            None if beginning.len() < ENOUGH => None,
            None => Some(Self::guess(beginning, declared)),
        }
    }

    /// By all there is.
    pub(super) fn guess(beginning: &[u8], declared: Option<Framing>) -> Self {
        Framing::of(None, beginning).or(declared).map_or(Self::Json, Self::from)
    }
}

impl From<Framing> for Mode {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::Sse => Self::Stream,
            Framing::Json => Self::Json,
        }
    }
}

/// What the `content-type` says.
pub(super) fn declared(headers: &HeaderMap) -> Option<Framing> {
    Framing::of(headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()), &[])
}

fn is_encoded(headers: &HeaderMap) -> bool {
    let plain = |encoding: &[u8]| {
        let encoding = encoding.trim_ascii();
        encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity")
    };
    headers.get_all(header::CONTENT_ENCODING).iter().any(|encoding| !plain(encoding.as_bytes()))
}
