mod amend;
mod answers;
mod cohere;
mod errors;
mod gemini;
mod hints;
mod json;
mod recorded;
mod request;
mod splitting;

use http::StatusCode;

use super::{Decoder, Protocol, Reading, SseSplitter};
use crate::{call::Effect, reason::Reason};

/// Reads a stream in one piece.
fn stream(protocol: impl Into<Option<Protocol>>, bytes: &[u8]) -> Reading {
    let mut decoder = Decoder::new(protocol.into());
    let mut sse = SseSplitter::new();
    sse.push(bytes, |event| {
        decoder.sse(&event);
    });
    sse.finish(|event| {
        decoder.sse(&event);
    });
    decoder.end();
    decoder.into_reading()
}

fn body(protocol: impl Into<Option<Protocol>>, bytes: &[u8]) -> Reading {
    let mut decoder = Decoder::new(protocol.into());
    decoder.json(bytes);
    decoder.into_reading()
}

/// A stream of these `data` lines.
fn lines(data: &[&str]) -> Vec<u8> {
    data.iter().flat_map(|data| format!("data: {data}\n\n").into_bytes()).collect()
}

fn reason(reading: &Reading) -> Reason {
    reading.reason(StatusCode::OK, Effect::ReadOnly)
}
