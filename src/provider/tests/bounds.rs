//! What is too large, or too small, and how much is kept of it.

use super::*;

/// A body of `count` frames that look like `piece`, and how many of them were asked for.
struct Endless {
    piece: &'static [u8],
    left: usize,
    polled: Arc<Mutex<usize>>,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        *self.polled.lock().expect("no panic") += 1;
        std::task::Poll::Ready(self.left.checked_sub(1).map(|left| {
            self.left = left;
            Ok(http_body::Frame::data(Bytes::from_static(self.piece)))
        }))
    }
}

async fn endless(
    config: ProviderConfig,
    code: u16,
    piece: &'static [u8],
    frames: usize,
) -> (Response<WatchedBody>, usize) {
    let polled = Arc::new(Mutex::new(0));
    let body = Endless { piece, left: frames, polled: polled.clone() };
    let response = Response::builder().status(code).body(body).expect("a response");
    let client = Scripted::new([Step::answer(response)]);
    let response = ProviderLayer::new(config).layer(client).oneshot(chat()).await.expect("an answer");
    let polled = *polled.lock().expect("no panic");
    (response, polled)
}

#[tokio::test]
async fn what_is_too_large_is_judged_by_its_status_and_handed_on_whole() {
    let small = config().max_body(1_000).max_error(1_000);
    for (code, piece, expected) in [
        (200, &b"{\"a\":\"aaaaaaaaaaa"[..], Reason::Completed),
        (200, b"      \n", Reason::Completed),
        (200, b"no json at all", Reason::Completed),
        (200, b"x", Reason::Completed),
        (429, b"{\"error\":", Reason::RateLimited),
        (500, b" ", Reason::ServerError),
    ] {
        let (response, polled) = endless(small.clone(), code, piece, 5_000).await;
        assert_eq!(known(&response), Some(expected), "{piece:?}");
        assert!(polled <= 1_001, "{polled} frames were read");
        let (bytes, end) = read(response.into_body()).await;
        assert!(end.is_ok() && bytes == piece.repeat(5_000), "{piece:?}");
    }
}

#[tokio::test]
async fn a_stream_is_held_up_to_its_bound() {
    let (response, polled) = endless(config().max_held(1_000), 200, PING.as_bytes(), 5_000).await;
    assert!((100..=126).contains(&polled), "{polled}");
    assert_eq!(known(&response), None);
    assert!(read(response.into_body()).await.1.is_err(), "pings are no answer");

    let (response, polled) = endless(config().max_held(0), 200, ROLE.as_bytes(), 10).await;
    assert_eq!((known(&response), polled), (None, 1));
    assert_eq!(read(response.into_body()).await.0, ROLE.repeat(10));
}

#[tokio::test(start_paused = true)]
async fn a_collected_stream_that_is_too_large_becomes_live() {
    let config = config().delivery(Delivery::Whole).max_body(4 * TEXT.len());
    let response = send(config, chat(), sse(pieces(&[TEXT; 6]))).await.expect("live");
    assert_eq!(known(&response), None);
    let (bytes, end) = read(response.into_body()).await;
    assert_eq!(bytes, TEXT.repeat(6));
    assert_eq!(reason(&end.expect_err("cut")), Some(Reason::Cut));
}

#[tokio::test]
async fn frames_without_content_cost_nothing_and_hang_nothing() {
    let (response, _) = endless(config(), 500, b"", 100_000).await;
    assert_eq!(known(&response), Some(Reason::ServerError));
    // Also where they never end: other tasks have their turn.
    let never = endless(config(), 200, b"", usize::MAX);
    assert!(tokio::time::timeout(Duration::from_millis(50), never).await.is_err());
}

#[tokio::test]
async fn an_event_of_ten_megabytes_passes() {
    let big: &'static str = format!("data: {{\"x\":\"{}\"}}\n\n", "y".repeat(10 << 20)).leak();
    let response = ask(sse(pieces(&[ROLE, big, FINISH, DONE]))).await.expect("live");
    let told = Told::default();
    let (bytes, end) = read(told.listen(response).into_body()).await;
    assert!(end.is_ok() && bytes.len() == [ROLE, big, FINISH, DONE].concat().len());
    assert_eq!(told.take(), ["completed"]);
}
