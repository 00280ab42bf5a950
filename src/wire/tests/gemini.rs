use http::Request;
use serde_json::{Value, json};

use super::{body, lines, reason, stream};
use crate::{
    amend::{Amend, Amendment},
    reason::Reason,
    wire::{FinishReason, LlmAmend, Protocol::Gemini, RequestFacts, protocol_of},
};

const TEXT: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"}}],"modelVersion":"g-1"}"#;
const STOP: &str = r#"{"candidates":[{"content":{"parts":[{"text":" there"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":4,"cachedContentTokenCount":5,"totalTokenCount":16}}"#;

fn candidate(parts: &str, finish: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}},"finishReason":{finish}}}]}}"#)
}

fn amended(contents: &Value, amendment: &Amendment) -> Option<Value> {
    let body = json!({ "contents": contents, "systemInstruction": { "parts": [{ "text": "Be good." }] },
        "generationConfig": { "maxOutputTokens": 100, "temperature": 0 } });
    let uri = "https://generativelanguage.googleapis.com/v1beta/models/g-1:streamGenerateContent?alt=sse";
    let request = Request::post(uri).body(body.to_string()).expect("a request");
    let amended = LlmAmend::new().amend(&request, amendment)?;
    assert_eq!(amended.uri(), uri);
    let amended: Value = serde_json::from_str(amended.body()).expect("JSON");
    assert_eq!(amended["systemInstruction"], body["systemInstruction"]);
    Some(amended)
}

#[test]
fn a_stream_is_over_at_its_finish_reason_and_the_last_usage_stands() {
    let earlier = TEXT.replace(
        r#""modelVersion""#,
        r#""usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1},"modelVersion""#,
    );
    let whole = stream(Gemini, &lines(&[&earlier, STOP]));
    assert_eq!((reason(&whole), whole.model.as_deref()), (Reason::Completed, Some("g-1")));
    let usage = whole.usage.expect("stated");
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.reasoning_tokens), (Some(9), Some(3), Some(4)));
    assert_eq!((usage.input_total(), usage.output_total()), (Some(9), Some(7)));
    assert_eq!(reason(&stream(Gemini, &lines(&[TEXT]))), Reason::Cut);
    assert_eq!(stream(None, &lines(&[TEXT])).protocol, Some(Gemini));
}

#[test]
fn a_stream_without_events_is_one_array() {
    let whole = body(Gemini, format!("[{TEXT}\n,\n{STOP}]").as_bytes());
    assert_eq!((reason(&whole), whole.usage.and_then(|usage| usage.output_tokens)), (Reason::Completed, Some(3)));
    assert_ne!(reason(&body(Gemini, format!("[{TEXT}\n,\n").as_bytes())), Reason::Completed);
}

