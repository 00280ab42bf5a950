//! OpenAI chat completions and their many dialects.

use super::{
    calls::Fragment,
    decoder::Decoder,
    errors,
    finish::FinishReason,
    json::{self, Cursor, List, NotJson, Obj, Raw},
    usage::{self, Habit},
};

json::object! {
    Chunk {
        object: Raw<'a> = "object",
        model: Raw<'a> = "model",
        choices: Option<List<Choice<'a>>> = "choices",
        usage: Raw<'a> = "usage",
        x_groq: Raw<'a> = "x_groq",
        error: Raw<'a> = "error",
    }
}

json::object! {
    Groq {
        usage: Raw<'a> = "usage",
        error: Raw<'a> = "error",
    }
}

json::object! {
    Choice {
        index: Raw<'a> = "index",
        delta: Obj<Message<'a>> = "delta",
        message: Obj<Message<'a>> = "message",
        text: Raw<'a> = "text",
        finish_reason: Raw<'a> = "finish_reason",
        usage: Raw<'a> = "usage",
        error: Raw<'a> = "error",
    }
}

json::object! {
    Message {
        content: Raw<'a> = "content",
        refusal: Raw<'a> = "refusal",
        reasoning: Raw<'a> = "reasoning",
        reasoning_content: Raw<'a> = "reasoning_content",
        reasoning_details: Raw<'a> = "reasoning_details",
        audio: Raw<'a> = "audio",
        images: Raw<'a> = "images",
        tool_calls: List<Call<'a>> = "tool_calls",
        function_call: Raw<'a> = "function_call",
    }
}

json::object! {
    Call {
        index: Raw<'a> = "index",
        id: Raw<'a> = "id",
        function: Obj<Function<'a>> = "function",
        custom: Obj<Function<'a>> = "custom",
    }
}

json::object! {
    Function {
        name: Raw<'a> = "name",
        arguments: Raw<'a> = "arguments",
        input: Raw<'a> = "input",
    }
}

json::object! {
    /// One part of a content that is a list.
    Part {
        kind: Raw<'a> = "type",
        text: Raw<'a> = "text",
        refusal: Raw<'a> = "refusal",
    }
}

impl Chunk<'_> {
    /// Nothing was read around the choices but names.
    fn is_bare(&self) -> bool {
        self.usage.is_none() && self.x_groq.is_none() && self.error.is_none()
    }
}

/// A beginning or an end longer than this is not kept.
const MAX_FRAME: usize = 1024;

/// Chunks of a stream are alike before and after their choices. Where nothing but the model was read there, the same
/// bytes have nothing new to say, and are not read again.
pub(super) fn event(decoder: &mut Decoder, data: &[u8]) -> Result<(), NotJson> {
    let mut chunk = Chunk::default();
    match data.strip_prefix(decoder.opening.as_slice()) {
        Some(rest) if !decoder.opening.is_empty() => {
            let mut cursor = Cursor::new(rest)?;
            let (mut after, mut is_known) = (0, false);
            let walked = cursor.object_at("choices", |cursor, key| {
                chunk.field(cursor, key)?;
                if key == "choices" && !cursor.twice {
                    after = cursor.at();
                    is_known = !decoder.closing.is_empty() && rest[after..] == decoder.closing;
                }
                // An error ends the walk.
                if is_known { Err(NotJson) } else { Ok(()) }
            });
            if !is_known {
                walked?;
                cursor.end()?;
                decoder.closing.clear();
                if !cursor.twice && chunk.is_bare() && rest.len() - after <= MAX_FRAME {
                    decoder.closing.extend_from_slice(&rest[after..]);
                }
            }
        }
        _ => {
            let mut cursor = Cursor::new(data)?;
            let mut opening = 0;
            cursor.object(|cursor, key| {
                if key == "choices" && chunk.is_bare() {
                    opening = cursor.at();
                }
                chunk.field(cursor, key)
            })?;
            cursor.end()?;
            decoder.opening.clear();
            if chunk.choices.is_some() && opening <= MAX_FRAME {
                decoder.opening.extend_from_slice(&data[..opening]);
            }
        }
    }
    if chunk.choices.is_none()
        && json::string(chunk.object).is_some_and(|object| object == "error")
        && let Some(error) = errors::read_body(data)
    {
        decoder.reading.see_error(error);
    }
    see(decoder, &chunk, |choice, _| json::count(choice.index).unwrap_or(0) == 0);
    Ok(())
}

