use std::time::Duration;

use http::StatusCode;

use super::{body, lines, reason, stream};
use crate::{
    call::Effect,
    reason::Reason,
    wire::{
        Decoder, FinishReason, Progress,
        Protocol::{Anthropic, OpenAiChat, OpenAiResponses},
        Reading,
    },
};

fn calls(reading: &Reading) -> Vec<(Option<&str>, &str, &str)> {
    reading.tool_calls.iter().map(|call| (call.id.as_deref(), call.name.as_str(), call.arguments.as_str())).collect()
}

fn deltas(deltas: &[&str]) -> Reading {
    let chunk = |delta: &&str| format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{delta}]}}}}]}}"#);
    let chunks: Vec<String> = deltas.iter().map(chunk).collect();
    stream(OpenAiChat, &lines(&chunks.iter().map(String::as_str).collect::<Vec<_>>()))
}

#[test]
fn a_stream_that_stops_early_is_cut_and_keeps_what_it_stated() {
    let chat = stream(OpenAiChat, &lines(&[r#"{"model":"m","choices":[{"index":0,"delta":{"content":"Hel"}}]}"#]));
    assert_eq!((reason(&chat), chat.visible, chat.usage), (Reason::Cut, true, None));

    let start = r#"{"type":"message_start","message":{"model":"c","usage":{"input_tokens":9,"output_tokens":1}}}"#;
    let stop = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#;
    let text = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#;
    let cut = stream(Anthropic, &lines(&[start, text]));
    assert_eq!((reason(&cut), cut.usage.and_then(|usage| usage.input_tokens)), (Reason::Cut, Some(9)));
    // Anthropic's answer is over at `message_stop` and nowhere else.
    let unstopped = stream(Anthropic, &lines(&[start, text, stop]));
    assert_eq!((reason(&unstopped), unstopped.usage.and_then(|usage| usage.output_tokens)), (Reason::Cut, Some(7)));
    let whole = stream(None, &lines(&[start, text, stop, r#"{"type":"message_stop"}"#]));
    assert_eq!((reason(&whole), whole.protocol), (Reason::Completed, Some(Anthropic)));

    let created = r#"{"type":"response.created","response":{"object":"response","status":"in_progress","model":"m"}}"#;
    assert_eq!(reason(&stream(OpenAiResponses, &lines(&[created]))), Reason::Cut);
    assert_eq!(reason(&stream(OpenAiChat, b"")), Reason::Cut);
    assert_eq!(reason(&stream(None, b": ping\n\n")), Reason::Cut);
}

#[test]
fn a_chat_stream_may_end_after_its_finish_reason_alone() {
    let end = stream(OpenAiChat, &lines(&[r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#]));
    assert_eq!((reason(&end), end.done), (Reason::Completed, false));
    let done = stream(OpenAiChat, b"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]");
    assert_eq!((reason(&done), done.done), (Reason::Completed, true));
}

#[test]
fn errors_inside_a_stream_are_read_by_their_type() {
    let overloaded = b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n\
        event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let reading = stream(Anthropic, overloaded);
    assert_eq!(reason(&reading), Reason::Overloaded);
    assert_eq!(reading.usage.and_then(|usage| usage.input_tokens), Some(5));
    // Before output the provider's own code proves that nothing ran, also for a call that may change something.
    assert_eq!(reading.reason(StatusCode::OK, Effect::Sensitive), Reason::Overloaded);

    let rate = lines(&[
        r#"{"type":"error","code":"rate_limit_exceeded","message":"Please try again in 1m2.5s.","param":null}"#,
    ]);
    let reading = stream(OpenAiResponses, &rate);
    assert_eq!((reason(&reading), reading.retry_after), (Reason::RateLimited, Some(Duration::from_millis(62_500))));

    let late = lines(&[
        r#"{"choices":[{"index":0,"delta":{"content":"x"}}]}"#,
        r#"{"error":{"code":503,"type":"server_is_overloaded","message":"x"}}"#,
    ]);
    let reading = stream(OpenAiChat, &late);
    assert_eq!(reason(&reading), Reason::Overloaded);
    assert_eq!(reading.reason(StatusCode::OK, Effect::Consequential), Reason::Unproven);

    assert_eq!(reason(&stream(OpenAiChat, b"event: error\ndata: upstream died\n\n")), Reason::ServerError);
    assert_eq!(reason(&stream(None, b"error: {\"message\":\"no\"}\n\n")), Reason::ServerError);
    let policy =
        r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_prompt","message":"x"}}}"#;
    assert_eq!(reason(&stream(OpenAiResponses, &lines(&[policy]))), Reason::ContentFiltered);
}

#[test]
fn each_way_to_stop_has_its_reason() {
    for (stop, want) in [
        ("end_turn", Reason::Completed),
        ("stop_sequence", Reason::Completed),
        ("something_new", Reason::Completed),
        ("max_tokens", Reason::OutputLimit),
        ("model_context_window_exceeded", Reason::ContextOverflow),
        ("refusal", Reason::Refused),
        ("pause_turn", Reason::Paused),
    ] {
        let text = format!(
            r#"{{"type":"message","content":[{{"type":"text","text":"a"}}],"stop_reason":"{stop}","usage":{{"input_tokens":1}}}}"#
        );
        let reading = body(None, text.as_bytes());
        assert_eq!(reason(&reading), want, "{stop}");
        assert_eq!(reading.finish_reason, Some(FinishReason::Word(stop.to_owned())));
    }
    for (details, want) in [
        (r#""status":"incomplete","incomplete_details":{"reason":"content_filter"}"#, Reason::ContentFiltered),
        (r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#, Reason::OutputLimit),
        (r#""status":"queued""#, Reason::Accepted),
        (r#""status":"in_progress","background":true"#, Reason::Accepted),
        (r#""status":"cancelled""#, Reason::Abandoned),
        (r#""status":"failed""#, Reason::ServerError),
        (r#""status":"completed""#, Reason::EmptyAnswer),
    ] {
        let reading = body(None, format!(r#"{{"object":"response","output":[],{details}}}"#).as_bytes());
        assert_eq!(reason(&reading), want, "{details}");
    }
    let number = body(OpenAiChat, br#"{"choices":[{"message":{"content":"x"},"finish_reason":0}]}"#);
    assert_eq!((number.finish_reason.clone(), reason(&number)), (Some(FinishReason::Number(0)), Reason::Completed));
}

#[test]
fn nothing_visible_is_an_empty_answer_whatever_was_thought() {
    let thought =
        r#"{"choices":[{"index":0,"message":{"content":"","reasoning_content":"hm"},"finish_reason":"stop"}]}"#;
    let reading = body(OpenAiChat, thought.as_bytes());
    assert_eq!((reason(&reading), reading.reasoning), (Reason::EmptyAnswer, true));
    let thought = br#"{"type":"message","content":[{"type":"thinking","thinking":"x"}],"stop_reason":"end_turn"}"#;
    assert_eq!(reason(&body(Anthropic, thought)), Reason::EmptyAnswer);
    assert_eq!(reason(&stream(OpenAiChat, b"data: [DONE]\n\n")), Reason::EmptyAnswer);
}

#[test]
fn tool_calls_are_put_together_from_every_dialects_fragments() {
    let f = r#""function":{"name":"f","arguments":"{\"a\""}"#;
    let plain = deltas(&[&format!(r#"{{"index":0,"id":"x",{f}}}"#), r#"{"index":0,"function":{"arguments":":1}"}}"#]);
    assert_eq!(calls(&plain), [(Some("x"), "f", "{\"a\":1}")]);
    // The index stays 0 for every call, and the id tells them apart.
    let same_index = deltas(&[
        r#"{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}"#,
        r#"{"index":0,"id":"y","function":{"name":"f","arguments":"{"}}"#,
        r#"{"index":0,"function":{"arguments":"}"}}"#,
    ]);
    assert_eq!(calls(&same_index), [(Some("x"), "f", "{}"), (Some("y"), "f", "{}")]);
    // No ids at all.
    let no_ids = deltas(&[
        r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
        r#"{"index":0,"function":{"name":"g","arguments":"{}"}}"#,
    ]);
    assert_eq!(calls(&no_ids), [(None, "f", "{}"), (None, "g", "{}")]);
    // Neither index nor id after the first fragment.
    let bare = deltas(&[r#"{"id":"x","function":{"name":"f"}}"#, r#"{"function":{"arguments":"{}"}}"#]);
    assert_eq!(calls(&bare), [(Some("x"), "f", "{}")]);
    // A call said again from its beginning is not said twice.
    let again = deltas(&[
        r#"{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}"#,
        r#"{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}"#,
    ]);
    assert_eq!(calls(&again), [(Some("x"), "f", "{\"a\":1}")]);
    // Arguments as an object instead of a text, and an id that is a number.
    let object = deltas(&[r#"{"index":0,"id":7,"function":{"name":"f","arguments":{"a":1}}}"#]);
    assert_eq!(calls(&object), [(Some("7"), "f", "{\"a\":1}")]);
    let interleaved = deltas(&[
        r#"{"index":1,"id":"b","function":{"name":"g","arguments":""}},{"index":0,"id":"a","function":{"name":"f"}}"#,
        r#"{"index":0,"function":{"arguments":"1"}},{"index":1,"function":{"arguments":"2"}}"#,
    ]);
    assert_eq!(calls(&interleaved), [(Some("b"), "g", "2"), (Some("a"), "f", "1")]);
}

#[test]
fn a_legacy_function_call_and_a_custom_tool_are_calls() {
    let legacy = body(
        OpenAiChat,
        br#"{"choices":[{"message":{"content":null,"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}"#,
    );
    assert_eq!((calls(&legacy), reason(&legacy)), (vec![(None, "f", "{}")], Reason::Completed));
    let custom = lines(&[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call","id":"i","call_id":"c","name":"sh","input":""}}"#,
        r#"{"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"ls "}"#,
        r#"{"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"-l"}"#,
        r#"{"type":"response.custom_tool_call_input.done","output_index":0,"input":"ls -l"}"#,
        r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"custom_tool_call","id":"i","call_id":"c","name":"sh","input":"ls -l"}]}}"#,
    ]);
    let custom = stream(OpenAiResponses, &custom);
    assert_eq!((calls(&custom), reason(&custom)), (vec![(Some("c"), "sh", "ls -l")], Reason::Completed));
}

#[test]
fn anthropic_calls_stream_over_the_input_they_start_with() {
    let start = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
    let piece = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":"{text}"}}}}"#
        )
    };
    let server = r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#;
    let alien = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#;
    let reading = stream(Anthropic, &lines(&[server, alien, start, &piece(""), &piece("{\\\"a\\\""), &piece(":1}")]));
    assert_eq!(calls(&reading), [(Some("t"), "f", "{\"a\":1}")]);
    assert!(reading.provider_tools);
    assert_eq!(calls(&stream(Anthropic, &lines(&[start]))), [(Some("t"), "f", "{}")]);
}

#[test]
fn a_field_of_another_type_is_an_absent_value() {
    let odd = br#"{"model":7,"choices":[{"index":"0","message":{"content":{"a":1},"tool_calls":"none","refusal":false},"finish_reason":null},null,5],
        "usage":{"prompt_tokens":"many","completion_tokens":-3,"total_tokens":12.0,"prompt_tokens_details":[1]},"error":{}}"#;
    let reading = body(OpenAiChat, odd);
    let usage = reading.usage.expect("a total");
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (None, None, Some(12)));
    assert_eq!(
        (reading.model.clone(), reading.visible, reading.error.clone(), reason(&reading)),
        (None, true, None, Reason::Completed)
    );
    let list = body(OpenAiChat, br#"{"choices":{"message":{"content":"x"}},"usage":[]}"#);
    assert_eq!((reason(&list), list.usage), (Reason::Completed, None));
}

#[test]
fn broken_text_is_read_around_and_nonsense_is_unparsable() {
    let surrogate = br#"{"choices":[{"message":{"content":"\ud83d","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\":\"\ud83d\"}"}}]},"finish_reason":"stop"}]}"#;
    assert_eq!(calls(&body(OpenAiChat, surrogate)), [(Some("a"), "f", "{\"x\":\"\u{fffd}\u{fffd}\u{fffd}\"}")]);
    let invalid = b"{\"choices\":[{\"message\":{\"content\":\"\xff\xfe\"},\"finish_reason\":\"length\"}]}";
    assert_eq!(reason(&body(OpenAiChat, invalid)), Reason::OutputLimit);
    let deep =
        format!(r#"{{"choices":[{{"message":{{"content":{}1{}}}}}]}}"#, "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(reason(&body(OpenAiChat, deep.as_bytes())), Reason::Completed);
    for nonsense in ["", "{", "<html>", "null", "[]", "{}", "5", "\"x\"", r#"{"choices":[}"#, "{\0}", r#"{"ok":true}"#]
    {
        for protocol in [None, Some(OpenAiChat), Some(OpenAiResponses), Some(Anthropic)] {
            assert_eq!(reason(&body(protocol, nonsense.as_bytes())), Reason::Unparsable, "{nonsense:?} {protocol:?}");
        }
    }
    let event = stream(OpenAiChat, b"data: {\"choices\":[{]}\n\ndata: [DONE]\n\n");
    assert_eq!(reason(&event), Reason::Unparsable);
}

#[test]
fn usage_is_set_never_added_and_says_what_it_includes() {
    let running = |n: u32| {
        format!(
            r#"{{"choices":[{{"delta":{{"content":"a"}}}}],"usage":{{"prompt_tokens":8,"completion_tokens":{n},"total_tokens":{}}}}}"#,
            8 + n
        )
    };
    let reading = stream(OpenAiChat, &lines(&[&running(1), &running(2), r#"{"choices":[],"usage":null}"#]));
    assert_eq!(reading.usage.and_then(|usage| usage.output_tokens), Some(2));
    let usage = |json: &str| body(OpenAiChat, format!(r#"{{"choices":[],"usage":{json}}}"#).as_bytes()).usage;
    let on_top = usage(
        r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}"#,
    );
    assert_eq!(on_top.and_then(|usage| usage.output_total()), Some(12));
    let inside = usage(
        r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":7}}"#,
    );
    assert_eq!(inside.and_then(|usage| usage.output_total()), Some(5));
    let more_cached = usage(r#"{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":161}}"#);
    assert_eq!(more_cached.and_then(|usage| usage.input_total()), Some(168));
    assert_eq!(usage(r#"{"prompt_tokens":null,"completion_tokens":null}"#), None);
    assert_eq!(usage("{}"), None);
    let huge =
        usage(r#"{"prompt_tokens":18446744073709551615,"completion_tokens":18446744073709551616}"#).expect("some");
    assert_eq!((huge.input_tokens, huge.output_tokens), (Some(u64::MAX), None));
}

#[test]
fn progress_tells_what_came_first() {
    let mut decoder = Decoder::new(None);
    let mut event = |data: &str| decoder.event("", data.as_bytes());
    assert_eq!(event(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#), Progress::Nothing);
    assert_eq!(event(r#"{"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}"#), Progress::Reasoning);
    // Any choice reaches the client.
    assert_eq!(event(r#"{"choices":[{"index":1,"delta":{"content":"x"}}]}"#), Progress::Visible);
    assert_eq!(event(r#"{"choices":[{"index":0,"delta":{"content":"x"}}]}"#), Progress::Nothing);
    assert_eq!(event("[DONE]"), Progress::Done);
    assert_eq!(event(r#"{"error":"late"}"#), Progress::Error);
}

#[test]
fn what_is_too_large_to_be_read_is_not_taken_for_nothing() {
    let mut decoder = Decoder::new(Some(OpenAiResponses));
    assert_eq!(decoder.oversized("response.completed"), Progress::Done);
    let reading = decoder.into_reading();
    assert_eq!((reason(&reading), reading.incomplete, reading.usage), (Reason::Completed, true, None));
}

#[test]
fn a_stream_cut_within_an_event_is_cut_and_not_unparsable() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    for tail in ["data: {\"cho", "data: [DO", "event: x\ndata: {", "data: {\n"] {
        assert_eq!(reason(&stream(OpenAiChat, format!("{text}{tail}").as_bytes())), Reason::Cut, "{tail}");
        let finished = stream(OpenAiChat, format!("{text}{finish}{tail}").as_bytes());
        assert_eq!((reason(&finished), finished.incomplete), (Reason::Completed, true), "{tail}");
    }
    // An event that says all it has to say needs no blank line.
    assert_eq!(reason(&stream(OpenAiChat, format!("{text}{finish}data: [DONE]").as_bytes())), Reason::Completed);
}

#[test]
fn an_oversized_terminal_event_ends_the_answer_only_where_it_came_whole() {
    for (end, expected) in [("\n\n", Reason::Completed), ("", Reason::Cut)] {
        let mut sse = crate::wire::SseSplitter::new().max_event(64);
        let mut decoder = crate::wire::Decoder::new(Some(OpenAiResponses));
        let event = format!("event: response.completed\ndata: {{\"x\":\"{}\"}}{end}", "y".repeat(500));
        let mut see = |event: crate::wire::sse::Event<'_>| _ = decoder.sse(&event);
        sse.push(event.as_bytes(), &mut see);
        sse.finish(&mut see);
        decoder.end();
        assert_eq!(reason(decoder.reading()), expected, "{end:?}");
    }
}

#[test]
fn a_beginning_that_comes_again_is_read_as_if_it_were_read_again() {
    let usage = |n: u32| format!(r#"{{"usage":{{"prompt_tokens":{n}}},"choices":[{{"delta":{{"content":"x"}}}}]}}"#);
    let last = r#"{"choices":[],"usage":{"prompt_tokens":9}}"#;
    let reading = stream(OpenAiChat, &lines(&[&usage(1), &usage(1), last, &usage(1)]));
    assert_eq!(reading.usage.and_then(|usage| usage.input_tokens), Some(1));
    let nested = r#"{"meta":{"choices":1},"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    let reading = stream(OpenAiChat, &lines(&[nested, nested]));
    assert_eq!(
        (reason(&reading), reading.finish_reason.as_ref().and_then(FinishReason::as_str)),
        (Reason::Completed, Some("stop"))
    );
    let text = r#"{"choices":[{"delta":{"content":"x"}}],"model":"m","usage":null}"#;
    let twice = r#"{"choices":[],"choices":[{"delta":{},"finish_reason":"length"}]}"#;
    let reading = stream(OpenAiChat, &lines(&[text, text, text, twice, twice, text]));
    assert_eq!((reason(&reading), reading.model.as_deref()), (Reason::OutputLimit, Some("m")));
    let broken = [r#"{"model":"m","choices":[]}"#, r#"{"model":"m","choices":[}"#];
    assert_eq!(reason(&stream(OpenAiChat, &lines(&broken))), Reason::Unparsable);
}

/// Every protocol, as a body and as a stream: the text alone, once, and only for who asks.
#[test]
fn the_text_of_an_answer_is_kept_for_who_asks_and_nothing_else_of_it() {
    use crate::wire::{
        Protocol::{Cohere, Gemini},
        SseSplitter,
    };
    let bodies = [
        (
            OpenAiChat,
            r#"{"choices":[{"index":0,"message":{"content":"Hi \u00e9","reasoning_content":"no"},"finish_reason":"stop"}]}"#,
        ),
        (
            OpenAiChat,
            r#"{"choices":[{"index":0,"message":{"content":[{"type":"thinking","text":"no"},{"type":"text","text":"Hi é"}]},"finish_reason":"stop"}]}"#,
        ),
        (
            OpenAiResponses,
            r#"{"object":"response","status":"completed","output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"no"}]},{"type":"message","content":[{"type":"output_text","text":"Hi é"}]}]}"#,
        ),
        (
            Anthropic,
            r#"{"type":"message","content":[{"type":"thinking","thinking":"no"},{"type":"text","text":"Hi é"}],"stop_reason":"end_turn"}"#,
        ),
        (
            Gemini,
            r#"{"candidates":[{"content":{"parts":[{"text":"no","thought":true},{"text":"Hi é"}]},"finishReason":"STOP"}]}"#,
        ),
        (
            Cohere,
            r#"{"message":{"tool_plan":"no","content":[{"type":"thinking","thinking":"no"},{"type":"text","text":"Hi é"}]},"finish_reason":"COMPLETE"}"#,
        ),
    ];
    for (protocol, text) in bodies {
        let mut decoder = Decoder::new(Some(protocol)).keep_text();
        decoder.json(text.as_bytes());
        assert_eq!(decoder.reading().text.as_deref(), Some("Hi é"), "{protocol:?}");
        assert_eq!(body(protocol, text.as_bytes()).text, None, "{protocol:?}");
    }
    let streams: [(_, &[&str]); 5] = [
        (
            OpenAiChat,
            &[
                r#"{"choices":[{"index":0,"delta":{"content":"Hi "}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"content":"é"},"finish_reason":"stop"}]}"#,
            ],
        ),
        (
            OpenAiResponses,
            &[
                r#"{"type":"response.output_text.delta","delta":"Hi "}"#,
                r#"{"type":"response.output_text.delta","delta":"é"}"#,
                r#"{"type":"response.output_text.done","text":"Hi é"}"#,
                r#"{"type":"response.completed","response":{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi é"}]}]}}"#,
            ],
        ),
        (
            Anthropic,
            &[
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi "}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"é"}}"#,
            ],
        ),
        (
            Gemini,
            &[
                r#"{"candidates":[{"content":{"parts":[{"text":"Hi "}]}}]}"#,
                r#"{"candidates":[{"content":{"parts":[{"text":"é"}]},"finishReason":"STOP"}]}"#,
            ],
        ),
        (
            Cohere,
            &[
                r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hi "}}}}"#,
                r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"é"}}}}"#,
            ],
        ),
    ];
    for (protocol, data) in streams {
        let (mut decoder, mut sse) = (Decoder::new(Some(protocol)).keep_text(), SseSplitter::new());
        sse.push(&lines(data), |event| {
            decoder.sse(&event);
        });
        assert_eq!(decoder.reading().text.as_deref(), Some("Hi é"), "{protocol:?}");
    }
}
