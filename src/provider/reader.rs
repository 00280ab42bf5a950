//! The body of an answer under way, and the clocks on it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::BoxError;

use super::{
    intake::{Head, Intake},
    meter::Answer,
};
use crate::{
    body::Observed,
    error::{Error, Failure},
    reason::Reason,
    verdict::Verdict,
};

pin_project! {
    pub(super) struct Reader<B> {
        #[pin]
        body: B,
        intake: Intake,
        #[pin]
        clock: Clock,
        idle: Option<Duration>,
        max_hold: Duration,
        // When the head must be handed on.
        release: Option<Instant>,
        // The piece that ended the body, and the error behind it.
        end: End,
    }
}

/// How far the body has come.
enum End {
    Not,
    Fault(Error),
    Over,
}

impl<B> Reader<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(
        body: B,
        intake: Intake,
        first_byte: Option<Instant>,
        limits: (Option<Duration>, Duration),
    ) -> Self {
        let (idle, max_hold) = limits;
        Self { body, intake, clock: Clock::due(first_byte), idle, max_hold, release: None, end: End::Not }
    }

    pub(super) fn answer(&self) -> Answer {
        self.intake.meter().answer()
    }

    /// Reads until it is known what the answer is, or that it is under way.
    pub(super) fn poll_head(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Head, Error>> {
        if let Some(head) = self.intake.begin() {
            return Poll::Ready(Ok(head));
        }
        loop {
            let polled = self.as_mut().poll_chunk(cx);
            let mut this = self.as_mut().project();
            let head = match polled {
                Poll::Ready(Some(Ok(chunk))) => match this.intake.take(chunk) {
                    Some(head) => Ok(head),
                    None => continue,
                },
                Poll::Ready(Some(Err(error))) => this.intake.break_off_head(error),
                Poll::Ready(None) => this.intake.end_of_head(),
                Poll::Pending if !this.intake.is_pressing() => return Poll::Pending,
                Poll::Pending => {
                    let at = *this.release.get_or_insert_with(|| later(*this.max_hold));
                    this.clock.as_mut().no_later_than(at);
                    ready!(this.clock.as_mut().poll(cx));
                    *this.release = None;
                    Ok(this.intake.release())
                }
            };
            return Poll::Ready(head);
        }
    }

    /// The next piece of the body; a silence that is too long is an error.
    fn poll_chunk(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let mut this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            this.clock.as_mut().stop();
            return Poll::Ready(match frame {
                // Trailers of these protocols say nothing; they end the body.
                Some(Ok(frame)) => frame.into_data().ok().map(Ok),
                Some(Err(error)) => Some(Err(Error::from_boxed(error.into()))),
                None => None,
            });
        }
        this.clock.as_mut().start(*this.idle);
        match this.release {
            // The clock runs for the release of the head.
            Some(_) => Poll::Pending,
            None => {
                ready!(this.clock.poll(cx));
                Poll::Ready(Some(Err(Failure::new(Reason::Timeout).into())))
            }
        }
    }
}

impl<B> Observed for Reader<B>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        over: &mut Option<Verdict>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            if let Some(chunk) = self.as_mut().project().intake.pop() {
                if chunk.is_empty() {
                    continue;
                }
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            match std::mem::replace(self.as_mut().project().end, End::Over) {
                End::Fault(error) => return Poll::Ready(Some(Err(error))),
                End::Over => return Poll::Ready(None),
                End::Not => *self.as_mut().project().end = End::Not,
            }
            let polled = ready!(self.as_mut().poll_chunk(cx));
            let this = self.as_mut().project();
            match polled {
                Some(Ok(chunk)) => {
                    let (chunk, verdict) = this.intake.pass(chunk);
                    if over.is_none() {
                        *over = verdict;
                    }
                    if !chunk.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(chunk))));
                    }
                }
                // What breaks after the terminator broke no answer.
                Some(Err(_)) if over.as_ref().is_some_and(|_| this.intake.meter().is_over()) => {
                    *this.end = End::Over;
                }
                Some(Err(error)) => {
                    let (verdict, error) = this.intake.break_off(error);
                    over.get_or_insert(verdict);
                    *this.end = End::Over;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    let (tail, verdict, fault) = this.intake.end();
                    over.get_or_insert(verdict);
                    *this.end = fault.map_or(End::Over, End::Fault);
                    if !tail.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(tail))));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // The reader must ask once more, to hear of an error.
        matches!(self.end, End::Over)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }

    fn provisional(&self) -> Option<Verdict> {
        self.intake.provisional()
    }
}

pin_project! {
    /// A timer that is set only while somebody waits: a body that is there at once never touches it.
    #[derive(Default)]
    struct Clock {
        #[pin]
        sleep: Option<Sleep>,
        due: Option<Instant>,
    }
}

impl Clock {
    fn due(due: Option<Instant>) -> Self {
        Self { sleep: None, due }
    }

    fn stop(self: Pin<&mut Self>) {
        *self.project().due = None;
    }

    fn start(self: Pin<&mut Self>, limit: Option<Duration>) {
        let due = self.project().due;
        if let (None, Some(limit)) = (*due, limit) {
            *due = Some(later(limit));
        }
    }

    fn no_later_than(self: Pin<&mut Self>, at: Instant) {
        let due = self.project().due;
        *due = Some(due.map_or(at, |due| due.min(at)));
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let Some(due) = *this.due else { return Poll::Pending };
        if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
            if sleep.deadline() != due {
                sleep.reset(due);
            }
        } else {
            this.sleep.set(Some(sleep_until(due)));
        }
        match this.sleep.as_pin_mut() {
            Some(sleep) => {
                ready!(std::future::Future::poll(sleep, cx));
                *this.due = None;
                Poll::Ready(())
            }
            None => Poll::Pending,
        }
    }
}

fn later(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now)
}
