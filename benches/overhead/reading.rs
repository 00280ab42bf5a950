//! Reading provider answers: usage, finish reason, end and tool calls, out of streams and of JSON bodies.

use std::convert::Infallible;
use std::fmt::Debug;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use eventsource_stream::{Event, Eventsource as _};
use futures_util::{Stream as _, stream};
use serde_json::Value;
use tower_belay::wire::{Decoder, Protocol, SseSplitter, sse};

use crate::harness::{Caller, Cost, Effort, Subject, measure, shown};
use crate::streams::{Api, Reading, Recording, ToolCall, bodies, streams};

/// The peer comes first in each of these, and the others are measured against it.
fn readers_of_streams(recording: &Arc<Recording>) -> Vec<Box<dyn Subject>> {
    vec![
        subject("eventsource_value", recording, eventsource_value, |r| r.truth.clone()),
        subject("belay", recording, belay_stream, |r| r.truth.clone()),
    ]
}

fn splitters(recording: &Arc<Recording>) -> Vec<Box<dyn Subject>> {
    vec![
        subject("eventsource_split", recording, eventsource_split, |r| r.events),
        subject("belay_split", recording, belay_split, |r| r.events),
    ]
}

fn readers_of_bodies(recording: &Arc<Recording>) -> Vec<Box<dyn Subject>> {
    vec![
        subject("value", recording, value, |r| r.truth.clone()),
        subject("belay_body", recording, belay_body, |r| r.truth.clone()),
    ]
}

type Group = (Arc<Recording>, Vec<Box<dyn Subject>>);

fn groups() -> Vec<Group> {
    let streams: Vec<_> = streams().into_iter().map(Arc::new).collect();
    let bodies = bodies().into_iter().map(Arc::new);
    let metered = streams.iter().map(|recording| (recording.clone(), readers_of_streams(recording)));
    let split = streams.iter().map(|recording| (recording.clone(), splitters(recording)));
    let read = bodies.map(|recording| (recording.clone(), readers_of_bodies(&recording)));
    metered.chain(split).chain(read).collect()
}

pub(crate) fn subjects() -> Vec<Box<dyn Subject>> {
    groups().into_iter().flat_map(|(_, subjects)| subjects).collect()
}

pub(crate) fn report() {
    println!("reading, a whole answer (ratio: how many times faster than the first of its kind)");
    println!(
        "{:<40} {:>7} {:>7} {:>9} {:>9} {:>8} {:>8} {:>13} {:>6}",
        "", "bytes", "events", "µs", "ns/event", "MB/s", "allocs", "instructions", "ratio"
    );
    for (recording, subjects) in groups() {
        // About a millisecond of the peer's time a turn.
        let effort = Effort { rounds: 41, iterations: (400 / recording.events).clamp(1, 100) };
        let costs = measure(&subjects, effort, false);
        let peer = costs[0].0.nanos;
        for (subject, (own, _)) in subjects.iter().zip(&costs) {
            let Cost { nanos, allocations, instructions, .. } = own;
            println!(
                "{:<40} {:>7} {:>7} {:>9.1} {:>9.0} {:>8.0} {allocations:>8.0} {:>13} {:>6.1}",
                subject.name(),
                recording.bytes(),
                recording.events,
                nanos / 1e3,
                nanos / recording.events as f64,
                recording.bytes() as f64 / nanos * 1e3,
                shown(*instructions, 0),
                peer / nanos,
            );
        }
    }
}

/// `work` on `recording`, again and again.
struct Reads<T> {
    name: String,
    recording: Arc<Recording>,
    work: fn(&Recording) -> T,
    truth: fn(&Recording) -> T,
}

fn subject<T: PartialEq + Debug + 'static>(
    reader: &str,
    recording: &Arc<Recording>,
    work: fn(&Recording) -> T,
    truth: fn(&Recording) -> T,
) -> Box<dyn Subject> {
    Box::new(Reads { name: format!("{reader}/{}", recording.name), recording: recording.clone(), work, truth })
}

impl<T: PartialEq + Debug + 'static> Subject for Reads<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn caller(&self) -> Caller {
        let (recording, work) = (self.recording.clone(), self.work);
        assert_eq!(work(&recording), (self.truth)(&recording), "{} reads what is there", self.name);
        Box::new(move |times| {
            for _ in 0..times {
                black_box(work(black_box(&recording)));
            }
        })
    }
}

// ===== ours =====

fn belay_stream(recording: &Recording) -> Reading {
    let (mut sse, mut decoder) = (SseSplitter::new(), Decoder::new(Some(protocol(recording.api))));
    for piece in &recording.pieces {
        sse.push(piece, |event| {
            decoder.sse(&event);
        });
    }
    sse.finish(|event| {
        decoder.sse(&event);
    });
    decoder.end();
    told(decoder.into_reading())
}

