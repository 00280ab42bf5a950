//! What one answer said: [`Reading`].

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};

use super::{
    Protocol, errors,
    finish::{FinishReason, finish_reason},
    hints, json,
};
use crate::{
    call::Effect,
    reason::{Class, Reason},
    verdict::Usage,
};

/// A call that the model asks the client to run, put together from its fragments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ToolCallRead {
    /// The id under which the result is to be sent; some servers give none.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: usually JSON, free text for custom tools, possibly cut off.
    pub arguments: String,
}

/// An error that the other side stated, in a body or inside a stream.
///
/// Its message may quote the request: it is kept for operators (`Debug`) and for the few exact phrases that decide
/// something, and nothing else can read it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StatedError {
    /// The provider's code, such as `context_length_exceeded`.
    pub code: Option<String>,
    /// The provider's type, such as `overloaded_error`.
    pub kind: Option<String>,
    /// An HTTP status inside the body.
    pub status: Option<u16>,
    pub(super) message: Option<String>,
    /// The model is being loaded.
    pub(super) loading: bool,
}

/// What an answer has said so far. What it did not say is `None`, never zero.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// The protocol, as told or as recognised.
    pub protocol: Option<Protocol>,
    /// The model as the answer names it.
    pub model: Option<String>,
    /// Why the model stopped; for the Responses API why the answer is incomplete, else its status.
    pub finish_reason: Option<FinishReason>,
    /// The tokens as the provider states them.
    pub usage: Option<Usage>,
    /// The calls that the client must run, in the order in which they started. The provider's own tools are not listed.
    pub tool_calls: Vec<ToolCallRead>,
    /// Whether anything visible came: text, a refusal, a tool call.
    pub visible: bool,
    /// The text of the answer, where somebody [asked](super::Decoder::keep_text) for it and it was not too long:
    /// without reasoning, refusals and tool calls, and of several choices the first.
    pub text: Option<String>,
    /// Whether there are further choices, of which neither text nor tool calls are read.
    pub more_choices: bool,
    /// Whether the model was seen to reason.
    pub reasoning: bool,
    /// Whether the model declined in so many words.
    pub refusal: bool,
    /// The error that the other side stated.
    pub error: Option<StatedError>,
    /// The wait that the error itself asks for. Headers say more: see [`wait`](Reading::wait).
    pub retry_after: Option<Duration>,
    /// Whether the answer is whole: its terminator came, or a buffered body was read to its end.
    pub done: bool,
    /// Whether the answer was only accepted, to be made in the background.
    pub background: bool,
    /// Whether something was too large to be read or was cut within an event: absent values may have been stated.
    pub incomplete: bool,
    /// Whether the body or an event was not what the protocol says.
    pub unparsable: bool,
    /// Whether the provider ran a tool of its own.
    pub provider_tools: bool,
}

/// A longer text is not kept.
const MAX_TEXT: usize = 8 << 20;

impl Reading {
    /// What came of the call, as far as its answer tells.
    ///
    /// Call it when the answer is over: a stream that stopped early is [`Reason::Cut`].
    pub fn reason(&self, status: StatusCode, effect: Effect) -> Reason {
        let reason = self.judge(status, effect);
        let definite = matches!(reason.class(), Class::Failed | Class::RateLimited);
        // An answer that was under way proves that the call was taken up, whatever error ended it.
        if definite && effect > Effect::ReadOnly && (self.visible || self.reasoning || self.provider_tools) {
            return Reason::Unproven;
        }
        reason
    }

    fn judge(&self, status: StatusCode, effect: Effect) -> Reason {
        if !status.is_success() {
            let error = self.error.as_ref();
            return errors::error_reason(status.as_u16(), error.unwrap_or(&StatedError::default()), effect);
        }
        let finished = self.finish_reason.as_ref().and_then(|word| finish_reason(self.protocol, word, effect));
        if let Some(error) = &self.error {
            // What the model's own end says comes before an error sent after it.
            return match finished {
                Some(reason) if reason.class() == Class::Malformed => reason,
                _ => errors::error_reason(status.as_u16(), error, effect),
            };
        }
        if self.unparsable {
            return Reason::Unparsable;
        }
        if self.background {
            return Reason::Accepted;
        }
        if !self.is_over() {
            return Reason::Cut;
        }
        if let Some(reason) = finished {
            return reason;
        }
        match () {
            () if self.refusal => Reason::Refused,
            () if !self.visible && self.tool_calls.is_empty() && !self.incomplete => Reason::EmptyAnswer,
            () => Reason::Completed,
        }
    }

    /// Whether the answer may end here: after its terminator, or in the chat protocol after a finish reason.
    pub fn is_over(&self) -> bool {
        let needs_terminator =
            matches!(self.protocol, Some(Protocol::OpenAiResponses | Protocol::Anthropic | Protocol::Cohere));
        self.done || (self.finish_reason.is_some() && !needs_terminator)
    }

    /// The wait that an answer asks for, by its headers and by its error: the longest counts.
    ///
    /// On a success such headers mean nothing, and this must not be asked.
    pub fn wait(&self, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
        self.retry_after.max(hints::retry_after(headers, None, now))
    }

    pub(super) fn see_model(&mut self, raw: json::Raw<'_>) {
        if self.model.is_none()
            && let Some(model) = json::word(raw)
        {
            self.model = Some(json::clip(&model, 256).to_owned());
        }
    }

    /// Adds a piece of the text, if it is kept.
    pub(super) fn see_text(&mut self, raw: json::Raw<'_>) {
        let Some(text) = &mut self.text else { return };
        let Some(piece) = json::string(raw) else { return };
        if text.len() + piece.len() > MAX_TEXT {
            self.text = None;
            self.incomplete = true;
            return;
        }
        text.push_str(&piece);
    }

    pub(super) fn see_error(&mut self, error: (StatedError, Option<Duration>)) {
        let (error, wait) = error;
        self.retry_after = self.retry_after.max(wait);
        let known = self.error.get_or_insert_default();
        known.code = error.code.or(known.code.take());
        known.kind = error.kind.or(known.kind.take());
        known.status = error.status.or(known.status);
        known.message = error.message.or(known.message.take());
        known.loading |= error.loading;
    }
}
