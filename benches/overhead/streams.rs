//! Made-up provider answers in the shapes that providers send. The same on every run.

use std::fmt::Write as _;

use bytes::Bytes;

/// The protocols that are read here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Api {
    Chat,
    Responses,
    Messages,
}

/// An answer on the wire, and what a reader has to make of it.
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) api: Api,
    /// As they come off the socket; a JSON body is one piece.
    pub(crate) pieces: Vec<Bytes>,
    /// Events that carry data; 1 for a JSON body.
    pub(crate) events: usize,
    pub(crate) truth: Reading,
}

/// What metering needs of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The protocol said that it was over.
    pub(crate) ended: bool,
    pub(crate) finish: String,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) calls: Vec<ToolCall>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Compact JSON.
    pub(crate) arguments: String,
}

impl Recording {
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// The same bytes cut every `size` bytes, wherever that is.
    fn recut(mut self, size: usize) -> Self {
        let whole: Bytes = self.pieces.concat().into();
        self.pieces = (0..whole.len()).step_by(size).map(|at| whole.slice(at..whole.len().min(at + size))).collect();
        self
    }
}

/// Streams come one event a piece, as servers flush them, but for the one that is cut to TCP segments.
pub(crate) fn streams() -> Vec<Recording> {
    vec![
        chat("chat_200", 200),
        chat("chat_2000_segments", 2_000).recut(1_460),
        responses("responses_500", 500),
        messages("messages_500", 500),
    ]
}

pub(crate) fn bodies() -> Vec<Recording> {
    vec![chat_with_calls("chat_calls_1k"), messages_with_calls("messages_calls_1k"), chat_long("chat_text_16k")]
}

// ===== streams =====

const INPUT: u64 = 1_187;

fn chat(name: &str, deltas: usize) -> Recording {
    let mut prose = Prose::new();
    let mut pieces = Vec::new();
    let mut chunk = |choices: &str, usage: &str, pad: &str| {
        pieces.push(Bytes::from(format!(
            "data: {{\"id\":\"chatcmpl-Bq7vXw2LkT9hRzYc41sNdJm8PfEuA\",\"object\":\"chat.completion.chunk\",\
             \"created\":1790000000,\"model\":\"model-5-mini-2026-01-15\",\"service_tier\":\"default\",\
             \"system_fingerprint\":\"fp_51e1070cf2\",\"choices\":{choices},\"usage\":{usage},\
             \"obfuscation\":\"{pad}\"}}\n\n"
        )));
    };
    let choice = |delta: &str, finish: &str| {
        format!("[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]")
    };
    chunk(&choice(r#"{"role":"assistant","content":"","refusal":null}"#, "null"), "null", &prose.letters(9));
    for _ in 0..deltas {
        let delta = format!("{{\"content\":{}}}", quoted(&prose.words(5)));
        let pad = prose.letters(3);
        chunk(&choice(&delta, "null"), "null", &pad);
    }
    chunk(&choice("{}", "\"stop\""), "null", &prose.letters(7));
    let output = 5 * deltas as u64;
    let usage = format!(
        "{{\"prompt_tokens\":{INPUT},\"completion_tokens\":{output},\"total_tokens\":{},\"prompt_tokens_details\":\
         {{\"cached_tokens\":1024,\"audio_tokens\":0}},\"completion_tokens_details\":{{\"reasoning_tokens\":0,\
         \"audio_tokens\":0,\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}}}",
        INPUT + output
    );
    chunk("[]", &usage, &prose.letters(2));
    pieces.push(Bytes::from_static(b"data: [DONE]\n\n"));
    stream(name, Api::Chat, pieces, "stop", output)
}

fn responses(name: &str, deltas: usize) -> Recording {
    let mut prose = Prose::new();
    let mut pieces = Vec::new();
    let mut event = |kind: &str, rest: &str| {
        let number = pieces.len();
        pieces.push(Bytes::from(format!(
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number},{rest}}}\n\n"
        )));
    };
    let item = "msg_0c41f6a58d3be27900693a11f8c2e481a39b64b5f10e7d52c8";
    let response = |status: &str, output: &str, usage: &str| {
        format!(
            "\"response\":{{\"id\":\"resp_0c41f6a58d3be27900693a11f70d5c81a3\",\"object\":\"response\",\
             \"created_at\":1790000000,\"status\":\"{status}\",\"background\":false,\"error\":null,\
             \"incomplete_details\":null,\"instructions\":null,\"max_output_tokens\":null,\
             \"model\":\"model-5-mini-2026-01-15\",\"output\":{output},\"parallel_tool_calls\":true,\
             \"previous_response_id\":null,\"reasoning\":{{\"effort\":\"medium\",\"summary\":null}},\"store\":true,\
             \"temperature\":1.0,\"text\":{{\"format\":{{\"type\":\"text\"}},\"verbosity\":\"medium\"}},\
             \"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0,\"truncation\":\"disabled\",\"usage\":{usage},\
             \"user\":null,\"metadata\":{{}}}}"
        )
    };
    let place = format!("\"item_id\":\"{item}\",\"output_index\":0,\"content_index\":0");
    let part = |text: &str| format!("{{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":{text}}}");
    let message = |status: &str, content: &str| {
        format!(
            "{{\"id\":\"{item}\",\"type\":\"message\",\"status\":\"{status}\",\"content\":[{content}],\
             \"role\":\"assistant\"}}"
        )
    };

    event("response.created", &response("in_progress", "[]", "null"));
    event("response.in_progress", &response("in_progress", "[]", "null"));
    event("response.output_item.added", &format!("\"output_index\":0,\"item\":{}", message("in_progress", "")));
    event("response.content_part.added", &format!("{place},\"part\":{}", part("\"\"")));
    let mut text = String::new();
    for _ in 0..deltas {
        let delta = prose.words(5);
        text.push_str(&delta);
        let pad = prose.letters(6);
        event(
            "response.output_text.delta",
            &format!("{place},\"delta\":{},\"logprobs\":[],\"obfuscation\":\"{pad}\"", quoted(&delta)),
        );
    }
    let text = quoted(&text);
    event("response.output_text.done", &format!("{place},\"text\":{text},\"logprobs\":[]"));
    event("response.content_part.done", &format!("{place},\"part\":{}", part(&text)));
    let done = message("completed", &part(&text));
    event("response.output_item.done", &format!("\"output_index\":0,\"item\":{done}"));
    let output = 5 * deltas as u64;
    let usage = format!(
        "{{\"input_tokens\":{INPUT},\"input_tokens_details\":{{\"cached_tokens\":1024}},\"output_tokens\":{output},\
         \"output_tokens_details\":{{\"reasoning_tokens\":0}},\"total_tokens\":{}}}",
        INPUT + output
    );
    event("response.completed", &response("completed", &format!("[{done}]"), &usage));
    stream(name, Api::Responses, pieces, "completed", output)
}

