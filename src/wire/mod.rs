//! Reads what LLM providers answer: outcome, usage, tool calls and waits, without building a tree of the answer.
//!
//! Five protocols and their dialects: OpenAI chat, OpenAI Responses, Anthropic messages, Gemini, Cohere v2; buffered
//! JSON and server-sent events. A field of an unexpected type is an absent value; what is not stated is `None`, never zero.
//!
//! ```
//! use http::StatusCode;
//! use tower_belay::{Effect, Reason, wire::{Decoder, Protocol, SseSplitter}};
//!
//! let stream = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
//! let (mut sse, mut decoder) = (SseSplitter::new(), Decoder::new(Some(Protocol::OpenAiChat)));
//! sse.push(stream, |event| { decoder.sse(&event); });
//! sse.finish(|event| { decoder.sse(&event); });
//! let reading = decoder.into_reading();
//! assert!(reading.visible);
//! // Neither a terminator nor a finish reason came.
//! assert_eq!(reading.reason(StatusCode::OK, Effect::ReadOnly), Reason::Cut);
//! ```

mod amend;
mod anthropic;
mod calls;
mod cohere;
mod cursor;
mod decoder;
mod errors;
mod finish;
mod gemini;
pub mod hints;
mod json;
mod openai_chat;
mod openai_responses;
mod reading;
mod request;
mod rewrite;
pub mod sse;
mod usage;

pub use amend::{Compact, LlmAmend};
pub use decoder::{Decoder, Progress};
pub use errors::error_reason;
pub use finish::FinishReason;
pub use reading::{Reading, StatedError, ToolCallRead};
pub use request::{RequestFacts, protocol_of, with_include_usage};
pub(crate) use request::{is_usage_only, output_cap};
pub(crate) use rewrite::rewrite;
pub use sse::SseSplitter;

/// The protocols that are read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// OpenAI chat completions, and everyone who speaks them.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini's `generateContent` and `streamGenerateContent`.
    Gemini,
    /// Cohere's chat, version 2.
    Cohere,
}

/// How an answer is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// One JSON value.
    Json,
    /// Server-sent events.
    Sse,
}

impl Framing {
    /// By the first bytes where they tell, else by the `content-type`: servers send errors as JSON under either.
    pub fn of(content_type: Option<&str>, beginning: &[u8]) -> Option<Self> {
        let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning).trim_ascii_start();
        match text.first() {
            Some(b'{' | b'[' | b'"') => return Some(Self::Json),
            Some(b':') => return Some(Self::Sse),
            _ => {}
        }
        if [&b"data:"[..], b"event:", b"id:", b"retry:", b"error:"].iter().any(|field| text.starts_with(field)) {
            return Some(Self::Sse);
        }
        let kind = content_type?.split(';').next()?.trim();
        let ends_with = |tail: &str| {
            let at = kind.len().checked_sub(tail.len());
            at.and_then(|at| kind.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(tail))
        };
        match () {
            () if kind.eq_ignore_ascii_case("text/event-stream") => Some(Self::Sse),
            () if kind.eq_ignore_ascii_case("application/json") || ends_with("+json") => Some(Self::Json),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests;