/// Whether the body is an answer of this protocol.
pub(super) fn body(decoder: &mut Decoder, body: &[u8]) -> Result<bool, NotJson> {
    let Obj(chunk) = json::read::<Obj<Chunk<'_>>>(body)?;
    let Some(chunk) = chunk else { return Ok(false) };
    let mut choices = chunk.choices.iter().flat_map(List::iter);
    let first = choices.position(|choice| json::count(choice.index) == Some(0)).unwrap_or(0);
    see(decoder, &chunk, |_, position| position == first);
    Ok(chunk.choices.is_some())
}

fn see(decoder: &mut Decoder, chunk: &Chunk<'_>, is_first: impl Fn(&Choice<'_>, usize) -> bool) {
    decoder.reading.see_model(chunk.model);
    let groq = json::inner::<Groq<'_>>(chunk.x_groq).unwrap_or_default();
    for error in [chunk.error, groq.error] {
        if let Some(error) = errors::read_value(error) {
            decoder.reading.see_error(error);
        }
    }
    for stated in [groq.usage, chunk.usage] {
        usage::state(&mut decoder.reading.usage, stated, Habit::OpenAi);
    }
    for (position, choice) in chunk.choices.iter().flat_map(List::iter).enumerate() {
        // Every choice reaches the client; only the first is read further.
        let message = choice.delta.0.as_ref().or(choice.message.0.as_ref());
        if let Some(message) = message {
            see_message(decoder, message);
        }
        decoder.reading.visible |= json::is_filled(choice.text);
        if let Some(error) = errors::read_value(choice.error) {
            decoder.reading.see_error(error);
        }
        let is_first = is_first(choice, position);
        decoder.reading.more_choices |= !is_first;
        if is_first {
            if decoder.reading.text.is_some() {
                see_text(decoder, choice, message);
            }
            if let Some(word) = FinishReason::read(choice.finish_reason) {
                decoder.reading.finish_reason = Some(word);
            }
            if chunk.usage.is_none() {
                usage::state(&mut decoder.reading.usage, choice.usage, Habit::OpenAi);
            }
            for call in message.iter().flat_map(|message| message.tool_calls.iter()) {
                see_call(decoder, call);
            }
            if let Some(function) = message.and_then(|message| json::inner(message.function_call)) {
                see_call(decoder, &Call { function: Obj(Some(function)), ..Call::default() });
            }
        }
    }
}

fn see_message(decoder: &mut Decoder, message: &Message<'_>) {
    let reading = &mut decoder.reading;
    let refused = json::is_filled(message.refusal);
    reading.refusal |= refused;
    reading.visible |= refused
        || !message.tool_calls.is_empty()
        || json::is_filled(message.function_call)
        || json::is_filled(message.audio)
        || json::is_filled(message.images);
    reading.reasoning |= json::is_filled(message.reasoning)
        || json::is_filled(message.reasoning_content)
        || json::is_filled(message.reasoning_details);
    if !json::is_filled(message.content) {
        return;
    }
    let content = json::text(message.content);
    let parts: List<Part<'_>> =
        if content.starts_with('[') { json::read(content.as_bytes()).unwrap_or_default() } else { List::default() };
    if parts.is_empty() {
        reading.visible = true;
        return;
    }
    for part in parts.iter() {
        match json::string(part.kind).as_deref() {
            Some("thinking" | "reasoning" | "redacted_thinking" | "summary") => reading.reasoning = true,
            Some("text" | "output_text") => reading.visible |= json::is_filled(part.text),
            Some("refusal") => {
                reading.refusal |= json::is_filled(part.refusal);
                reading.visible = true;
            }
            _ => reading.visible = true,
        }
    }
}

fn see_text(decoder: &mut Decoder, choice: &Choice<'_>, message: Option<&Message<'_>>) {
    decoder.reading.see_text(choice.text);
    let Some(content) = message.map(|message| message.content) else { return };
    decoder.reading.see_text(content);
    let parts: List<Part<'_>> = json::read(json::text(content).as_bytes()).unwrap_or_default();
    for part in parts.iter() {
        if matches!(json::string(part.kind).as_deref(), Some("text" | "output_text")) {
            decoder.reading.see_text(part.text);
        }
    }
}

fn see_call(decoder: &mut Decoder, call: &Call<'_>) {
    let function = call.function.0.as_ref().or(call.custom.0.as_ref());
    let id = json::word(call.id).or_else(|| json::count(call.id).map(|id| id.to_string().into()));
    let name = function.and_then(|function| json::word(function.name));
    let arguments = function.and_then(|function| json::string_or_json(function.arguments.or(function.input)));
    let fragment = Fragment {
        index: json::count(call.index),
        id: id.as_deref(),
        name: name.as_deref(),
        arguments: arguments.as_deref(),
    };
    decoder.calls.chat_fragment(&mut decoder.reading.tool_calls, &fragment);
}
