//! Changes requests to models, each in its provider's own form.

use std::fmt;

use http::{Method, Request, Uri};
use serde_json::{Map, Value, json};

use super::{Protocol, protocol_of, rewrite};
use crate::{
    amend::{Amend, Amendment, FinishUp},
    classify::{Auto, Classify},
};

/// Changes requests in OpenAI chat, OpenAI Responses, Anthropic Messages, Gemini and Cohere v2.
///
/// What is said to the model is added at the end of its input and nowhere else: roles alternate as before, tool
/// results stay with their calls, the system prompt stays where it is. A request that is signed, encoded or not in
/// memory cannot be changed, and is not sent again.
///
/// An input that is too long is made shorter only by the user's own [`compact`](LlmAmend::compact).
///
/// ```
/// use tower_belay::{amend::{Amend, Amendment}, wire::LlmAmend};
/// let body = r#"{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}"#;
/// let request = http::Request::post("https://api.openai.com/v1/chat/completions").body(body.to_owned()).unwrap();
/// let amend = LlmAmend::new();
///
/// let longer = amend.amend(&request, &Amendment::RaiseOutputCap).expect("there is a cap to raise");
/// assert!(longer.body().contains(r#""max_tokens":200"#));
/// // Nobody said what may be left out.
/// assert!(amend.amend(&request, &Amendment::Compact).is_none());
/// ```
#[derive(Clone, Copy, Default)]
pub struct LlmAmend {
    compact: Option<Compact>,
}

/// Makes an input shorter, in the body of a request; says whether it did.
pub type Compact = fn(Protocol, &mut Map<String, Value>) -> bool;

impl LlmAmend {
    /// Changes everything but the length of the input.
    pub const fn new() -> Self {
        Self { compact: None }
    }

    /// Makes an input shorter that is too long, in the request's body; says whether it did.
    #[must_use]
    pub const fn compact(mut self, compact: Compact) -> Self {
        self.compact = Some(compact);
        self
    }

    fn change(self, protocol: Protocol, uri: &Uri, body: &mut Map<String, Value>, amendment: &Amendment) -> bool {
        match amendment {
            Amendment::Warn(what) => say(protocol, body, &format!("{what} Answer again, and mend that.")),
            Amendment::Nudge => {
                warm(settings(protocol, body));
                say(protocol, body, "The last answer was empty. Answer now, in words or by a tool call.")
            }
            Amendment::AskForLess => {
                say(protocol, body, "The last answer was too long and was cut. Answer more briefly.")
            }
            Amendment::RaiseOutputCap => raise_cap(settings(protocol, body)),
            Amendment::Compact => self.compact.is_some_and(|compact| compact(protocol, body)),
            Amendment::FinishUp(finish) => finish_up(protocol, uri, body, finish),
        }
    }
}

impl<B: 'static> Amend<Request<B>> for LlmAmend {
    fn amend(&self, request: &Request<B>, amendment: &Amendment) -> Option<Request<B>> {
        let protocol = protocol_of(request.uri().path()).filter(|_| *request.method() == Method::POST)?;
        let mut copy = Auto.replay(request)?;
        let changed = rewrite(&mut copy, |body| {
            let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
            if !self.change(protocol, request.uri(), &mut body, amendment) {
                return None;
            }
            serde_json::to_vec(&body).ok()
        });
        changed.then_some(copy)
    }
}

impl fmt::Debug for LlmAmend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmAmend").field("compacts", &self.compact.is_some()).finish()
    }
}

/// Where a request says how it is to be answered.
fn settings(protocol: Protocol, body: &mut Map<String, Value>) -> &mut Map<String, Value> {
    const OWN: [&str; 2] = ["generationConfig", "generation_config"];
    let own = OWN
        .into_iter()
        .filter(|_| protocol == Protocol::Gemini)
        .find(|key| body.get(*key).is_some_and(Value::is_object));
    match own {
        Some(key) => body[key].as_object_mut().expect("it is an object"),
        None => body,
    }
}

/// Twice the cap, where there is one; without one nobody knows what the model may write.
fn raise_cap(body: &mut Map<String, Value>) -> bool {
    let caps = ["max_completion_tokens", "max_output_tokens", "maxOutputTokens", "max_tokens"];
    let Some(cap) = caps.into_iter().find(|cap| body.get(*cap).is_some_and(Value::is_u64)) else { return false };
    let doubled = body[cap].as_u64().unwrap_or_default().saturating_mul(2);
    body.insert(cap.to_owned(), json!(doubled));
    true
}

