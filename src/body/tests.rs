use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};

use http::HeaderMap;
use http_body_util::BodyExt;

use super::*;
use crate::reason::Reason;

/// A body of scripted frames; without an end it is pending after the last.
struct Scripted {
    frames: VecDeque<Result<Frame<Bytes>, io::Error>>,
    ends: bool,
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

fn data(text: &'static str) -> Result<Frame<Bytes>, io::Error> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

fn status(code: &'static str) -> Result<Frame<Bytes>, io::Error> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static(code));
    Ok(Frame::trailers(trailers))
}

fn scripted(frames: impl IntoIterator<Item = Result<Frame<Bytes>, io::Error>>, ends: bool) -> Scripted {
    Scripted { frames: frames.into_iter().collect(), ends }
}

type Ends = Arc<Mutex<Vec<String>>>;

fn listener(ends: &Ends, who: &'static str) -> Completion {
    let ends = ends.clone();
    Completion::new(move |end: End<'_>| {
        let text = match end {
            End::Over(verdict) => format!("{who} {}", verdict.reason),
            End::Abandoned { waited } => format!("{who} abandoned after {} s", waited.as_secs()),
        };
        ends.lock().expect("no panic while telling").push(text);
    })
}

fn told(ends: &Ends) -> Vec<String> {
    ends.lock().expect("no panic while telling").clone()
}

#[tokio::test]
async fn every_listener_hears_the_end_once_and_the_outermost_last() {
    let ends = Ends::default();
    let body = WatchedBody::watch(scripted([data("a")], true), &Call::new(), || false, listener(&ends, "inner"));
    let body = WatchedBody::watch(body, &Call::new(), || false, listener(&ends, "outer"));
    let whole = body.collect().await.expect("a clean end").to_bytes();
    assert_eq!(whole, "a");
    assert_eq!(told(&ends), ["inner completed", "outer completed"]);
}

#[tokio::test]
async fn a_broken_body_is_cut_for_its_listeners_and_an_error_for_its_reader() {
    let ends = Ends::default();
    let reset = Err(io::Error::from(io::ErrorKind::Other));
    let body = WatchedBody::watch(scripted([data("a"), reset], true), &Call::new(), || false, listener(&ends, "layer"));
    let error = body.collect().await.expect_err("the body broke");
    assert_eq!(error.failure().map(|failure| failure.reason()), Some(Reason::Cut));
    assert_eq!(told(&ends), ["layer cut"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_body_is_abandoned_and_says_how_long_its_reader_waited() {
    let ends = Ends::default();
    let mut body = WatchedBody::watch(scripted([data("a")], false), &Call::new(), || false, listener(&ends, "layer"));
    body.frame().await.expect("a frame").expect("data");
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
    tokio::time::advance(Duration::from_secs(70)).await;
    assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
    drop(body);
    assert_eq!(told(&ends), ["layer abandoned after 70 s"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_does_not_wait() {
    let ends = Ends::default();
    let body = WatchedBody::watch(scripted([data("a")], false), &Call::new(), || false, listener(&ends, "layer"));
    tokio::time::advance(Duration::from_secs(70)).await;
    drop(body);
    assert_eq!(told(&ends), ["layer abandoned after 0 s"]);
}

#[tokio::test]
async fn the_grpc_status_at_the_end_decides() {
    let ends = Ends::default();
    let frames = [data("m"), status("7")];
    let body = WatchedBody::watch(scripted(frames, true), &Call::new(), || true, listener(&ends, "layer"));
    body.collect().await.expect("a status is an end");
    assert_eq!(told(&ends), ["layer permission_denied"]);
}

#[tokio::test]
async fn a_grpc_body_without_a_status_is_cut() {
    let ends = Ends::default();
    let body = WatchedBody::watch(scripted([data("m")], true), &Call::new(), || true, listener(&ends, "layer"));
    assert!(!body.is_end_stream());
    assert!(body.collect().await.is_err());
    assert_eq!(told(&ends), ["layer cut"]);
}

#[tokio::test]
async fn a_listener_that_comes_late_hears_what_was_decided() {
    let ends = Ends::default();
    let body = WatchedBody::judged(Bytes::from_static(b"{}"), Verdict::new(Reason::OutputLimit));
    let body = WatchedBody::watch(body, &Call::new(), || false, listener(&ends, "layer"));
    assert_eq!(told(&ends), ["layer output_limit"]);
    assert_eq!(body.collect().await.expect("in memory").to_bytes(), "{}");
}

#[test]
fn a_body_in_memory_is_over_at_once_and_stays_readable() {
    let ends = Ends::default();
    let full = http_body_util::Full::new(Bytes::from_static(b"hi"));
    let body = WatchedBody::watch(full, &Call::new(), || false, listener(&ends, "layer"));
    assert_eq!(told(&ends), ["layer completed"]);
    assert_eq!(body.size_hint().exact(), Some(2));
}

#[test]
fn it_is_sync_although_its_source_is_not() {
    fn assert_sync<T: Send + Sync>(_: &T) {}
    let body = http_body_util::combinators::UnsyncBoxBody::<Bytes, Infallible>::default();
    assert_sync(&WatchedBody::new(body));
}
