use http::Request;
use serde_json::{Value, json};

use super::{body, lines, reason, stream};
use crate::{
    amend::{Amend, Amendment},
    reason::Reason,
    wire::{LlmAmend, Protocol::Cohere, RequestFacts, protocol_of},
};

const START: &str = r#"{"type":"message-start","id":"1","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[]}}}"#;
const TEXT: &str = r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hi"}}}}"#;

fn end(finish: &str) -> String {
    format!(
        r#"{{"type":"message-end","delta":{{"finish_reason":"{finish}","usage":{{"billed_units":{{"input_tokens":1,"output_tokens":2}},"tokens":{{"input_tokens":10,"output_tokens":20}},"cached_tokens":4}}}}}}"#
    )
}

#[test]
fn a_stream_is_over_at_its_terminator_and_nowhere_else() {
    let content_end = r#"{"type":"content-end","index":0}"#;
    let whole = stream(Cohere, &lines(&[START, TEXT, content_end, &end("COMPLETE")]));
    assert_eq!(reason(&whole), Reason::Completed);
    let usage = whole.usage.expect("stated");
    assert_eq!((usage.input_total(), usage.output_total(), usage.cached_input_tokens), (Some(10), Some(20), Some(4)));
    assert_eq!(reason(&stream(Cohere, &lines(&[START, TEXT, content_end]))), Reason::Cut);
    assert_eq!(reason(&stream(Cohere, &lines(&[START, TEXT, "[DONE]"]))), Reason::Cut);
    assert_eq!(stream(None, &lines(&[START])).protocol, Some(Cohere));
}

#[test]
fn calls_are_put_together_by_their_index_and_a_plan_is_no_answer() {
    let call = |index: u32, name: &str| {
        format!(
            r#"{{"type":"tool-call-start","index":{index},"delta":{{"message":{{"tool_calls":{{"id":"id{index}","type":"function","function":{{"name":"{name}","arguments":""}}}}}}}}}}"#
        )
    };
    let piece = |index: u32, text: &str| {
        let text = Value::from(text);
        format!(
            r#"{{"type":"tool-call-delta","index":{index},"delta":{{"message":{{"tool_calls":{{"function":{{"arguments":{text}}}}}}}}}}}"#
        )
    };
    let plan = r#"{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I will"}}}"#;
    let events = [call(0, "a"), piece(0, "{\"x\""), call(1, "b"), piece(0, ":1}"), piece(1, "{}"), end("TOOL_CALL")];
    let mut all = vec![START, plan];
    all.extend(events.iter().map(String::as_str));
    let reading = stream(Cohere, &lines(&all));
    let told: Vec<_> = reading.tool_calls.iter().map(|call| (call.id.as_deref(), call.arguments.as_str())).collect();
    assert_eq!(told, [(Some("id0"), r#"{"x":1}"#), (Some("id1"), "{}")]);
    assert_eq!((reason(&reading), reading.reasoning), (Reason::Completed, true));
    assert_eq!(reason(&stream(Cohere, &lines(&[START, plan, &end("COMPLETE")]))), Reason::EmptyAnswer);
}

#[test]
fn a_body_is_read_and_an_error_is_none() {
    let answer = r#"{"id":"1","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"16"}]},"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":3,"output_tokens":5,"reasoning_tokens":4}}}"#;
    let reading = body(Cohere, answer.as_bytes());
    assert_eq!(
        (reason(&reading), reading.usage.and_then(|usage| usage.reasoning_tokens)),
        (Reason::Completed, Some(4))
    );
    let overflow =
        body(Cohere, br#"{"error_type":"TOO_MANY_TOKENS","message":"too many tokens: size limit exceeded by 5"}"#);
    assert_eq!(reason(&overflow), Reason::ContextOverflow);
}

#[test]
fn what_ended_the_answer_is_judged_by_its_word() {
    for (word, want) in [
        ("MAX_TOKENS", Reason::OutputLimit),
        ("ERROR", Reason::ServerError),
        ("TIMEOUT", Reason::Timeout),
        ("STOP_SEQUENCE", Reason::Completed),
        ("NEW_WORD", Reason::Completed),
    ] {
        assert_eq!(reason(&stream(Cohere, &lines(&[START, TEXT, &end(word)]))), want, "{word}");
    }
}

#[test]
fn requests_are_read_and_amended() {
    assert_eq!(protocol_of("/v2/chat"), Some(Cohere));
    let facts = |body: &str| RequestFacts::read(Cohere, "/v2/chat", body.as_bytes()).expect("an object");
    let plain = facts(r#"{"model":"c","stream":true,"max_tokens":7,"tools":[{"type":"function","function":{}}]}"#);
    assert!(plain.stream && plain.has_tools && !plain.provider_executed && plain.max_output_tokens == Some(7));
    assert!(facts(r#"{"connectors":[{"id":"web-search"}]}"#).provider_executed);

    let user = json!({ "role": "user", "content": "Hi" });
    let result = json!({ "role": "tool", "tool_call_id": "1", "content": "7" });
    for (messages, at) in [(json!([user]), 0), (json!([user, result]), 2)] {
        let body = json!({ "model": "c", "messages": messages, "max_tokens": 7 }).to_string();
        let request = Request::post("https://api.cohere.com/v2/chat").body(body).expect("a request");
        let amended = LlmAmend::new().amend(&request, &Amendment::Warn("Bad.".to_owned())).expect("changed");
        let amended: Value = serde_json::from_str(amended.body()).expect("JSON");
        assert_eq!(amended["messages"][at]["role"], "user");
        assert!(amended["messages"][at]["content"].as_str().is_some_and(|text| text.contains("Bad.")));
    }
}
