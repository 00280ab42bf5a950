//! A body that follows a script: [`BodyScript`].

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use tokio::time::{Sleep, sleep};
use tower::BoxError;

/// A body that comes as its script says: frames, waits, and its end. Without another end it ends cleanly.
///
/// ```
/// # use std::time::Duration;
/// # use http_body_util::BodyExt;
/// # use tower_belay::testing::BodyScript;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut stream = BodyScript::new().data("data: 1\n\n").pause(Duration::from_secs(3)).fail("reset by the peer");
/// assert!(stream.frame().await.unwrap().is_ok());
/// assert_eq!(stream.frame().await.unwrap().unwrap_err().to_string(), "reset by the peer");
/// assert!(stream.frame().await.is_none());
/// # }
/// ```
#[derive(Default)]
pub struct BodyScript {
    events: VecDeque<Event>,
    sleep: Option<Pin<Box<Sleep>>>,
}

enum Event {
    Frame(Frame<Bytes>),
    Pause(Duration),
    Fail(BoxError),
    Stall,
}

impl BodyScript {
    /// A body without content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Then come these bytes, in one frame.
    #[must_use]
    pub fn data(self, bytes: impl Into<Bytes>) -> Self {
        self.then(Event::Frame(Frame::data(bytes.into())))
    }

    /// Then come these trailers.
    #[must_use]
    pub fn trailers(self, trailers: HeaderMap) -> Self {
        self.then(Event::Frame(Frame::trailers(trailers)))
    }

    /// Then nothing comes for this long.
    #[must_use]
    pub fn pause(self, pause: Duration) -> Self {
        self.then(Event::Pause(pause))
    }

    /// Then it breaks.
    #[must_use]
    pub fn fail(self, error: impl Into<BoxError>) -> Self {
        self.then(Event::Fail(error.into()))
    }

    /// Then nothing comes any more, not even the end.
    #[must_use]
    pub fn stall(self) -> Self {
        self.then(Event::Stall)
    }

    fn then(mut self, event: Event) -> Self {
        self.events.push_back(event);
        self
    }
}

impl Body for BodyScript {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            match self.events.pop_front() {
                Some(Event::Frame(frame)) => return Poll::Ready(Some(Ok(frame))),
                Some(Event::Fail(error)) => return Poll::Ready(Some(Err(error))),
                Some(Event::Pause(pause)) => self.sleep = Some(Box::pin(sleep(pause))),
                Some(Event::Stall) => {
                    self.events.push_front(Event::Stall);
                    return Poll::Pending;
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for BodyScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyScript").field("events", &self.events.len()).finish()
    }
}