fn messages(name: &str, deltas: usize) -> Recording {
    let mut prose = Prose::new();
    let mut pieces = Vec::new();
    let mut event = |kind: &str, rest: &str| {
        pieces.push(Bytes::from(format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n")));
    };
    event(
        "message_start",
        &format!(
            ",\"message\":{{\"id\":\"msg_01Xq7vWw2LkT9hRzYc41sNdJ\",\"type\":\"message\",\"role\":\"assistant\",\
             \"model\":\"model-sonnet-20260115\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\
             \"usage\":{{\"input_tokens\":{INPUT},\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\
             \"output_tokens\":1,\"service_tier\":\"standard\"}}}}"
        ),
    );
    event("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    for delta in 0..deltas {
        if delta % 100 == 0 {
            event("ping", "");
        }
        let text = quoted(&prose.words(5));
        event("content_block_delta", &format!(",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}"));
    }
    event("content_block_stop", ",\"index\":0");
    let output = 5 * deltas as u64;
    event(
        "message_delta",
        &format!(
            ",\"delta\":{{\"stop_reason\":\"end_turn\",\"stop_sequence\":null}},\
             \"usage\":{{\"input_tokens\":{INPUT},\"output_tokens\":{output}}}"
        ),
    );
    event("message_stop", "");
    stream(name, Api::Messages, pieces, "end_turn", output)
}

fn stream(name: &str, api: Api, pieces: Vec<Bytes>, finish: &str, output_tokens: u64) -> Recording {
    let truth =
        Reading { ended: true, finish: finish.into(), input_tokens: INPUT, output_tokens, ..Reading::default() };
    Recording { name: name.into(), api, events: pieces.len(), pieces, truth }
}

// ===== bodies =====

const CHAT_USAGE: &str = "{\"prompt_tokens\":1187,\"completion_tokens\":96,\"total_tokens\":1283,\
    \"prompt_tokens_details\":{\"cached_tokens\":1024,\"audio_tokens\":0},\"completion_tokens_details\":\
    {\"reasoning_tokens\":0,\"audio_tokens\":0,\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}";

fn calls() -> Vec<ToolCall> {
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    vec![
        call("call_Yc41sNdJm8PfEuABq7vXw2Lk", "search_orders", r#"{"customer":"acme","limit":20,"status":"open"}"#),
        call("call_T9hRzYc41sNdJm8PfEuABq7v", "get_invoice", r#"{"lines":[1,2,5],"number":"2026-00417"}"#),
    ]
}

fn chat_body(message: &str, finish: &str) -> Bytes {
    Bytes::from(format!(
        "{{\"id\":\"chatcmpl-Bq7vXw2LkT9hRzYc41sNdJm8PfEuA\",\"object\":\"chat.completion\",\"created\":1790000000,\
         \"model\":\"model-5-mini-2026-01-15\",\"choices\":[{{\"index\":0,\"message\":{message},\"logprobs\":null,\
         \"finish_reason\":\"{finish}\"}}],\"usage\":{CHAT_USAGE},\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_51e1070cf2\"}}"
    ))
}

fn chat_with_calls(name: &str) -> Recording {
    let mut list = String::new();
    for call in calls() {
        let arguments = quoted(&call.arguments);
        let comma = if list.is_empty() { "" } else { "," };
        let (id, name) = (call.id, call.name);
        write!(
            list,
            "{comma}{{\"id\":\"{id}\",\"type\":\"function\",\"function\":{{\"name\":\"{name}\",\"arguments\":{arguments}}}}}"
        )
        .expect("writing to a string");
    }
    let message = format!(
        "{{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{list}],\"refusal\":null,\"annotations\":[]}}"
    );
    body(name, Api::Chat, chat_body(&message, "tool_calls"), "tool_calls", calls())
}

fn chat_long(name: &str) -> Recording {
    let mut prose = Prose::new();
    let mut text = String::new();
    while text.len() < 16 * 1024 {
        text.push_str(&prose.words(5));
    }
    let message =
        format!("{{\"role\":\"assistant\",\"content\":{},\"refusal\":null,\"annotations\":[]}}", quoted(&text));
    body(name, Api::Chat, chat_body(&message, "stop"), "stop", Vec::new())
}

fn messages_with_calls(name: &str) -> Recording {
    let mut content = format!("{{\"type\":\"text\",\"text\":{}}}", quoted(&Prose::new().words(40)));
    for ToolCall { id, name, arguments } in calls() {
        write!(content, ",{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"{name}\",\"input\":{arguments}}}")
            .expect("writing to a string");
    }
    let whole = format!(
        "{{\"id\":\"msg_01Xq7vWw2LkT9hRzYc41sNdJ\",\"type\":\"message\",\"role\":\"assistant\",\
         \"model\":\"model-sonnet-20260115\",\"content\":[{content}],\"stop_reason\":\"tool_use\",\
         \"stop_sequence\":null,\"usage\":{{\"input_tokens\":1187,\"cache_creation_input_tokens\":0,\
         \"cache_read_input_tokens\":0,\"cache_creation\":{{\"ephemeral_5m_input_tokens\":0,\
         \"ephemeral_1h_input_tokens\":0}},\"output_tokens\":96,\"service_tier\":\"standard\"}}}}"
    );
    body(name, Api::Messages, whole.into(), "tool_use", calls())
}

fn body(name: &str, api: Api, whole: Bytes, finish: &str, calls: Vec<ToolCall>) -> Recording {
    let truth = Reading { ended: true, finish: finish.into(), input_tokens: INPUT, output_tokens: 96, calls };
    Recording { name: name.into(), api, pieces: vec![whole], events: 1, truth }
}

// ===== text =====

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Words in an order that looks random and never changes. About a token each; now and then a line break, a quote, code, or
/// a letter beyond ASCII, so that escapes and UTF-8 occur as often as they do in answers.
struct Prose(u64);

impl Prose {
    const WORDS: [&str; 32] = [
        " the",
        " of",
        " and",
        " a",
        " to",
        " in",
        " is",
        " that",
        " rope",
        " limit",
        " call",
        " agent",
        " answer",
        " before",
        " again",
        " budget",
        " which",
        " holds",
        " at",
        " most",
        " one",
        " window",
        " slides",
        " open",
        ",",
        ".",
        "\n\n",
        " \"stop\"",
        " `retry`",
        " naïve",
        " —",
        " const x = 1;\n",
    ];

    const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// The upper bits of a linear congruential step.
    const fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }

    fn words(&mut self, count: usize) -> String {
        (0..count).map(|_| Self::WORDS[self.next() % Self::WORDS.len()]).collect()
    }

    fn letters(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(b'a' + (self.next() % 26) as u8)).collect()
    }
}
