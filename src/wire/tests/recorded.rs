//! Recorded exchanges, read whole and in pieces. They are not part of the crate: `BELAY_SHARED` says where they are.

use std::{path::PathBuf, time::SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::{
    call::Effect,
    reason::{Class, Reason},
    wire::{Decoder, FinishReason, Framing, Reading, RequestFacts, SseSplitter, protocol_of},
};

fn exchanges() -> Vec<Value> {
    let shared = std::env::var_os("BELAY_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let Ok(files) = std::fs::read_dir(shared.join("wire/exchanges")) else {
        println!("skipped: no recorded exchanges under {}", shared.display());
        return Vec::new();
    };
    let read = |path| serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON");
    let mut all: Vec<Value> = files.map(|file| read(file.expect("entry").path())).collect();
    all.retain(|exchange| {
        ["openai.chat", "openai.responses", "anthropic.messages"].contains(&exchange["api"].as_str().unwrap_or(""))
    });
    all
}

struct Outcome {
    reading: Reading,
    reason: Reason,
    wait: Option<u128>,
    model: Option<String>,
}

fn drive(exchange: &Value, chunk: usize, known: bool) -> Outcome {
    let (request, response) = (&exchange["request"], &exchange["response"]);
    let path = request["path"].as_str().expect("path").split('?').next().expect("path");
    let protocol = protocol_of(path).expect("a known path");
    let body = response["body"].as_str().unwrap_or("").as_bytes();
    let status = StatusCode::from_u16(response["status"].as_u64().expect("status") as u16).expect("status");
    let mut headers = HeaderMap::new();
    for (name, value) in response["headers"].as_object().expect("headers") {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("name");
        headers.insert(name, HeaderValue::from_str(value.as_str().expect("text")).expect("value"));
    }
    let content_type = headers.get("content-type").and_then(|value| value.to_str().ok());
    let mut decoder = Decoder::new(known.then_some(protocol));
    if !status.is_success() {
        decoder.error_body(body);
    } else if Framing::of(content_type, body) == Some(Framing::Sse) {
        let mut sse = SseSplitter::new();
        for piece in body.chunks(chunk) {
            sse.push(piece, |event| {
                decoder.sse(&event);
            });
        }
        sse.finish(|event| {
            decoder.sse(&event);
        });
        decoder.end();
    } else {
        decoder.json(body);
    }
    let reading = decoder.into_reading();
    let reason = reading.reason(status, Effect::ReadOnly);
    let asks = matches!(reason.class(), Class::RateLimited | Class::Failed | Class::Unknown);
    let wait = if status.is_success() { reading.retry_after } else { reading.wait(&headers, SystemTime::UNIX_EPOCH) };
    let asked = RequestFacts::read(protocol, path, request["body"].to_string().as_bytes()).expect("facts");
    let model = reading.model.clone().or(asked.model);
    Outcome { reason, wait: wait.filter(|_| asks).map(|wait| wait.as_millis()), model, reading }
}

/// The labels' words for our reasons.
fn outcome(reason: Reason) -> &'static str {
    match reason {
        Reason::Completed | Reason::Paused | Reason::Accepted | Reason::EmptyAnswer => "success",
        Reason::RateLimited => "rate_limited",
        Reason::QuotaExhausted | Reason::NotEntitled => "quota_exhausted",
        Reason::Unauthenticated | Reason::PermissionDenied => "denied",
        Reason::InvalidRequest | Reason::NotFound | Reason::ToolCallInvalid => "invalid_request",
        Reason::ContextOverflow => "context_overflow",
        Reason::ContentFiltered | Reason::Refused => "content_filtered",
        Reason::ServerError => "server_error",
        Reason::Overloaded => "overloaded",
        Reason::OutputLimit => "truncated",
        Reason::Unparsable => "malformed",
        other => other.code(),
    }
}

fn usage(reading: &Reading) -> Value {
    let Some(usage) = reading.usage else { return Value::Null };
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_input_tokens": usage.cache_write_input_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "input_includes_cached": usage.input_includes_cached,
        "output_includes_reasoning": usage.output_includes_reasoning,
    })
}

fn faults(exchange: &Value, got: &Outcome) -> Vec<String> {
    let expected = &exchange["expected"];
    let mut faults = Vec::new();
    let mut compare = |field: &str, have: Value| {
        let accepted = expected["accept"][field].as_array().cloned().unwrap_or_default();
        if expected[field] != have && !accepted.contains(&have) {
            faults.push(format!("{field}: {have} want {}", expected[field]));
        }
    };
    compare("outcome", json!(outcome(got.reason)));
    if expected["outcome"] != "success" {
        compare("retry_after_ms", json!(got.wait.map(|wait| wait as u64)));
    }
    compare("model", json!(got.model));
    compare(
        "finish_reason",
        match &got.reading.finish_reason {
            Some(FinishReason::Number(number)) => json!(number),
            word => json!(word.as_ref().and_then(FinishReason::as_str)),
        },
    );
    let calls: Vec<Value> = got
        .reading
        .tool_calls
        .iter()
        .map(|call| {
            let arguments: Value = match call.arguments.as_str() {
                "" => json!({}),
                text => serde_json::from_str(text).unwrap_or(Value::Null),
            };
            json!({ "id": call.id, "name": call.name, "arguments": arguments })
        })
        .collect();
    let mut wanted = expected["tool_calls"].as_array().cloned().unwrap_or_default();
    for call in &mut wanted {
        let call = call.as_object_mut().expect("a call");
        if call.remove("arguments_raw").is_some() {
            call.insert("arguments".to_owned(), Value::Null);
        }
    }
    if calls != wanted {
        faults.push(format!("tool_calls: {calls:?} want {wanted:?}"));
    }
    let have = usage(&got.reading);
    if let Some(stated) = expected["usage"].as_object() {
        for (field, want) in stated {
            if !want.is_null() && have.get(field) != Some(want) {
                faults.push(format!("usage.{field}: {:?} want {want}", have.get(field)));
            }
        }
    } else if !have.is_null() {
        faults.push(format!("usage: {have} want none"));
    }
    faults
}

#[test]
fn recorded_exchanges_are_read_as_labelled() {
    let mut bad = Vec::new();
    for exchange in exchanges() {
        for (chunk, known) in [(usize::MAX, true), (usize::MAX, false), (7, true), (1, true)] {
            let faults = faults(&exchange, &drive(&exchange, chunk, known));
            if !faults.is_empty() {
                bad.push(format!("{} by {chunk}, known {known}: {}", exchange["id"], faults.join("; ")));
                break;
            }
        }
    }
    assert!(bad.is_empty(), "{}\n{}", bad.len(), bad.join("\n"));
}
