//! Why a model stopped, and what that makes of its answer: [`FinishReason`].

use std::fmt;

use super::{Protocol, json};
use crate::{call::Effect, reason::Reason};

/// Why a model stopped, in the provider's own word.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// A word, known to us or not.
    Word(String),
    /// Some servers send a number.
    Number(i64),
}

impl FinishReason {
    /// The word, where it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Number(_) => None,
        }
    }

    pub(super) fn read(raw: json::Raw<'_>) -> Option<Self> {
        match json::string(raw) {
            Some(word) => (!word.is_empty()).then(|| Self::Word(json::clip(&word, 128).to_owned())),
            None => json::text(raw).parse().ok().map(Self::Number),
        }
    }
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// Gemini sends numbers where it is asked for enums as numbers.
const fn gemini_word(number: i64) -> Option<&'static str> {
    Some(match number {
        1 => "STOP",
        2 => "MAX_TOKENS",
        3 => "SAFETY",
        4 => "RECITATION",
        6 => "BLOCKLIST",
        7 => "PROHIBITED_CONTENT",
        8 => "SPII",
        9 => "MALFORMED_FUNCTION_CALL",
        _ => return None,
    })
}

/// What a finish reason means; `None` for an ordinary end and for every word that we do not know.
pub(super) fn finish_reason(protocol: Option<Protocol>, word: &FinishReason, effect: Effect) -> Option<Reason> {
    let on_read = |reason| if effect == Effect::ReadOnly { reason } else { Reason::Unproven };
    let word = match (protocol, word) {
        (Some(Protocol::Gemini), FinishReason::Number(number)) => gemini_word(*number)?,
        (_, word) => word.as_str()?,
    };
    Some(match (protocol, word) {
        (Some(Protocol::Anthropic), "pause_turn") => Reason::Paused,
        (Some(Protocol::OpenAiResponses), "queued" | "in_progress") => Reason::Accepted,
        (Some(Protocol::OpenAiResponses), "cancelled") => Reason::Abandoned,
        (Some(Protocol::OpenAiResponses), "incomplete") => Reason::OutputLimit,
        (Some(Protocol::OpenAiResponses), "failed") | (_, "error" | "network_error") => on_read(Reason::ServerError),
        (_, "length" | "max_tokens" | "max_output_tokens" | "model_length" | "MAX_TOKENS") => Reason::OutputLimit,
        (_, "model_context_window_exceeded") => Reason::ContextOverflow,
        (_, "content_filter" | "content_filtered" | "sensitive" | "SAFETY" | "RECITATION" | "BLOCKLIST") => {
            Reason::ContentFiltered
        }
        (_, "PROHIBITED_CONTENT" | "SPII" | "guardrail_intervened") => Reason::ContentFiltered,
        (_, "refusal") => Reason::Refused,
        (_, "MALFORMED_FUNCTION_CALL" | "malformed_function_call" | "UNEXPECTED_TOOL_CALL") => Reason::ToolCallInvalid,
        (Some(Protocol::Gemini), "IMAGE_SAFETY" | "IMAGE_PROHIBITED_CONTENT" | "IMAGE_RECITATION" | "MODEL_ARMOR") => {
            Reason::ContentFiltered
        }
        (Some(Protocol::Gemini), "MALFORMED_RESPONSE") => Reason::Unparsable,
        (Some(Protocol::Cohere), "ERROR") => on_read(Reason::ServerError),
        (Some(Protocol::Cohere), "TIMEOUT") => Reason::Timeout,
        // DeepSeek's word for having been interrupted for lack of capacity.
        (_, "insufficient_system_resource") => on_read(Reason::Overloaded),
        _ => return None,
    })
}
