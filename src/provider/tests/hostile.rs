//! Futures that are dropped, polled too often, or woken by somebody else.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Wake, Waker},
};

use super::*;

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn provider(
    body: BodyScript,
) -> impl tower_service::Service<
    Request<String>,
    Response = Response<WatchedBody>,
    Error = Error,
    Future = impl Future<Output = Result<Response<WatchedBody>, Error>>,
> {
    ProviderLayer::new(config()).layer(Scripted::new([Step::answer(sse(body))]))
}

#[tokio::test(start_paused = true)]
async fn whoever_polled_last_is_woken_by_whatever_is_due_next() {
    use tower_service::Service;
    let mut provider = provider(pieces(&[ROLE]).pause(SECOND / 2).data(TEXT).stall());
    let mut call = pin!(provider.call(chat()));
    let (first, last) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
    for counted in [&first, &last] {
        let waker = Waker::from(counted.clone());
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    tokio::time::sleep(SECOND * 6 / 10).await;
    assert_eq!(first.0.load(Ordering::SeqCst), 0);
    assert_eq!(last.0.load(Ordering::SeqCst), 1);
    let mut response = call.await.expect("live");
    assert_eq!(frame(&mut response).await, [ROLE, TEXT].concat());

    // Live, the clock was set for the release of the head: now it must run for the silence.
    let counted = Arc::new(Counted::default());
    let waker = Waker::from(counted.clone());
    let mut body = pin!(response.into_body());
    let mut cx = Context::from_waker(&waker);
    assert!(http_body::Body::poll_frame(body.as_mut(), &mut cx).is_pending());
    tokio::time::sleep(SECOND * 121).await;
    assert_eq!(counted.0.load(Ordering::SeqCst), 1);
    assert!(matches!(http_body::Body::poll_frame(body.as_mut(), &mut cx), Poll::Ready(Some(Err(_)))));
    assert!(matches!(http_body::Body::poll_frame(body.as_mut(), &mut cx), Poll::Ready(None)));
}

#[tokio::test(start_paused = true)]
async fn dropping_at_any_point_tells_once_and_panics_nowhere() {
    use tower_service::Service;
    let script = || {
        let body = pieces(&[PING, ROLE]).pause(SECOND / 3).data(TEXT).pause(SECOND / 3).data(FINISH);
        body.pause(SECOND / 3).data(DONE).pause(SECOND / 3)
    };
    for tenths in 0..16 {
        let told = Told::default();
        let mut provider = provider(script());
        let call = provider.call(chat());
        let all = async {
            let response = told.listen(call.await.expect("live"));
            read(response.into_body()).await
        };
        let left = tokio::time::timeout(SECOND * tenths / 10, all).await.is_err();
        let told = told.take();
        assert!(told.len() <= 1);
        match tenths {
            0..=3 => assert_eq!((left, told.len()), (true, 0), "not handed on yet"),
            4..=6 => assert_eq!(told, ["abandoned by the reader"]),
            7..=13 => assert_eq!(told, ["completed"]),
            _ => assert!(!left),
        }
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "polled after it was ready")]
async fn a_call_polled_after_its_answer_panics_in_words() {
    use tower_service::Service;
    let mut provider = provider(pieces(&[TEXT]));
    let mut call = pin!(provider.call(chat()));
    assert!(call.as_mut().await.is_ok());
    let _ = call.await;
}

#[tokio::test(start_paused = true)]
async fn a_body_polled_after_its_end_stays_ended() {
    let mut body = pin!(ask(json(WHOLE)).await.expect("an answer").into_body());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(http_body::Body::poll_frame(body.as_mut(), &mut cx), Poll::Ready(Some(Ok(_)))));
    for _ in 0..3 {
        assert!(matches!(http_body::Body::poll_frame(body.as_mut(), &mut cx), Poll::Ready(None)));
        assert!(http_body::Body::is_end_stream(&*body));
    }
}

#[tokio::test(start_paused = true)]
async fn headers_that_lie_are_not_believed() {
    for (name, value) in [
        ("content-length", "3"),
        ("content-length", "99999999999999"),
        ("retry-after", "99999999999999999999"),
        ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ("retry-after", "-5"),
        ("x-ratelimit-remaining-tokens", "NaN"),
        ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ] {
        for (code, body, expected) in [(200, WHOLE, Reason::Completed), (429, "{}", Reason::RateLimited)] {
            let mut response = answer(code, "application/json", BodyScript::new().data(body));
            response.headers_mut().insert(name, value.parse().expect("a header value"));
            let response = ask(response).await.expect("an answer");
            assert_eq!(known(&response), Some(expected), "{name}: {value}");
            assert_eq!(read(response.into_body()).await.0, body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_made_to_hurt_do_no_harm() {
    let deep: &'static str = format!("{}{}", "{\"choices\":[".repeat(10_000), "]}".repeat(10_000)).leak();
    let wide: &'static str = format!("{{\"choices\":[{}1]}}", "{},".repeat(50_000)).leak();
    for body in ["\u{feff}", "\0", "\u{feff}{}", deep, wide, "{\"choices\":", "\"", "[", "data:"] {
        for code in [200, 500] {
            let response = match ask(answer(code, "", BodyScript::new().data(body))).await {
                Ok(response) => response,
                Err(error) => {
                    assert_eq!((reason(&error), body), (Some(Reason::Cut), "data:"));
                    continue;
                }
            };
            assert!(known(&response).is_some_and(|reason| !reason.is_success()));
            assert_eq!(read(response.into_body()).await.0, body);
        }
    }
}

#[test]
fn what_waits_for_an_answer_is_small() {
    let future = size_of::<ResponseFuture<std::future::Ready<()>, BodyScript>>();
    let reader = size_of::<reader::Reader<BodyScript>>() - size_of::<BodyScript>();
    println!("the future {future} bytes over its inner, the reader {reader} over its body");
    assert!(future <= 512 && reader <= 1_280, "{future} {reader}");
}
