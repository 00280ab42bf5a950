//! OpenAI Responses.

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
        response: Obj<Response<'a>> = "response",
        item: Obj<Item<'a>> = "item",
        part: Obj<Part<'a>> = "part",
        output_index: Raw<'a> = "output_index",
        delta: Raw<'a> = "delta",
        text: Raw<'a> = "text",
        refusal: Raw<'a> = "refusal",
        arguments: Raw<'a> = "arguments",
        input: Raw<'a> = "input",
    }
}

json::object! {
    Response {
        object: Raw<'a> = "object",
        model: Raw<'a> = "model",
        status: Raw<'a> = "status",
        error: Raw<'a> = "error",
        incomplete_details: Obj<Incomplete<'a>> = "incomplete_details",
        output: Option<List<Item<'a>>> = "output",
        usage: Raw<'a> = "usage",
    }
}

json::object! {
    Incomplete {
        reason: Raw<'a> = "reason",
    }
}

json::object! {
    Item {
        kind: Raw<'a> = "type",
        id: Raw<'a> = "id",
        call_id: Raw<'a> = "call_id",
        name: Raw<'a> = "name",
        arguments: Raw<'a> = "arguments",
        input: Raw<'a> = "input",
        content: List<Part<'a>> = "content",
    }
}

json::object! {
    Part {
        kind: Raw<'a> = "type",
        text: Raw<'a> = "text",
        refusal: Raw<'a> = "refusal",
    }
}

pub(super) fn event(decoder: &mut Decoder, name: &str, data: &[u8]) -> Result<(), NotJson> {
    let Obj(event) = json::read::<Obj<Event<'_>>>(data)?;
    let event = event.ok_or(NotJson)?;
    let kind = json::word(event.kind).unwrap_or(Cow::Borrowed(name));
    let kind = kind.strip_prefix("response.").unwrap_or(&kind);
    if kind == "error" {
        if let Some(error) = errors::read_body(data) {
            decoder.reading.see_error(error);
        }
        decoder.reading.done = true;
        return Ok(());
    }
    if let Some(item) = &event.item.0 {
        see_item(decoder, item, json::count(event.output_index));
    }
    if let Some(part) = &event.part.0 {
        see_part(decoder, part);
    }
    if let Some(response) = &event.response.0 {
        see_response(decoder, response);
        if let Some(word) = terminate(decoder, kind) {
            finish(decoder, response, word);
        }
    } else if let Some(word) = terminate(decoder, kind) {
        decoder.reading.finish_reason.get_or_insert_with(|| FinishReason::Word(word.to_owned()));
    }
    see_piece(decoder, &event, kind);
    Ok(())
}

/// Text, reasoning and arguments that come in pieces.
fn see_piece(decoder: &mut Decoder, event: &Event<'_>, kind: &str) {
    let Some((what, stage)) = kind.rsplit_once('.') else { return };
    let piece = [event.delta, event.text, event.refusal].into_iter().any(json::is_filled);
    let reading = &mut decoder.reading;
    match (what, stage) {
        ("function_call_arguments" | "custom_tool_call_input", "delta" | "done") => {
            let at = match json::count(event.output_index) {
                Some(index) => decoder.calls.at(index),
                None => reading.tool_calls.len().checked_sub(1),
            };
            let whole = event.arguments.or(event.input);
            match (at, json::string(event.delta), json::string_or_json(whole)) {
                (Some(at), Some(delta), _) => decoder.calls.append(&mut reading.tool_calls, at, &delta),
                (Some(at), None, Some(whole)) => decoder.calls.replace(&mut reading.tool_calls, at, &whole),
                _ => {}
            }
        }
        ("refusal", _) => {
            reading.refusal |= piece;
            reading.visible |= piece;
        }
        (reasoning, _) if reasoning.starts_with("reasoning") => reading.reasoning |= piece,
        (provider, _) if is_provider_tool(provider.split('.').next().unwrap_or("")) => reading.provider_tools = true,
        ("output_text", "delta") => {
            reading.visible |= piece;
            reading.see_text(event.delta);
        }
        ("output_text" | "audio" | "output_audio" | "audio.transcript" | "audio_transcript", _) => {
            reading.visible |= piece;
        }
        (_, "delta") => reading.provider_tools |= piece && !what.starts_with("output_"),
        (_, "partial_image") => reading.visible = true,
        _ => {}
    }
}

/// Whether the body is an answer of this protocol.
pub(super) fn body(decoder: &mut Decoder, body: &[u8]) -> Result<bool, NotJson> {
    let Obj(response) = json::read::<Obj<Response<'_>>>(body)?;
    let Some(response) = response else { return Ok(false) };
    if response.output.is_none() && json::string(response.object).as_deref() != Some("response") {
        return Ok(false);
    }
    see_response(decoder, &response);
    let word = json::string(response.status).unwrap_or_default();
    decoder.reading.background = matches!(&*word, "queued" | "in_progress");
    finish(decoder, &response, &word);
    Ok(true)
}