#[test]
fn calls_come_whole_and_thoughts_are_no_answer() {
    let calls = candidate(
        r#"{"thought":true,"text":"hm"},{"functionCall":{"id":"1","name":"a","args":{"b": 1.0}}},{"functionCall":{"name":"c"}}"#,
        r#""STOP""#,
    );
    for reading in [body(Gemini, calls.as_bytes()), stream(Gemini, &lines(&[&calls]))] {
        let told: Vec<_> =
            reading.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(told, [("a", r#"{"b": 1.0}"#), ("c", "{}")]);
        assert!(reading.visible && reading.reasoning);
        assert_eq!(reason(&reading), Reason::Completed);
    }
    let thought = candidate(r#"{"thought":true,"text":"hm"}"#, r#""STOP""#);
    assert_eq!(reason(&body(Gemini, thought.as_bytes())), Reason::EmptyAnswer);
    assert!(body(Gemini, candidate(r#"{"executableCode":{"code":"1"}}"#, r#""STOP""#).as_bytes()).provider_tools);
}

#[test]
fn finish_reasons_are_read_as_words_and_as_numbers_and_unknown_ones_are_kept() {
    for (finish, want) in [
        (r#""MAX_TOKENS""#, Reason::OutputLimit),
        ("2", Reason::OutputLimit),
        (r#""SAFETY""#, Reason::ContentFiltered),
        ("3", Reason::ContentFiltered),
        (r#""MALFORMED_FUNCTION_CALL""#, Reason::ToolCallInvalid),
        (r#""UNEXPECTED_TOOL_CALL""#, Reason::ToolCallInvalid),
        ("1", Reason::Completed),
        (r#""SOMETHING_NEW""#, Reason::Completed),
    ] {
        assert_eq!(reason(&body(Gemini, candidate(r#"{"text":"x"}"#, finish).as_bytes())), want, "{finish}");
    }
    let new = body(Gemini, candidate(r#"{"text":"x"}"#, r#""SOMETHING_NEW""#).as_bytes());
    assert_eq!(new.finish_reason, Some(FinishReason::Word("SOMETHING_NEW".to_owned())));
    let unspecified = stream(Gemini, &lines(&[&candidate(r#"{"text":"x"}"#, r#""FINISH_REASON_UNSPECIFIED""#)]));
    assert_eq!(reason(&unspecified), Reason::Cut);
}

#[test]
fn a_blocked_prompt_is_a_denial_whatever_the_word() {
    for word in ["SAFETY", "PROHIBITED_CONTENT", "OTHER", "NEW"] {
        let blocked =
            format!(r#"{{"promptFeedback":{{"blockReason":"{word}"}},"usageMetadata":{{"promptTokenCount":3}}}}"#);
        for reading in [body(Gemini, blocked.as_bytes()), stream(Gemini, &lines(&[&blocked]))] {
            assert_eq!(reason(&reading).class(), crate::Class::Denied, "{word}");
        }
    }
}

#[test]
fn errors_in_a_stream_are_read_with_their_wait() {
    let error = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"7s"}]}}"#;
    let reading = stream(Gemini, &lines(&[error]));
    assert_eq!((reason(&reading), reading.retry_after.map(|wait| wait.as_secs())), (Reason::RateLimited, Some(7)));
}

#[test]
fn the_path_tells_the_model_and_the_stream_and_only_functions_are_the_clients() {
    let path = "/v1beta/models/g-1:streamGenerateContent";
    assert_eq!(protocol_of(path), Some(Gemini));
    assert_eq!(protocol_of("/v1/projects/p/locations/l/publishers/google/models/g:generateContent"), Some(Gemini));
    let facts = |body: &str| RequestFacts::read(Gemini, path, body.as_bytes()).expect("an object");
    let plain = facts(
        r#"{"model":"models/x","contents":[],"generationConfig":{"maxOutputTokens":5},"tools":[{"functionDeclarations":[{"name":"a"}]}]}"#,
    );
    assert_eq!((plain.model.as_deref(), plain.stream, plain.max_output_tokens), (Some("g-1"), true, Some(5)));
    assert!(plain.has_tools && !plain.provider_executed);
    for tools in
        [r#"[{"googleSearch":{}}]"#, r#"[{"functionDeclarations":[],"codeExecution":{}}]"#, r#"[{"new_tool":{}}]"#]
    {
        assert!(facts(&format!(r#"{{"tools":{tools}}}"#)).provider_executed, "{tools}");
    }
    assert!(facts(r#"{"cachedContent":"c"}"#).provider_executed);
}

#[test]
fn what_is_said_goes_to_the_user_and_results_stay_with_their_calls() {
    let (user, model) =
        (json!({ "role": "user", "parts": [{ "text": "Hi" }] }), json!({ "role": "model", "parts": [] }));
    let result = json!({ "role": "user", "parts": [{ "functionResponse": { "name": "a", "response": {} } }] });
    let warn = Amendment::Warn("Bad.".to_owned());
    for (contents, at, parts) in
        [(json!([user]), 0, 2), (json!([user, model, result]), 3, 1), (json!([user, model]), 2, 1)]
    {
        let amended = amended(&contents, &warn).expect("changed");
        let told = &amended["contents"][at];
        assert_eq!((told["role"].as_str(), told["parts"].as_array().map(Vec::len)), (Some("user"), Some(parts)));
        assert!(told["parts"][parts - 1]["text"].as_str().is_some_and(|text| text.starts_with("Bad.")));
    }
    let raised = amended(&json!([user]), &Amendment::RaiseOutputCap).expect("a cap");
    assert_eq!(raised["generationConfig"]["maxOutputTokens"], 200);
    assert_eq!(amended(&json!([user]), &Amendment::Nudge).expect("changed")["generationConfig"]["temperature"], 0.7);
    assert!(amended(&json!([user]), &Amendment::Compact).is_none());
}
