//! Gemini's `generateContent` and `streamGenerateContent`, as the Gemini API and Vertex AI speak them.

use super::{
    calls::Fragment,
    decoder::Decoder,
    errors,
    finish::FinishReason,
    json::{self, List, NotJson, Obj, Raw},
    usage,
};

json::object! {
    Answer {
        candidates: Option<List<Candidate<'a>>> = "candidates",
        prompt_feedback: Obj<Feedback<'a>> = "promptFeedback",
        usage: Raw<'a> = "usageMetadata",
        model: Raw<'a> = "modelVersion",
        error: Raw<'a> = "error",
    }
}

json::object! {
    Candidate {
        index: Raw<'a> = "index",
        content: Obj<Content<'a>> = "content",
        finish_reason: Raw<'a> = "finishReason",
    }
}

json::object! {
    Content {
        parts: List<Part<'a>> = "parts",
    }
}

json::object! {
    Part {
        text: Raw<'a> = "text",
        thought: Raw<'a> = "thought",
        function_call: Obj<FunctionCall<'a>> = "functionCall",
        executable_code: Raw<'a> = "executableCode",
        code_execution_result: Raw<'a> = "codeExecutionResult",
        inline_data: Raw<'a> = "inlineData",
        file_data: Raw<'a> = "fileData",
    }
}

json::object! {
    FunctionCall {
        id: Raw<'a> = "id",
        name: Raw<'a> = "name",
        args: Raw<'a> = "args",
    }
}

json::object! {
    Feedback {
        block_reason: Raw<'a> = "blockReason",
    }
}

pub(super) fn event(decoder: &mut Decoder, data: &[u8]) -> Result<(), NotJson> {
    body(decoder, data).map(drop)
}

/// Whether the body is an answer of this protocol. Without `alt=sse` a stream is one array of what else are its events.
pub(super) fn body(decoder: &mut Decoder, body: &[u8]) -> Result<bool, NotJson> {
    if body.first() != Some(&b'[') {
        let Obj(answer) = json::read::<Obj<Answer<'_>>>(body)?;
        return Ok(answer.is_some_and(|answer| see(decoder, &answer)));
    }
    let answers = json::read::<List<Answer<'_>>>(body)?;
    let mut is_answer = false;
    for answer in answers.iter() {
        is_answer |= see(decoder, answer);
    }
    Ok(is_answer)
}

fn see(decoder: &mut Decoder, answer: &Answer<'_>) -> bool {
    let reading = &mut decoder.reading;
    // The last one says what exactly answered.
    reading.see_model(answer.model);
    if let Some(error) = errors::read_value(answer.error) {
        reading.see_error(error);
    }
    usage::state_gemini(&mut reading.usage, answer.usage);
    let blocked = answer.prompt_feedback.0.as_ref().and_then(|feedback| FinishReason::read(feedback.block_reason));
    if let Some(word) = blocked {
        // Nobody answers a prompt that was blocked, whatever the word for it.
        reading.refusal = true;
        reading.finish_reason = Some(word);
    }
    for (position, candidate) in answer.candidates.iter().flat_map(List::iter).enumerate() {
        see_candidate(decoder, candidate, position);
    }
    answer.candidates.is_some() || answer.prompt_feedback.0.is_some() || answer.usage.is_some()
}

fn see_candidate(decoder: &mut Decoder, candidate: &Candidate<'_>, position: usize) {
    // Every candidate reaches the client; only the first is read further.
    let is_first = json::count(candidate.index).unwrap_or(position as u64) == 0;
    decoder.reading.more_choices |= !is_first;
    for part in candidate.content.0.iter().flat_map(|content| content.parts.iter()) {
        see_part(decoder, part, is_first);
    }
    let word = FinishReason::read(candidate.finish_reason);
    if let Some(word) = word.filter(|word| is_first && !is_unspecified(word)) {
        decoder.reading.finish_reason = Some(word);
    }
}

fn is_unspecified(word: &FinishReason) -> bool {
    matches!(word, FinishReason::Number(0)) || word.as_str() == Some("FINISH_REASON_UNSPECIFIED")
}

fn see_part(decoder: &mut Decoder, part: &Part<'_>, is_first: bool) {
    let reading = &mut decoder.reading;
    if json::is_true(part.thought) {
        reading.reasoning = true;
        return;
    }
    reading.visible |=
        json::is_filled(part.text) || json::is_filled(part.inline_data) || json::is_filled(part.file_data);
    reading.provider_tools |= part.executable_code.is_some() || part.code_execution_result.is_some();
    if is_first {
        reading.see_text(part.text);
    }
    let Some(call) = &part.function_call.0 else { return };
    reading.visible = true;
    if is_first {
        // A call comes whole, in one part.
        let (id, name) = (json::word(call.id), json::word(call.name));
        let arguments = Some(call.args.unwrap_or("{}"));
        let fragment = Fragment { index: None, id: id.as_deref(), name: name.as_deref(), arguments };
        decoder.calls.start(&mut reading.tool_calls, &fragment);
    }
}