/// Notes a terminal event by its name, and gives the status that the name implies.
pub(super) fn terminate<'a>(decoder: &mut Decoder, kind: &'a str) -> Option<&'a str> {
    let kind = kind.strip_prefix("response.").unwrap_or(kind);
    if !matches!(kind, "completed" | "incomplete" | "failed" | "cancelled" | "done") {
        return None;
    }
    decoder.reading.done = true;
    Some(if kind == "done" { "completed" } else { kind })
}

fn see_response(decoder: &mut Decoder, response: &Response<'_>) {
    decoder.reading.see_model(response.model);
    if let Some(error) = errors::read_value(response.error) {
        decoder.reading.see_error(error);
    }
    usage::state(&mut decoder.reading.usage, response.usage, Habit::OpenAi);
    for item in response.output.iter().flat_map(List::iter) {
        see_item(decoder, item, None);
    }
    see_text(decoder, response);
}

/// The final output says all of the text again.
fn see_text(decoder: &mut Decoder, response: &Response<'_>) {
    let Some(text) = &mut decoder.reading.text else { return };
    if response.output.iter().flat_map(List::iter).next().is_none() {
        return;
    }
    text.clear();
    for item in response.output.iter().flat_map(List::iter) {
        for part in item.content.iter() {
            if json::string(part.kind).as_deref() == Some("output_text") {
                decoder.reading.see_text(part.text);
            }
        }
    }
}

fn finish(decoder: &mut Decoder, response: &Response<'_>, implied: &str) {
    let incomplete = response.incomplete_details.0.as_ref().and_then(|details| FinishReason::read(details.reason));
    let implied = || (!implied.is_empty()).then(|| FinishReason::Word(implied.to_owned()));
    let word = incomplete.or_else(|| FinishReason::read(response.status)).or_else(implied);
    decoder.reading.finish_reason = word.or(decoder.reading.finish_reason.take());
}

fn see_item(decoder: &mut Decoder, item: &Item<'_>, index: Option<u64>) {
    let kind = json::string(item.kind).unwrap_or_default();
    match &*kind {
        "message" => item.content.iter().for_each(|part| see_part(decoder, part)),
        "reasoning" => decoder.reading.reasoning = true,
        "function_call" | "custom_tool_call" => see_call(decoder, item, index),
        kind if is_provider_tool(kind) => decoder.reading.provider_tools = true,
        "" => {}
        // Images, approval requests, computer calls: things that the client must act on or show.
        _ => decoder.reading.visible = true,
    }
}

fn is_provider_tool(kind: &str) -> bool {
    ["mcp_call", "mcp_list_tools", "web_search_call", "file_search_call", "code_interpreter_call", "tool_search_call"]
        .iter()
        .any(|known| kind.starts_with(known))
}

fn see_part(decoder: &mut Decoder, part: &Part<'_>) {
    let reading = &mut decoder.reading;
    match json::string(part.kind).as_deref() {
        Some("reasoning_text" | "summary_text") => reading.reasoning |= json::is_filled(part.text),
        Some("refusal") => {
            reading.refusal |= json::is_filled(part.refusal);
            reading.visible |= json::is_filled(part.refusal);
        }
        _ => reading.visible |= json::is_filled(part.text),
    }
}

/// A call stands in up to three places: where its item starts, where it is done, and in the final output.
fn see_call(decoder: &mut Decoder, item: &Item<'_>, index: Option<u64>) {
    let reading = &mut decoder.reading;
    reading.visible = true;
    let id = json::word(item.call_id).or_else(|| json::word(item.id));
    let name = json::word(item.name);
    let arguments = json::string_or_json(item.arguments.or(item.input));
    let known = match (&id, index) {
        (Some(id), _) => reading.tool_calls.iter().position(|call| call.id.as_deref() == Some(&**id)),
        (None, Some(index)) => decoder.calls.at(index),
        (None, None) => reading.tool_calls.iter().position(|call| {
            call.id.is_none()
                && Some(call.name.as_str()) == name.as_deref()
                && Some(&*call.arguments) == arguments.as_deref()
        }),
    };
    match known {
        Some(at) => {
            if let Some(arguments) = arguments.filter(|arguments| !arguments.is_empty()) {
                decoder.calls.replace(&mut reading.tool_calls, at, &arguments);
            }
        }
        None => {
            let fragment =
                Fragment { index, id: id.as_deref(), name: name.as_deref(), arguments: arguments.as_deref() };
            decoder.calls.start(&mut reading.tool_calls, &fragment);
        }
    }
}
