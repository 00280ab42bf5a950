use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::{
    amend::{Amend, Amendment, FinishUp},
    body::in_memory::readable,
    wire::LlmAmend,
};

const CHAT: &str = "https://api.openai.com/v1/chat/completions";
const RESPONSES: &str = "https://api.openai.com/v1/responses";
const MESSAGES: &str = "https://api.anthropic.com/v1/messages";

fn request(uri: &str, body: &Value) -> Request<Full<Bytes>> {
    let body = body.to_string();
    let request = Request::post(uri).header("content-length", body.len());
    request.body(Full::new(body.into())).expect("a request")
}

fn amended(uri: &str, body: &Value, amendment: &Amendment) -> Option<Value> {
    let amended = LlmAmend::new().amend(&request(uri, body), amendment)?;
    let bytes = readable(amended.body()).expect("in memory").to_vec();
    assert_eq!(amended.headers()["content-length"], bytes.len().to_string());
    Some(serde_json::from_slice(&bytes).expect("JSON"))
}

fn warn() -> Amendment {
    Amendment::Warn("Bad.".to_owned())
}

#[test]
fn a_warning_joins_the_last_message_so_that_roles_alternate() {
    let user = json!({ "role": "user", "content": "Hi" });
    for uri in [CHAT, MESSAGES] {
        let body = amended(uri, &json!({ "messages": [user] }), &warn()).expect("changed");
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(1));
        assert_eq!(body["messages"][0]["content"], "Hi\n\nBad. Answer again, and mend that.");
    }
}

#[test]
fn a_warning_stands_behind_tool_results_and_takes_none_of_them_away() {
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": "7" });
    let body = amended(MESSAGES, &json!({ "messages": [{ "role": "user", "content": [result] }] }), &warn());
    let body = body.expect("changed");
    let content = body["messages"][0]["content"].as_array().expect("parts");
    assert_eq!((content.len(), &content[0], &content[1]["type"]), (2, &result, &json!("text")));

    let tool = json!({ "role": "tool", "tool_call_id": "t", "content": "7" });
    let body = amended(CHAT, &json!({ "messages": [tool] }), &warn()).expect("changed");
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(1));
    assert_eq!(body["messages"][0]["tool_call_id"], "t");
}

#[test]
fn a_warning_after_an_assistants_message_is_the_users() {
    let assistant = json!({ "role": "assistant", "content": "{" });
    let body = amended(MESSAGES, &json!({ "messages": [assistant] }), &warn()).expect("changed");
    assert_eq!((&body["messages"][0], &body["messages"][1]["role"]), (&assistant, &json!("user")));
}

#[test]
fn the_responses_input_may_be_a_text_or_a_list() {
    let body = amended(RESPONSES, &json!({ "input": "Hi" }), &warn()).expect("changed");
    assert!(body["input"].as_str().is_some_and(|input| input.starts_with("Hi\n\nBad.")));
    let output = json!({ "type": "function_call_output", "call_id": "c", "output": "7" });
    let body = amended(RESPONSES, &json!({ "input": [output] }), &warn()).expect("changed");
    assert_eq!((&body["input"][0], &body["input"][1]["role"]), (&output, &json!("user")));
}

#[test]
fn the_cap_that_is_there_is_doubled_and_none_is_invented() {
    for (uri, cap) in [(CHAT, "max_completion_tokens"), (RESPONSES, "max_output_tokens"), (MESSAGES, "max_tokens")] {
        let body = amended(uri, &json!({ cap: 100 }), &Amendment::RaiseOutputCap).expect("changed");
        assert_eq!(body[cap], 200);
        assert_eq!(amended(uri, &json!({ "messages": [] }), &Amendment::RaiseOutputCap), None);
    }
}

#[test]
fn a_nudge_warms_only_a_temperature_that_is_stated() {
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    let nudged = amended(CHAT, &body, &Amendment::Nudge).expect("changed");
    assert_eq!(nudged.get("temperature"), None);
    let cold = json!({ "temperature": 0, "messages": [{ "role": "user", "content": "Hi" }] });
    assert_eq!(amended(CHAT, &cold, &Amendment::Nudge).expect("changed")["temperature"], 0.7);
}

#[test]
fn only_the_user_shortens_the_input() {
    let body = json!({ "messages": [1, 2, 3] });
    assert_eq!(amended(CHAT, &body, &Amendment::Compact), None);
    let drop_first = LlmAmend::new().compact(|_, body| {
        body.get_mut("messages").and_then(Value::as_array_mut).is_some_and(|messages| {
            messages.remove(0);
            true
        })
    });
    assert!(drop_first.amend(&request(CHAT, &body), &Amendment::Compact).is_some());
}

#[test]
fn what_cannot_be_changed_is_left_alone() {
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    let mut signed = request(CHAT, &body);
    signed.headers_mut().insert("authorization", "AWS4-HMAC-SHA256 x".parse().expect("a header"));
    assert!(LlmAmend::new().amend(&signed, &warn()).is_none());
    assert_eq!(amended("https://api.openai.com/v1/embeddings", &body, &warn()), None);
    let garbage = Request::post(CHAT).body("not json".to_owned()).expect("a request");
    assert!(LlmAmend::new().amend(&garbage, &warn()).is_none());
}

fn finish(uri: &str, body: &Value) -> Value {
    amended(uri, body, &Amendment::FinishUp(FinishUp::new("Finish.", 100))).expect("changed")
}

#[test]
fn a_run_is_finished_without_tools_and_with_what_is_left() {
    let user = json!({ "role": "user", "content": "Hi" });
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    let body = json!({ "messages": [user], "tools": tools, "tool_choice": "auto", "parallel_tool_calls": true });
    let told = json!([{ "role": "user", "content": "Hi\n\nFinish." }]);
    assert_eq!(finish(CHAT, &body), json!({ "messages": told, "max_completion_tokens": 100 }));
    let other = "https://api.example/v1/chat/completions";
    assert_eq!(finish(other, &body), json!({ "messages": told, "max_tokens": 100 }));

    let body = json!({ "input": "Hi", "tools": [{ "type": "function", "name": "f" }], "tool_choice": "required" });
    assert_eq!(finish(RESPONSES, &body), json!({ "input": "Hi\n\nFinish.", "max_output_tokens": 100 }));
}

#[test]
fn a_shorter_limit_of_the_request_stays() {
    let body = json!({ "messages": [], "max_tokens": 50 });
    assert_eq!(finish(CHAT, &body)["max_tokens"], 50);
    let body = json!({ "messages": [], "max_tokens": 5_000 });
    assert_eq!(finish(CHAT, &body)["max_tokens"], 100);
}

#[test]
fn tools_that_a_conversation_has_used_stay_defined_and_are_not_to_be_called() {
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": "7" });
    let body = json!({
        "messages": [{ "role": "user", "content": [result] }],
        "tools": [{ "name": "f" }],
        "tool_choice": { "type": "any" },
        "max_tokens": 5_000,
        "thinking": { "type": "enabled", "budget_tokens": 2_000 },
    });
    let body = finish(MESSAGES, &body);
    assert_eq!((&body["tool_choice"], &body["max_tokens"]), (&json!({ "type": "none" }), &json!(100)));
    assert!(body["tools"].is_array() && body.get("thinking").is_none());
    assert_eq!(body["messages"][0]["content"][1]["text"], "Finish.");
    assert!(finish(MESSAGES, &json!({ "messages": [], "max_tokens": 9 })).get("tool_choice").is_none());
}
