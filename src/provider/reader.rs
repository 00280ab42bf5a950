//! The body of an answer under way, and the clocks on it.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::BoxError;

use super::{
    clock::{Clock, Silence, later},
    intake::{Head, Intake},
    meter::Answer,
};
use crate::{
    body::Observed,
    error::{Error, Failure},
    reason::Reason,
    verdict::Verdict,
};

/// How long what is left may take when the answer is over: a connection that is kept open keeps no reader waiting.
const GRACE: Duration = Duration::from_secs(1);
/// So many frames without content are skipped at a time, before other tasks have their turn.
const EMPTY_FRAMES: usize = 64;

pin_project! {
    pub(super) struct Reader<B> {
        #[pin]
        body: B,
        intake: Intake,
        #[pin]
        clock: Clock,
        silence: Silence,
        end: End,
    }
}

/// What comes after the bytes at hand.
enum End {
    Open,
    Fault(Error),
    Trailers(HeaderMap),
    Over,
}

/// What the body, or the clock, does next.
enum Turn {
    Piece(Bytes),
    /// Nothing came until the point in time that was asked for.
    Release,
    Closed(Closing),
}

/// How a body closes.
enum Closing {
    Clean,
    Trailers(HeaderMap),
    Broken(Error),
}

impl<B> Reader<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(body: B, intake: Intake, first_byte: Option<Instant>) -> Self {
        Self { body, intake, clock: Clock::default(), silence: Silence::FirstByte(first_byte), end: End::Open }
    }

    pub(super) fn answer(&self) -> Answer {
        self.intake.meter().answer()
    }

    pub(super) fn is_stream(&self) -> bool {
        self.intake.is_stream()
    }

    /// Reads until it is known what the answer is, or that it is under way.
    ///
    /// `release` is kept by the caller: when the head is to be handed on.
    pub(super) fn poll_head(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        release: &mut Option<Instant>,
    ) -> Poll<Result<Head, Error>> {
        if let Some(head) = self.intake.begin() {
            return Poll::Ready(Ok(head));
        }
        loop {
            let turn = ready!(self.as_mut().poll_turn(cx, *release));
            let this = self.as_mut().project();
            match turn {
                Turn::Piece(piece) => {
                    if let Some(head) = this.intake.take(piece) {
                        return Poll::Ready(Ok(head));
                    }
                    if release.is_none() && this.intake.is_pressing() {
                        *release = later(this.intake.config().max_hold);
                    }
                }
                Turn::Release => return Poll::Ready(Ok(this.intake.release())),
                Turn::Closed(closing) => return Poll::Ready(self.close_head(closing)),
            }
        }
    }

    /// The next piece of the body, or what comes instead.
    fn poll_turn(self: Pin<&mut Self>, cx: &mut Context<'_>, release: Option<Instant>) -> Poll<Turn> {
        let mut this = self.project();
        for _ in 0..EMPTY_FRAMES {
            let Poll::Ready(frame) = this.body.as_mut().poll_frame(cx) else {
                let intake = &*this.intake;
                let quiet = this.silence.goes_on(|| silence_limit(intake));
                let Some(due) = quiet.into_iter().chain(release).min() else { return Poll::Pending };
                ready!(this.clock.poll(due, cx));
                return Poll::Ready(match quiet {
                    Some(quiet) if quiet <= due => Turn::Closed(Closing::Broken(Failure::new(Reason::Timeout).into())),
                    _ => Turn::Release,
                });
            };
            *this.silence = Silence::Broken;
            let closing = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) if piece.is_empty() => continue,
                    Ok(piece) => return Poll::Ready(Turn::Piece(piece)),
                    Err(frame) => frame.into_trailers().map_or(Closing::Clean, Closing::Trailers),
                },
                Some(Err(error)) => Closing::Broken(Error::from_boxed(error.into())),
                None => Closing::Clean,
            };
            return Poll::Ready(Turn::Closed(closing));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn close_head(self: Pin<&mut Self>, closing: Closing) -> Result<Head, Error> {
        let this = self.project();
        match closing {
            Closing::Clean => this.intake.end_of_head(),
            Closing::Broken(error) => {
                let (head, fault) = this.intake.break_off_head(error)?;
                *this.end = fault.map_or(End::Over, End::Fault);
                Ok(head)
            }
            Closing::Trailers(trailers) => {
                let head = this.intake.end_of_head()?;
                *this.end = End::Trailers(trailers);
                Ok(match head {
                    Head::Whole(whole, verdict) => {
                        this.intake.hold_back(whole);
                        Head::Judged(verdict)
                    }
                    head => head,
                })
            }
        }
    }

    /// Settles how a live answer ended; its last bytes.
    fn close(self: Pin<&mut Self>, closing: Closing, over: &mut Option<Verdict>) -> Bytes {
        let this = self.project();
        let (tail, verdict, end) = match closing {
            Closing::Broken(error) if !this.intake.is_complete() => {
                let (tail, error, verdict) = this.intake.break_off(error);
                (tail, verdict, End::Fault(error))
            }
            closing => {
                let (tail, verdict, fault) = this.intake.end();
                let end = match (fault, closing) {
                    (Some(fault), _) => End::Fault(fault),
                    (None, Closing::Trailers(trailers)) => End::Trailers(trailers),
                    (None, _) => End::Over,
                };
                (tail, verdict, end)
            }
        };
        over.get_or_insert(verdict);
        *this.end = end;
        tail
    }
}

fn silence_limit(intake: &Intake) -> Option<Duration> {
    let idle = intake.config().idle_limit();
    if intake.is_settling() { Some(idle.map_or(GRACE, |idle| idle.min(GRACE))) } else { idle }
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
            if let Some(held) = self.as_mut().project().intake.take_held() {
                return Poll::Ready(Some(Ok(Frame::data(held))));
            }
            match mem::replace(self.as_mut().project().end, End::Over) {
                End::Fault(error) => return Poll::Ready(Some(Err(error))),
                End::Trailers(trailers) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                End::Over => return Poll::Ready(None),
                End::Open => *self.as_mut().project().end = End::Open,
            }
            let piece = match ready!(self.as_mut().poll_turn(cx, None)) {
                Turn::Piece(piece) => {
                    let (piece, verdict) = self.as_mut().project().intake.pass(piece);
                    if over.is_none() {
                        *over = verdict;
                    }
                    piece
                }
                Turn::Release => continue,
                Turn::Closed(closing) => self.as_mut().close(closing, over),
            };
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // The reader must ask once more, to hear of an error.
        matches!(self.end, End::Over) && self.intake.holds_nothing()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }

    fn provisional(&self) -> Option<Verdict> {
        self.intake.provisional()
    }
}
