use proptest::prelude::*;

use crate::wire::{Decoder, Protocol, Reading, SseSplitter, sse::Event};

#[derive(Debug, Clone, PartialEq)]
struct Seen {
    name: String,
    data: Vec<u8>,
    oversized: bool,
    start: u64,
    end: u64,
}

fn split(stream: &[u8], cuts: &[usize], max: usize) -> Vec<Seen> {
    let mut sse = SseSplitter::new().max_event(max);
    let mut seen = Vec::new();
    let mut see = |event: Event<'_>| {
        let Event { name, data, start, end, oversized, .. } = event;
        seen.push(Seen { name: name.to_owned(), data: data.to_vec(), oversized, start, end });
    };
    let mut from = 0;
    for cut in cuts.iter().map(|cut| *cut.min(&stream.len())).chain([stream.len()]) {
        if cut > from {
            sse.push(&stream[from..cut], &mut see);
            from = cut;
        }
    }
    sse.finish(&mut see);
    seen
}

fn events(stream: &[u8]) -> Vec<(String, String)> {
    split(stream, &[], 1 << 20)
        .into_iter()
        .map(|seen| (seen.name, String::from_utf8_lossy(&seen.data).into_owned()))
        .collect()
}

fn pair(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn every_line_end_ends_a_line() {
    for end in ["\n", "\r", "\r\n"] {
        let stream =
            ["event: a", "data: 1", "data:2", "", ": comment", "data", "", "id: 7", "", "data:  x", ""].join(end);
        assert_eq!(events(stream.as_bytes()), [pair("a", "1\n2"), pair("", ""), pair("", " x")], "{end:?}");
    }
}

#[test]
fn a_byte_order_mark_is_dropped_at_the_start_only() {
    assert_eq!(events(b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n"), [pair("", "1")]);
}

#[test]
fn an_error_field_is_an_error_event() {
    assert_eq!(
        events(b"data: 1\n\nerror: {\"message\":\"x\"}\n\n"),
        [pair("", "1"), pair("error", "{\"message\":\"x\"}")]
    );
}

#[test]
fn the_last_event_needs_no_blank_line() {
    assert_eq!(events(b"data: 1\n\ndata: [DONE]"), [pair("", "1"), pair("", "[DONE]")]);
    assert_eq!(events(b"data: 1\n\ndata: [DONE]\n"), [pair("", "1"), pair("", "[DONE]")]);
    assert_eq!(events(b""), []);
}

#[test]
fn a_name_belongs_to_one_event_only() {
    assert_eq!(
        events(b"event: a\n\ndata: 1\n\nevent: b\ndata: 2\n\ndata: 3\n\n"),
        [pair("", "1"), pair("b", "2"), pair("", "3")]
    );
}

#[test]
fn an_oversized_event_is_reported_and_skipped_to_its_end() {
    let mut stream = b"event: big\ndata: ".to_vec();
    stream.extend(std::iter::repeat_n(b'x', 10_000));
    stream.extend(b"\ndata: more\n\n: ");
    stream.extend(std::iter::repeat_n(b'c', 10_000));
    stream.extend(b"\ndata: small\n\n");
    for cuts in [vec![], (0..stream.len()).step_by(7).collect::<Vec<_>>()] {
        let seen = split(&stream, &cuts, 1_000);
        let short: Vec<_> =
            seen.iter().map(|seen| (seen.name.as_str(), seen.data.as_slice(), seen.oversized)).collect();
        assert_eq!(short, [("big", &b""[..], true), ("", b"small", false)]);
    }
}

#[test]
fn ranges_of_events_tile_the_stream() {
    let stream = b": hello\n\ndata: 1\r\n\r\nevent: x\ndata: 2\n\ndata: 3";
    let seen = split(stream, &[], 1_000);
    let ranges: Vec<_> = seen.iter().map(|seen| &stream[seen.start as usize..seen.end as usize]).collect();
    assert_eq!(ranges, [&b"data: 1\r\n\r\n"[..], b"event: x\ndata: 2\n\n", b"data: 3"]);
}

#[test]
fn memory_stays_bounded_without_any_line_end() {
    let mut sse = SseSplitter::new().max_event(1_000);
    for _ in 0..10_000 {
        sse.push(&[b'd'; 100], |_| unreachable!("no event"));
        sse.push(b"data: data: data: ", |_| unreachable!("no event"));
    }
    assert!(format!("{sse:?}").len() < 10_000);
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let fixed = |text: &'static str| Just(text.as_bytes().to_vec());
    prop_oneof![
        8 => prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n"]).prop_map(|s| s.as_bytes().to_vec()),
        2 => fixed("data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\u{e9}\u{1F600}\"}}]}\n\n"),
        2 => fixed("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\"}}]}}]}\r\n\r\n"),
        2 => fixed("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\":1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\r\r"),
        2 => fixed("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n"),
        1 => fixed("event: error\ndata: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\n"),
        1 => fixed("data: [DONE]\n\n"),
        1 => fixed("error: {\"message\":\"try again in 3s\"}\n"),
        1 => fixed("data:"), 1 => fixed("data"), 1 => fixed(": ping"), 1 => fixed("event: x"), 1 => fixed("\u{feff}"),
        1 => prop::collection::vec(any::<u8>(), 0..12),
        1 => (0_usize..120).prop_map(|n| [&b"data: "[..], &vec![b'y'; n]].concat()),
    ]
}

/// Reads every chunk in full, however alike they are.
fn read_anew(stream: &[u8]) -> Reading {
    let mut decoder = Decoder::new(Some(Protocol::OpenAiChat));
    for seen in split(stream, &[], 1 << 20) {
        decoder.opening.clear();
        decoder.closing.clear();
        decoder.event(&seen.name, &seen.data);
    }
    decoder.end();
    decoder.into_reading()
}

fn chunk() -> impl Strategy<Value = String> {
    let field = prop::sample::select(vec![
        r#""model":"m""#,
        r#""model":"""#,
        r#""id":"a\"b""#,
        r#""usage":null"#,
        r#""usage":{"prompt_tokens":1}"#,
        r#""usage":{"prompt_tokens":2}"#,
        r#""error":{"code":"x"}"#,
        r#""object":"error""#,
        r#""choices":null"#,
        r#""choices":[]"#,
        r#""choices":[{"delta":{"content":"x"}}]"#,
        r#""choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3}}]"#,
        r#""meta":{"choices":[]}"#,
        r#""choices":["#,
    ]);
    prop::collection::vec(field, 0..5).prop_map(|fields| format!("data: {{{}}}\n\n", fields.join(",")))
}

fn read(stream: &[u8], cuts: &[usize]) -> Reading {
    let mut decoder = Decoder::new(Some(Protocol::OpenAiChat));
    for seen in split(stream, cuts, 1 << 20) {
        decoder.event(&seen.name, &seen.data);
    }
    decoder.end();
    decoder.into_reading()
}

proptest! {
    #[test]
    fn any_split_of_any_stream_is_read_the_same(
        pieces in prop::collection::vec(piece(), 0..24),
        mut cuts in prop::collection::vec(0_usize..1_500, 0..40),
        max in prop_oneof![Just(24_usize), Just(90), Just(100_000)],
    ) {
        let stream = pieces.concat();
        cuts.sort_unstable();
        let bare = |mut seen: Vec<Seen>| {
            // The LF of a split CRLF is a blank line of its own.
            seen.iter_mut().for_each(|seen| (seen.start, seen.end) = (0, 0));
            seen
        };
        let whole = bare(split(&stream, &[], max));
        let bytes: Vec<usize> = (0..stream.len()).collect();
        prop_assert_eq!(&whole, &bare(split(&stream, &cuts, max)));
        prop_assert_eq!(&whole, &bare(split(&stream, &bytes, max)));
        prop_assert_eq!(read(&stream, &[]), read(&stream, &cuts));
    }

    #[test]
    fn chunks_that_are_alike_are_read_as_if_each_were_the_first(
        chunks in prop::collection::vec(chunk(), 1..4),
        order in prop::collection::vec(0_usize..4, 0..12),
    ) {
        let stream: String = order.iter().map(|at| chunks[at % chunks.len()].as_str()).collect();
        prop_assert_eq!(read_anew(stream.as_bytes()), read(stream.as_bytes(), &[]));
    }

    #[test]
    fn ranges_never_overlap(pieces in prop::collection::vec(piece(), 0..24), mut cuts in prop::collection::vec(0_usize..1_500, 0..40)) {
        let stream = pieces.concat();
        cuts.sort_unstable();
        let mut from = 0;
        for seen in split(&stream, &cuts, 1_000) {
            prop_assert!(from <= seen.start && seen.start < seen.end && seen.end <= stream.len() as u64);
            from = seen.end;
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), name in "[a-z_.]{0,12}") {
        for protocol in [None, Some(Protocol::OpenAiChat), Some(Protocol::OpenAiResponses), Some(Protocol::Anthropic)] {
            let mut decoder = Decoder::new(protocol);
            decoder.event(&name, &bytes);
            decoder.json(&bytes);
            decoder.error_body(&bytes);
        }
    }
}
