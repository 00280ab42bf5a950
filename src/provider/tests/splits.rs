//! However the bytes arrive, the client gets the same ones and the layers the same verdict.

use proptest::prelude::*;

use super::*;

/// Everything that comes of a body in these pieces.
#[derive(Debug, PartialEq)]
struct Came {
    bytes: Bytes,
    verdict: Option<Reason>,
    usage: Option<u64>,
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(future)
}

fn cut(stream: &[u8], cuts: &[usize]) -> BodyScript {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let pieces = cuts.windows(2).map(|pair| Bytes::copy_from_slice(&stream[pair[0]..pair[1]]));
    pieces.fold(BodyScript::new(), BodyScript::data)
}

fn through(config: &ProviderConfig, request: Request<String>, code: u16, body: BodyScript) -> Option<Came> {
    block_on(async {
        let response = match send(config.clone(), request, answer(code, "text/event-stream", body)).await {
            Ok(response) => response,
            Err(error) => {
                assert!(matches!(reason(&error), Some(Reason::Cut | Reason::Timeout)), "{error:?}");
                return None;
            }
        };
        let told = Told::default();
        let response = told.listen(response);
        let answer = response.extensions().get::<Answer>().expect("always there").clone();
        let (bytes, _) = read(response.into_body()).await;
        let told = told.take();
        assert_eq!(told.len(), 1, "{told:?}");
        let usage = answer.reading().and_then(|reading| reading.usage).and_then(|usage| usage.output_tokens);
        Some(Came { bytes, verdict: Reason::from_code(&told[0]), usage })
    })
}

fn streams() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let piece = prop::sample::select(vec![ROLE, TEXT, TEXT, THINK, FINISH, USAGE, USAGE, ERROR, PING, DONE]);
    let line_end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
    (prop::collection::vec(piece, 1..9), line_end, any::<bool>()).prop_map(|(mut pieces, line_end, done)| {
        if done {
            pieces.extend([FINISH, USAGE, DONE]);
        }
        let ended = |pieces: Vec<&str>| pieces.concat().replace('\n', line_end).into_bytes();
        let shown = pieces.iter().copied().filter(|piece| *piece != USAGE).collect();
        (ended(pieces), ended(shown))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_split_is_the_same_answer((stream, shown) in streams(), cuts in prop::collection::vec(any::<usize>(), 0..24)) {
        let every: Vec<usize> = (0..stream.len()).collect();
        for whole in [false, true] {
            let config = if whole { config().delivery(Delivery::Whole) } else { config() };
            let as_one = through(&config, chat(), 200, cut(&stream, &[]));
            for cuts in [&cuts, &every] {
                let came = through(&config, chat(), 200, cut(&stream, cuts));
                match (&as_one, &came) {
                    (Some(as_one), Some(came)) => prop_assert_eq!(as_one, came),
                    // A cut is an error of the call where nothing was handed on.
                    (Some(cut), None) | (None, Some(cut)) => prop_assert_eq!(cut.verdict, Some(Reason::Cut)),
                    (None, None) => {}
                }
                if let Some(came) = came {
                    prop_assert_eq!(&came.bytes[..], &stream[..]);
                }
                let hiding = config.clone().include_usage(IncludeUsage::Always);
                if let Some(came) = through(&hiding, chat(), 200, cut(&stream, cuts)) {
                    prop_assert_eq!(String::from_utf8_lossy(&came.bytes), String::from_utf8_lossy(&shown));
                }
            }
        }
    }

    #[test]
    fn any_bytes_reach_the_caller_unchanged(
        pieces in prop::collection::vec(hostile(), 0..12),
        cuts in prop::collection::vec(any::<usize>(), 0..24),
        code in prop::sample::select(vec![200_u16, 201, 204, 400, 429, 500]),
        path in prop::sample::select(vec!["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/models"]),
        bound in prop::sample::select(vec![0_usize, 1, 7, 100, 1 << 20]),
        whole in any::<bool>(),
        include in prop::sample::select(vec![IncludeUsage::Never, IncludeUsage::Always]),
    ) {
        let stream = pieces.concat();
        let delivery = if whole { Delivery::Whole } else { Delivery::Live };
        let config = config().max_held(bound).max_body(bound.max(1)).max_error(bound.max(1)).delivery(delivery);
        let request = post(&format!("http://127.0.0.1{path}"));
        let config = config.include_usage(include);
        if let Some(came) = through(&config, request, code, cut(&stream, &cuts)) {
            if include == IncludeUsage::Never {
                prop_assert_eq!(&came.bytes[..], &stream[..]);
            } else {
                prop_assert!(came.bytes.len() <= stream.len());
            }
        }
    }
}

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let text = |text: &'static str| Just(text.as_bytes().to_vec());
    prop_oneof![
        4 => prop::sample::select(vec![ROLE, TEXT, FINISH, USAGE, ERROR, PING, DONE, WHOLE])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => text("\u{feff}"), 1 => text("\0\0"), 1 => text("data: "), 1 => text("\r"), 1 => text("\n\n"),
        1 => text("data: \u{feff}{}\n\n"), 1 => text("event: error\ndata: 1\n\n"), 1 => text("[{\"a\":"),
        1 => Just(b"[".repeat(10_000)), 1 => Just(b"data: {\"error\":".repeat(300)),
        2 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}
