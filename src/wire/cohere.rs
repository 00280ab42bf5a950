//! Cohere's chat, version 2.

use std::borrow::Cow;

use super::{
    calls::Fragment,
    decoder::Decoder,
    errors,
    finish::FinishReason,
    json::{self, List, NotJson, Obj, Raw},
    usage,
};
use crate::wire::reading::StatedError;

json::object! {
    Event {
        kind: Raw<'a> = "type",
        index: Raw<'a> = "index",
        delta: Obj<Delta<'a>> = "delta",
    }
}

json::object! {
    Delta {
        message: Obj<Message<'a>> = "message",
        finish_reason: Raw<'a> = "finish_reason",
        error: Raw<'a> = "error",
        usage: Raw<'a> = "usage",
    }
}

json::object! {
    /// A whole message, or what an event adds to one.
    Message {
        content: List<Part<'a>> = "content",
        tool_plan: Raw<'a> = "tool_plan",
        tool_calls: List<Call<'a>> = "tool_calls",
    }
}

json::object! {
    Part {
        text: Raw<'a> = "text",
        thinking: Raw<'a> = "thinking",
    }
}

json::object! {
    Call {
        id: Raw<'a> = "id",
        function: Obj<Function<'a>> = "function",
    }
}

json::object! {
    Function {
        name: Raw<'a> = "name",
        arguments: Raw<'a> = "arguments",
    }
}

json::object! {
    Answer {
        message: Obj<Message<'a>> = "message",
        finish_reason: Raw<'a> = "finish_reason",
        usage: Raw<'a> = "usage",
    }
}

pub(super) fn event(decoder: &mut Decoder, name: &str, data: &[u8]) -> Result<(), NotJson> {
    let Obj(event) = json::read::<Obj<Event<'_>>>(data)?;
    let event = event.ok_or(NotJson)?;
    let kind = json::word(event.kind).unwrap_or(Cow::Borrowed(name));
    let Some(delta) = &event.delta.0 else {
        let is_error = matches!(&*kind, "" | "error");
        if let Some(error) = errors::read_body(data).filter(|(error, _)| is_error && *error != StatedError::default()) {
            decoder.reading.see_error(error);
        }
        return Ok(());
    };
    let index = json::count(event.index);
    let message = delta.message.0.as_ref();
    match &*kind {
        "message-start" | "content-start" | "content-delta" | "tool-plan-delta" => {
            message.into_iter().for_each(|message| see_message(decoder, message, None));
        }
        "tool-call-start" => message.into_iter().for_each(|message| see_message(decoder, message, index)),
        "tool-call-delta" => {
            for call in message.into_iter().flat_map(|message| message.tool_calls.iter()) {
                see_arguments(decoder, call, index);
            }
        }
        "message-end" => {
            finish(decoder, delta.finish_reason, delta.usage);
            if let Some(message) = json::word(delta.error) {
                let error = StatedError { message: Some(message.into_owned()), ..StatedError::default() };
                decoder.reading.see_error((error, None));
            }
            decoder.reading.done = true;
        }
        _ => {}
    }
    Ok(())
}

/// Whether the body is an answer of this protocol.
pub(super) fn body(decoder: &mut Decoder, body: &[u8]) -> Result<bool, NotJson> {
    let Obj(answer) = json::read::<Obj<Answer<'_>>>(body)?;
    // In an error `message` is a text.
    let Some((answer, message)) = answer.as_ref().and_then(|answer| Some((answer, answer.message.0.as_ref()?))) else {
        return Ok(false);
    };
    see_message(decoder, message, None);
    finish(decoder, answer.finish_reason, answer.usage);
    Ok(true)
}

fn finish(decoder: &mut Decoder, word: Raw<'_>, stated: Raw<'_>) {
    decoder.reading.finish_reason = FinishReason::read(word).or(decoder.reading.finish_reason.take());
    usage::state_cohere(&mut decoder.reading.usage, stated);
}

fn see_message(decoder: &mut Decoder, message: &Message<'_>, index: Option<u64>) {
    let reading = &mut decoder.reading;
    // The plan says what the model is about to do: it is thought, and not the answer.
    reading.reasoning |= json::is_filled(message.tool_plan);
    for part in message.content.iter() {
        reading.reasoning |= json::is_filled(part.thinking);
        reading.visible |= json::is_filled(part.text);
        reading.see_text(part.text);
    }
    for call in message.tool_calls.iter() {
        reading.visible = true;
        let function = call.function.0.as_ref();
        let (id, name) = (json::word(call.id), function.and_then(|function| json::word(function.name)));
        let arguments = function.and_then(|function| json::string_or_json(function.arguments));
        let fragment = Fragment { index, id: id.as_deref(), name: name.as_deref(), arguments: arguments.as_deref() };
        decoder.calls.start(&mut reading.tool_calls, &fragment);
    }
}

fn see_arguments(decoder: &mut Decoder, call: &Call<'_>, index: Option<u64>) {
    let calls = &mut decoder.reading.tool_calls;
    let piece = call.function.0.as_ref().and_then(|function| json::string_or_json(function.arguments));
    let at = match index {
        Some(index) => decoder.calls.at(index),
        None => calls.len().checked_sub(1),
    };
    if let Some((at, piece)) = at.zip(piece) {
        decoder.calls.append(calls, at, &piece);
    }
}
