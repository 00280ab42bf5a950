//! Anthropic messages, also as Vertex streams them.

use std::borrow::Cow;

use super::{
    calls::Fragment,
    decoder::Decoder,
    errors,
    finish::FinishReason,
    json::{self, List, NotJson, Obj, Raw},
    usage::{self, Habit},
};

json::object! {
    Event {
        kind: Raw<'a> = "type",
        index: Raw<'a> = "index",
        message: Obj<Message<'a>> = "message",
        content_block: Obj<Block<'a>> = "content_block",
        delta: Obj<Delta<'a>> = "delta",
        usage: Raw<'a> = "usage",
    }
}

json::object! {
    Message {
        kind: Raw<'a> = "type",
        model: Raw<'a> = "model",
        content: Option<List<Block<'a>>> = "content",
        stop_reason: Raw<'a> = "stop_reason",
        usage: Raw<'a> = "usage",
    }
}

json::object! {
    Block {
        kind: Raw<'a> = "type",
        id: Raw<'a> = "id",
        name: Raw<'a> = "name",
        input: Raw<'a> = "input",
        text: Raw<'a> = "text",
    }
}

json::object! {
    Delta {
        text: Raw<'a> = "text",
        partial_json: Raw<'a> = "partial_json",
        thinking: Raw<'a> = "thinking",
        signature: Raw<'a> = "signature",
        stop_reason: Raw<'a> = "stop_reason",
    }
}

pub(super) fn event(decoder: &mut Decoder, name: &str, data: &[u8]) -> Result<(), NotJson> {
    let Obj(event) = json::read::<Obj<Event<'_>>>(data)?;
    let event = event.ok_or(NotJson)?;
    let kind = json::word(event.kind).unwrap_or(Cow::Borrowed(name));
    let index = json::count(event.index);
    match &*kind {
        "message_start" => {
            if let Some(message) = &event.message.0 {
                see_message(decoder, message);
            }
        }
        "content_block_start" => {
            if let Some(block) = &event.content_block.0 {
                see_block(decoder, block, index);
            }
        }
        "content_block_delta" => {
            if let Some(delta) = &event.delta.0 {
                see_delta(decoder, delta, index);
            }
        }
        "message_delta" => {
            let word = event.delta.0.as_ref().and_then(|delta| FinishReason::read(delta.stop_reason));
            decoder.reading.finish_reason = word.or(decoder.reading.finish_reason.take());
            usage::state(&mut decoder.reading.usage, event.usage, Habit::Anthropic);
        }
        "message_stop" => decoder.reading.done = true,
        "error" => {
            if let Some(error) = errors::read_body(data) {
                decoder.reading.see_error(error);
            }
        }
        // A stream of one whole message.
        "message" => {
            decoder.reading.done = body(decoder, data)?;
        }
        _ => {}
    }
    Ok(())
}

/// Whether the body is an answer of this protocol.
pub(super) fn body(decoder: &mut Decoder, body: &[u8]) -> Result<bool, NotJson> {
    let Obj(message) = json::read::<Obj<Message<'_>>>(body)?;
    let Some(message) = message else { return Ok(false) };
    if message.content.is_none() && json::string(message.kind).as_deref() != Some("message") {
        return Ok(false);
    }
    see_message(decoder, &message);
    Ok(true)
}

fn see_message(decoder: &mut Decoder, message: &Message<'_>) {
    decoder.reading.see_model(message.model);
    usage::state(&mut decoder.reading.usage, message.usage, Habit::Anthropic);
    let word = FinishReason::read(message.stop_reason);
    decoder.reading.finish_reason = word.or(decoder.reading.finish_reason.take());
    for block in message.content.iter().flat_map(List::iter) {
        see_block(decoder, block, None);
    }
}

fn see_block(decoder: &mut Decoder, block: &Block<'_>, index: Option<u64>) {
    let reading = &mut decoder.reading;
    match &*json::string(block.kind).unwrap_or_default() {
        "text" => {
            reading.visible |= json::is_filled(block.text);
            reading.see_text(block.text);
        }
        "thinking" | "redacted_thinking" => reading.reasoning = true,
        "tool_use" => {
            reading.visible = true;
            let (id, name) = (json::word(block.id), json::word(block.name));
            let arguments = block.input;
            let fragment = Fragment { index, id: id.as_deref(), name: name.as_deref(), arguments };
            decoder.calls.start(&mut reading.tool_calls, &fragment);
        }
        "server_tool_use" | "mcp_tool_use" => reading.provider_tools = true,
        kind if kind.ends_with("_tool_result") => reading.provider_tools = true,
        _ => {}
    }
}

fn see_delta(decoder: &mut Decoder, delta: &Delta<'_>, index: Option<u64>) {
    let reading = &mut decoder.reading;
    reading.visible |= json::is_filled(delta.text);
    reading.see_text(delta.text);
    reading.reasoning |= json::is_filled(delta.thinking) || json::is_filled(delta.signature);
    let Some(piece) = json::word(delta.partial_json) else { return };
    let at = match index {
        Some(index) => decoder.calls.at(index),
        None => reading.tool_calls.len().checked_sub(1),
    };
    let Some(at) = at else { return };
    // The block starts with an `input` of its own, which the pieces then say anew.
    if piece.trim_start().starts_with('{') && super::calls::is_whole(&reading.tool_calls[at].arguments) {
        decoder.calls.replace(&mut reading.tool_calls, at, &piece);
    } else {
        decoder.calls.append(&mut reading.tool_calls, at, &piece);
    }
}
