//! A response body that is watched to its end: [`WatchedBody`].
//!
//! An answer is over at its protocol's terminator, not at its head and not when the reader drops the body. The first
//! layer that must know wraps the body; every further layer only adds a listener, so that a response is read once,
//! however many layers watch it. There are three ends, and they are different: *over* and good, *over* and bad, and
//! *abandoned* by the reader. A stream that breaks off ends in an error for its reader, never in a clean end.
//!
//! ```
//! use http::Response;
//! use http_body_util::BodyExt;
//! use tower_belay::{Auto, Call, Reason, classify::{ClassifyResponse, Completion, End}};
//! # use std::{pin::Pin, task::{Context, Poll}};
//! # struct Cut(Option<&'static [u8]>);
//! # impl http_body::Body for Cut {
//! #     type Data = bytes::Bytes;
//! #     type Error = std::io::Error;
//! #     fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>)
//! #         -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>> {
//! #         Poll::Ready(Some(match self.0.take() {
//! #             Some(piece) => Ok(http_body::Frame::data(bytes::Bytes::from_static(piece))),
//! #             None => Err(std::io::ErrorKind::UnexpectedEof.into()),
//! #         }))
//! #     }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // An answer in memory was over before anybody read it.
//! let whole = Auto.watch(&Call::new(), Response::new("hello".to_owned()), Completion::none());
//! assert_eq!(whole.into_body().collect().await.unwrap().to_bytes(), "hello");
//!
//! // One that breaks off is an error for its reader, and tells whoever listens that it was cut.
//! let (tell, heard) = std::sync::mpsc::channel();
//! let completion = Completion::new(move |end: End<'_>| {
//!     if let End::Over(verdict) = end {
//!         let _ = tell.send(verdict.reason);
//!     }
//! });
//! let cut = Auto.watch(&Call::new(), Response::new(Cut(Some(b"hel"))), completion);
//! assert!(cut.into_body().collect().await.is_err());
//! assert_eq!(heard.recv(), Ok(Reason::Cut));
//! # }
//! ```

mod completion;
pub(crate) mod in_memory;
mod observed;
#[cfg(test)]
mod tests;