fn belay_split(recording: &Recording) -> usize {
    let (mut sse, mut events) = (SseSplitter::new(), 0);
    let mut count = |event: sse::Event<'_>| events += usize::from(!black_box(event).data.is_empty());
    recording.pieces.iter().for_each(|piece| sse.push(piece, &mut count));
    sse.finish(&mut count);
    events
}

fn belay_body(recording: &Recording) -> Reading {
    let mut decoder = Decoder::new(Some(protocol(recording.api)));
    decoder.json(&recording.pieces[0]);
    told(decoder.into_reading())
}

fn protocol(api: Api) -> Protocol {
    match api {
        Api::Chat => Protocol::OpenAiChat,
        Api::Responses => Protocol::OpenAiResponses,
        Api::Messages => Protocol::Anthropic,
    }
}

fn told(read: tower_belay::wire::Reading) -> Reading {
    let usage = read.usage.unwrap_or_default();
    let call = |call: tower_belay::wire::ToolCallRead| ToolCall {
        id: call.id.unwrap_or_default(),
        name: call.name,
        arguments: call.arguments,
    };
    Reading {
        ended: read.done,
        finish: read.finish_reason.map(|reason| reason.to_string()).unwrap_or_default(),
        input_tokens: usage.input_tokens.unwrap_or_default(),
        output_tokens: usage.output_tokens.unwrap_or_default(),
        calls: read.tool_calls.into_iter().map(call).collect(),
    }
}

// ===== the peers =====

fn eventsource_events(recording: &Recording, mut each: impl FnMut(Event)) {
    let pieces = recording.pieces.iter().map(|piece| Ok::<_, Infallible>(piece.clone()));
    let mut events = pin!(stream::iter(pieces).eventsource());
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(event)) = events.as_mut().poll_next(&mut cx) {
        each(event.expect("the stream is well formed"));
    }
}

fn eventsource_split(recording: &Recording) -> usize {
    let mut events = 0;
    eventsource_events(recording, |event| events += usize::from(!black_box(event).data.is_empty()));
    events
}

/// Every event parsed, as a gateway does that has to know what the stream said.
fn eventsource_value(recording: &Recording) -> Reading {
    let mut reading = Reading::default();
    eventsource_events(recording, |event| {
        if event.data == "[DONE]" {
            reading.ended = true;
            return;
        }
        let value: Value = serde_json::from_str(&event.data).expect("every event is JSON");
        match recording.api {
            Api::Chat => chat_chunk(&value, &mut reading),
            Api::Responses => responses_event(&value, &mut reading),
            Api::Messages => messages_event(&value, &mut reading),
        }
    });
    reading
}

fn value(recording: &Recording) -> Reading {
    let value: Value = serde_json::from_slice(&recording.pieces[0]).expect("the body is JSON");
    let mut reading = Reading { ended: true, ..Reading::default() };
    match recording.api {
        Api::Chat => {
            chat_chunk(&value, &mut reading);
            let calls = value["choices"][0]["message"]["tool_calls"].as_array().into_iter().flatten();
            reading.calls.extend(calls.map(|call| ToolCall {
                id: text(&call["id"]),
                name: text(&call["function"]["name"]),
                arguments: text(&call["function"]["arguments"]),
            }));
        }
        Api::Messages => {
            tokens(&value["usage"], "input_tokens", "output_tokens", &mut reading);
            reading.finish = text(&value["stop_reason"]);
            let blocks = value["content"].as_array().into_iter().flatten();
            reading.calls.extend(blocks.filter(|block| block["type"] == "tool_use").map(|call| ToolCall {
                id: text(&call["id"]),
                name: text(&call["name"]),
                arguments: call["input"].to_string(),
            }));
        }
        Api::Responses => unreachable!("no such body is made"),
    }
    reading
}

fn chat_chunk(value: &Value, reading: &mut Reading) {
    tokens(&value["usage"], "prompt_tokens", "completion_tokens", reading);
    if let Some(finish) = value["choices"][0]["finish_reason"].as_str() {
        reading.finish = finish.to_owned();
    }
}

fn responses_event(value: &Value, reading: &mut Reading) {
    if value["type"] == "response.completed" {
        let response = &value["response"];
        tokens(&response["usage"], "input_tokens", "output_tokens", reading);
        reading.finish = text(&response["status"]);
        reading.ended = true;
    }
}

fn messages_event(value: &Value, reading: &mut Reading) {
    match value["type"].as_str() {
        Some("message_start") => tokens(&value["message"]["usage"], "input_tokens", "output_tokens", reading),
        Some("message_delta") => {
            tokens(&value["usage"], "input_tokens", "output_tokens", reading);
            reading.finish = text(&value["delta"]["stop_reason"]);
        }
        Some("message_stop") => reading.ended = true,
        _ => {}
    }
}

/// What is stated replaces what was: every provider here counts cumulatively.
fn tokens(usage: &Value, input: &str, output: &str, reading: &mut Reading) {
    reading.input_tokens = usage[input].as_u64().unwrap_or(reading.input_tokens);
    reading.output_tokens = usage[output].as_u64().unwrap_or(reading.output_tokens);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