/// Withdraws the tools, asks for one answer and a shorter one, and says so.
fn finish_up(protocol: Protocol, uri: &Uri, body: &mut Map<String, Value>, finish: &FinishUp) -> bool {
    if !say(protocol, body, &finish.text) {
        return false;
    }
    for key in ["tool_choice", "toolConfig", "tool_config", "functions", "function_call", "parallel_tool_calls", "n"] {
        body.remove(key);
    }
    match (protocol, body.get("tools").is_some()) {
        // A conversation with tool calls in it is refused without their definitions.
        (Protocol::Anthropic, true) => drop(body.insert("tool_choice".to_owned(), json!({ "type": "none" }))),
        _ => drop(body.remove("tools")),
    }
    let cap = finish.max_output_tokens;
    // Gemini says how it is to be answered in an object of its own, and calls its messages `contents`.
    let inner =
        ["generationConfig", "generation_config"].into_iter().find(|key| body.get(*key).is_some_and(Value::is_object));
    match inner {
        Some(inner) => shorten(body[inner].as_object_mut().expect("it is an object"), "maxOutputTokens", cap),
        None if body.contains_key("contents") => {
            drop(body.insert("generationConfig".to_owned(), json!({ "maxOutputTokens": cap })));
        }
        None => shorten(body, cap_name(protocol, uri.host()), cap),
    }
    // Anthropic refuses a budget for thinking that leaves no room for an answer.
    let thinks = body.get("thinking").and_then(|it| it.get("budget_tokens")).and_then(Value::as_u64);
    if thinks.is_some_and(|thinks| thinks >= cap) {
        body.remove("thinking");
    }
    true
}

/// Lowers the limit on the answer, by whatever name it stands there; sets it as `name` where there is none.
fn shorten(settings: &mut Map<String, Value>, name: &str, cap: u64) {
    const NAMES: [&str; 4] = ["max_completion_tokens", "max_output_tokens", "maxOutputTokens", "max_tokens"];
    let mut is_stated = false;
    for name in NAMES {
        if let Some(stated) = settings.get(name).and_then(Value::as_u64) {
            settings.insert(name.to_owned(), json!(stated.min(cap)));
            is_stated = true;
        }
    }
    if !is_stated {
        settings.insert(name.to_owned(), json!(cap));
    }
}

/// What a server calls the limit on its answers. OpenAI's own newer models refuse the name that most others ask for.
fn cap_name(protocol: Protocol, host: Option<&str>) -> &'static str {
    let is_openai = host.is_some_and(|host| host.ends_with(".openai.com") || host.ends_with(".azure.com"));
    match protocol {
        Protocol::OpenAiResponses => "max_output_tokens",
        Protocol::OpenAiChat if is_openai => "max_completion_tokens",
        _ => "max_tokens",
    }
}

/// A model that answered nothing answers nothing again at the same temperature. Only where one is stated: some models
/// take none.
fn warm(body: &mut Map<String, Value>) {
    if body.get("temperature").and_then(Value::as_f64).is_some_and(|temperature| temperature < 0.7) {
        body.insert("temperature".to_owned(), json!(0.7));
    }
}

/// Adds `text` at the end of the input.
fn say(protocol: Protocol, body: &mut Map<String, Value>, text: &str) -> bool {
    match protocol {
        // Behind a tool's results a user speaks in a message of its own.
        Protocol::Cohere => add_to_last(body, "messages", &["user"], "text", text),
        Protocol::Gemini => say_to_gemini(body, text),
        Protocol::OpenAiChat => add_to_last(body, "messages", &["user", "tool"], "text", text),
        Protocol::Anthropic => add_to_last(body, "messages", &["user"], "text", text),
        Protocol::OpenAiResponses => match body.get_mut("input") {
            Some(Value::String(input)) => {
                append(input, text);
                true
            }
            _ => add_to_last(body, "input", &["user"], "input_text", text),
        },
    }
}

/// Adds to the last message if its role may carry it, so that no role comes twice; else as a message of the user.
fn add_to_last(body: &mut Map<String, Value>, list: &str, roles: &[&str], part: &str, text: &str) -> bool {
    let Some(Value::Array(messages)) = body.get_mut(list) else { return false };
    let last = messages.last_mut().filter(|last| {
        let role = last.get("role").and_then(Value::as_str);
        role.is_some_and(|role| roles.contains(&role))
    });
    match last.and_then(|last| last.get_mut("content")) {
        Some(Value::String(content)) => append(content, text),
        // Behind the parts that are there: tool results must come first.
        Some(Value::Array(parts)) => parts.push(json!({ "type": part, "text": text })),
        _ => messages.push(json!({ "role": "user", "content": text })),
    }
    true
}

/// Adds a part to what the user said last. A turn of functions' results takes no words: behind one comes another turn.
fn say_to_gemini(body: &mut Map<String, Value>, text: &str) -> bool {
    let Some(Value::Array(contents)) = body.get_mut("contents") else { return false };
    let part = json!({ "text": text });
    let has_results = |last: &Value| {
        let parts = last.get("parts").and_then(Value::as_array).into_iter().flatten();
        parts.into_iter().any(|part| part.get("functionResponse").or(part.get("function_response")).is_some())
    };
    let is_user = |last: &&mut Value| {
        matches!(last.get("role").and_then(Value::as_str), None | Some("user")) && !has_results(last)
    };
    match contents.last_mut().filter(is_user).and_then(|last| last.get_mut("parts")) {
        Some(Value::Array(parts)) => parts.push(part),
        _ => contents.push(json!({ "role": "user", "parts": [part] })),
    }
    true
}

fn append(content: &mut String, text: &str) {
    content.push_str("\n\n");
    content.push_str(text);
}