use std::{
    any::Any,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::BoxError;

pub use self::completion::{Completion, End, OnEnd};
use self::in_memory::taken;
pub(crate) use self::observed::Observed;
#[cfg(feature = "wire")]
pub(crate) use self::observed::broken;
use crate::{
    call::Call,
    error::{Error, Failure},
    reason::Reason,
    verdict::Verdict,
};

/// A response body that tells how its answer ended.
///
/// It is `Send` and `Sync` whatever it was made of, and it is the body of every HTTP response that comes out of a layer
/// which watches answers to their end.
pub struct WatchedBody {
    // Some bodies are not Sync, and some clients ask for it. Polling goes through `get_mut` and never locks.
    inner: Mutex<Inner>,
}

struct Inner {
    source: Source,
    completion: Completion,
    over: Option<Verdict>,
    /// Since when the reader has been waiting for the next frame.
    waiting: Option<Instant>,
    /// By when the answer must be over.
    due: Option<Instant>,
    /// Asked once about an answer that is over.
    check: Option<Check>,
    /// What the check found; the reader hears of it where the body would have ended.
    fault: Option<Error>,
    /// Set only while a reader waits for an answer that is due.
    clock: Option<Pin<Box<Sleep>>>,
}

/// Looks at an answer that is over: its verdict, revised, or why it cannot be used after all.
pub(crate) type Check = Box<dyn FnOnce(&Verdict) -> Result<Verdict, Failure> + Send>;

enum Source {
    Bytes(Bytes),
    Observed(Pin<Box<dyn Observed>>),
}

impl WatchedBody {
    /// A body without content.
    pub const fn empty() -> Self {
        Self::made_of(Source::Bytes(Bytes::new()), None)
    }

    /// Any body, unwatched until a layer adds a listener.
    pub fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::watch(body, &Call::new(), || false, Completion::none())
    }

    /// Watches `body` for `completion`; `grpc` tells whether its trailers must carry a status.
    pub(crate) fn watch<B>(body: B, call: &Call, grpc: impl FnOnce() -> bool, completion: Completion) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut body = match taken(body) {
            Ok(bytes) => {
                completion.over(&Verdict::completed());
                return Self::from(bytes);
            }
            Err(body) => Some(body),
        };
        if let Some(watched) = (&mut body as &mut dyn Any).downcast_mut::<Option<Self>>().and_then(Option::take) {
            return watched.listen(completion);
        }
        match body {
            Some(body) => Self::observe(Box::pin(observed::Observing::new(body, call, grpc()))).listen(completion),
            None => Self::empty(),
        }
    }

    /// A body that judges itself.
    pub(crate) const fn observe(body: Pin<Box<dyn Observed>>) -> Self {
        Self::made_of(Source::Observed(body), None)
    }

    /// A body of which only the rest is still to come: its answer was judged already.
    #[cfg(feature = "wire")]
    pub(crate) const fn judged_before_its_end(body: Pin<Box<dyn Observed>>, verdict: Verdict) -> Self {
        Self::made_of(Source::Observed(body), Some(verdict))
    }

    /// A body in memory whose answer was judged already.
    #[cfg(any(test, feature = "wire"))]
    pub(crate) const fn judged(bytes: Bytes, verdict: Verdict) -> Self {
        Self::made_of(Source::Bytes(bytes), Some(verdict))
    }

    const fn made_of(source: Source, over: Option<Verdict>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                source,
                completion: Completion::none(),
                over,
                waiting: None,
                due: None,
                check: None,
                fault: None,
                clock: None,
            }),
        }
    }

    /// The verdict on the answer, once it is over.
    pub fn verdict(&self) -> Option<Verdict> {
        self.lock().over.clone()
    }

    /// A copy of a body that lies in memory as a whole and is not longer than this.
    pub(crate) fn copied(&self, max_bytes: u64) -> Option<Self> {
        let inner = self.lock();
        match &inner.source {
            Source::Bytes(bytes) if bytes.len() as u64 <= max_bytes => {
                Some(Self::made_of(Source::Bytes(bytes.clone()), inner.over.clone()))
            }
            _ => None,
        }
    }

    /// Replaces the verdict on an answer that is over.
    #[cfg(feature = "wire")]
    pub(crate) fn revised(mut self, verdict: Verdict) -> Self {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).over = Some(verdict);
        self
    }

    /// Has `check` look at the answer when it is over, before anybody is told. It is over now for nobody yet.
    #[cfg(feature = "wire")]
    pub(crate) fn checked(mut self, check: Check) -> Self {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.check = Some(match inner.check.take() {
            // The one further in was there first.
            Some(first) => Box::new(move |verdict| first(verdict).and_then(|verdict| check(&verdict))),
            None => check,
        });
        self
    }

    fn listen(mut self, completion: Completion) -> Self {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        match (&inner.over, &inner.source) {
            (Some(verdict), _) => completion.over(verdict),
            (None, Source::Bytes(_)) => completion.over(&Verdict::completed()),
            (None, Source::Observed(_)) => {
                inner.due = inner.due.into_iter().chain(completion.due()).min();
                inner.completion.and(completion);
            }
        }
        self
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let body = match &mut self.source {
            Source::Bytes(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Source::Bytes(bytes) => return Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
            Source::Observed(body) => body,
        };
        let was_over = self.over.is_some();
        let mut polled = body.as_mut().poll_frame(cx, &mut self.over);
        if let (Poll::Pending, Some(due)) = (&polled, self.due) {
            let clock = self.clock.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if clock.as_mut().poll(cx).is_ready() {
                let verdict = Verdict::new(Reason::Timeout);
                polled = Poll::Ready(Some(Err(Failure::new(verdict.clone()).into())));
                self.over.get_or_insert(verdict);
            }
        }
        match (&polled, self.waiting) {
            (Poll::Pending, None) => self.waiting = Some(Instant::now()),
            (Poll::Pending, Some(_)) => {}
            (Poll::Ready(_), _) => self.waiting = None,
        }
        if !was_over && self.over.is_some() {
            self.look();
            if let Some(verdict) = &self.over {
                self.completion.tell(End::Over(verdict));
            }
        }
        if matches!(polled, Poll::Ready(None))
            && let Some(fault) = self.fault.take()
        {
            polled = Poll::Ready(Some(Err(fault)));
        }
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.source = Source::Bytes(Bytes::new());
            self.clock = None;
        }
        polled
    }

    fn look(&mut self) {
        let Some(check) = self.check.take() else { return };
        match self.over.as_ref().map(check) {
            Some(Ok(verdict)) => self.over = Some(verdict),
            Some(Err(failure)) => {
                self.over = Some(failure.verdict.clone());
                self.fault = Some(failure.into());
            }
            None => {}
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.completion.is_none() {
            return;
        }
        let stands = match &self.source {
            Source::Observed(body) => body.provisional(),
            Source::Bytes(_) => None,
        };
        match stands {
            Some(verdict) => self.completion.tell(End::Over(&verdict)),
            None => {
                let waited = self.waiting.map(|since| Instant::now().saturating_duration_since(since));
                self.completion.tell(End::Abandoned { waited: waited.unwrap_or_default() });
            }
        }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        let inner = self.lock();
        match &inner.source {
            Source::Bytes(bytes) => bytes.is_empty(),
            // The reader must ask once more, to hear of what a check finds.
            Source::Observed(body) => inner.check.is_none() && inner.fault.is_none() && body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.lock().source {
            Source::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Observed(body) => body.size_hint(),
        }
    }
}

impl From<Bytes> for WatchedBody {
    fn from(bytes: Bytes) -> Self {
        Self::made_of(Source::Bytes(bytes), None)
    }
}

impl From<String> for WatchedBody {
    fn from(text: String) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl Default for WatchedBody {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for WatchedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedBody").field("over", &self.lock().over.as_ref().map(|over| over.reason)).finish()
    }
}
