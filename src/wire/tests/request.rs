use proptest::prelude::*;
use serde_json::Value;

use crate::wire::{
    Framing,
    Protocol::{self, Anthropic, OpenAiChat, OpenAiResponses},
    RequestFacts, protocol_of, with_include_usage,
};

fn facts(protocol: Protocol, body: &str) -> RequestFacts {
    RequestFacts::read(protocol, "/", body.as_bytes()).expect("an object")
}

#[test]
fn paths_tell_the_protocol() {
    for (path, want) in [
        ("/v1/chat/completions", Some(OpenAiChat)),
        ("/chat/completions", Some(OpenAiChat)),
        ("/api/v1/chat/completions/", Some(OpenAiChat)),
        ("/openai/deployments/x/chat/completions", Some(OpenAiChat)),
        ("/models/chat/completions", Some(OpenAiChat)),
        ("/v1/chat", Some(OpenAiChat)),
        ("/v1/responses", Some(OpenAiResponses)),
        ("/backend-api/codex/responses", Some(OpenAiResponses)),
        ("/v1/messages", Some(Anthropic)),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict", Some(Anthropic)),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", Some(Anthropic)),
        ("/v1/messages/batches", None),
        ("/v1/messages/count_tokens", None),
        ("/v1/responses/resp_1/cancel", None),
        ("/surveys/7/responses", None),
        ("/v1/embeddings", None),
        ("/chat", None),
        ("", None),
    ] {
        assert_eq!(protocol_of(path), want, "{path}");
    }
}

#[test]
fn a_request_says_what_limits_depend_on() {
    let read = facts(
        OpenAiChat,
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":false},"max_completion_tokens":9,"tools":[{"type":"function","function":{"name":"f"}}]}"#,
    );
    assert_eq!((read.model.as_deref(), read.stream, read.include_usage), (Some("m"), true, Some(false)));
    assert_eq!((read.max_output_tokens, read.has_tools, read.provider_executed), (Some(9), true, false));
    let azure = RequestFacts::read(OpenAiChat, "/openai/deployments/gpt/chat/completions", b"{}").expect("an object");
    assert_eq!((azure.model.as_deref(), azure.stream, azure.max_output_tokens), (Some("gpt"), false, None));
    let vertex = RequestFacts::read(Anthropic, "/v1/publishers/anthropic/models/c@1:streamRawPredict", b"{}")
        .expect("an object");
    assert_eq!((vertex.model.as_deref(), vertex.stream), (Some("c@1"), true));
    assert!(facts(OpenAiResponses, r#"{"background":true}"#).background);
    for unreadable in ["", "[]", "{", r#"{"tools":[],"tools":[{"type":"mcp"}]}"#] {
        assert_eq!(RequestFacts::read(OpenAiResponses, "/", unreadable.as_bytes()), None, "{unreadable}");
    }
}

#[test]
fn tools_that_the_provider_runs_are_told_from_the_clients_and_doubt_counts() {
    for (protocol, body, want) in [
        (OpenAiResponses, r#"{"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]}"#, false),
        (OpenAiResponses, r#"{"tools":[{"type":"function"},{"type":"mcp"}]}"#, true),
        (OpenAiResponses, r#"{"tools":[{"type":"code_interpreter"}]}"#, true),
        (OpenAiResponses, r#"{"tools":[{"type":"brand_new"}]}"#, true),
        (OpenAiResponses, r#"{"tools":[{}]}"#, true),
        (OpenAiResponses, r#"{"tools":["x"]}"#, true),
        (OpenAiResponses, r#"{"tools":"x"}"#, true),
        (OpenAiResponses, r#"{"t\u006fols":[{"type":"m\u0063p"}]}"#, true),
        (OpenAiResponses, r#"{"prompt":{"id":"pmpt"}}"#, true),
        (OpenAiResponses, r#"{"tools":[],"input":"x"}"#, false),
        (
            Anthropic,
            r#"{"tools":[{"name":"f","input_schema":{}},{"type":"custom","name":"g"},{"type":"bash_20250124"}]}"#,
            false,
        ),
        (Anthropic, r#"{"tools":[{"type":"web_search_20250305"}]}"#, true),
        (Anthropic, r#"{"tools":[{"type":"code_execution_20250522"}]}"#, true),
        (Anthropic, r#"{"tools":[{"type":7}]}"#, true),
        (Anthropic, r#"{"mcp_servers":[{"url":"x"}]}"#, true),
        (Anthropic, r#"{"mcp_servers":[]}"#, false),
        (OpenAiChat, r#"{"tools":[{"function":{"name":"f"}}]}"#, false),
        (OpenAiChat, r#"{"web_search_options":{}}"#, true),
        (OpenAiChat, r#"{"model":"x:online"}"#, true),
        (OpenAiChat, r#"{"tools":[{"type":"browser_search"}]}"#, true),
    ] {
        assert_eq!(facts(protocol, body).provider_executed, want, "{body}");
    }
}

#[test]
fn usage_is_asked_for_without_touching_another_byte() {
    let spliced = |body: &str| with_include_usage(body.as_bytes()).map(|body| String::from_utf8(body).expect("text"));
    assert_eq!(spliced(" {\"a\": 1}\n").as_deref(), Some(" {\"stream_options\":{\"include_usage\":true},\"a\": 1}\n"));
    assert_eq!(spliced("{ }").as_deref(), Some("{\"stream_options\":{\"include_usage\":true} }"));
    for refused in
        ["[]", "", "{", "x", r#"{"stream_options":null}"#, r#"{"stream_options":{"include_usage":false}}"#, "{} {}"]
    {
        assert_eq!(spliced(refused), None, "{refused}");
    }
}

#[test]
fn framing_is_told_by_the_bytes_before_the_header() {
    assert_eq!(Framing::of(Some("text/event-stream"), b"\n {\"error\":1}"), Some(Framing::Json));
    assert_eq!(Framing::of(Some("application/octet-stream"), b"data: x"), Some(Framing::Sse));
    assert_eq!(Framing::of(Some("text/event-stream; charset=utf-8"), b""), Some(Framing::Sse));
    assert_eq!(Framing::of(Some("application/problem+json"), b""), Some(Framing::Json));
    assert_eq!(Framing::of(None, b"<html>"), None);
}

proptest! {
    #[test]
    fn what_is_spliced_is_still_json(key in "[a-z]{1,5}", text in "\\PC{0,20}") {
        let body = serde_json::json!({ key.clone(): text }).to_string();
        let spliced: Value = serde_json::from_slice(&with_include_usage(body.as_bytes()).expect("an object")).expect("JSON");
        prop_assert_eq!(&spliced[&key], &Value::from(text));
        prop_assert_eq!(&spliced["stream_options"]["include_usage"], &Value::from(true));
    }
}
