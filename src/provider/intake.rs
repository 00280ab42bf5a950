//! What is made of the pieces of an answer: piece in, decision out.
//!
//! An answer has two phases. While its *head* is read, pieces are held back until it is known what the answer is, or
//! that it is under way. Then it is *live*: pieces pass, and the end is still judged.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};

use super::{
    Delivery,
    hide::Hide,
    meter::{Meter, Question},
};
use crate::{
    body::broken,
    error::{Error, Failure},
    reason::Reason,
    verdict::Verdict,
    wire::{Framing, Progress},
};

/// What is known when the head of an answer was read.
#[derive(Debug)]
pub(super) enum Head {
    /// All of it.
    Whole(Bytes, Verdict),
    /// Its verdict; the rest of its bytes is still to come.
    Judged(Verdict),
    /// That it is under way.
    Live,
}

/// How a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Its first bytes will tell.
    Undecided,
    /// The body of an error status, as a whole.
    Error,
    /// A JSON answer, as a whole.
    Json,
    /// A stream of events.
    Stream,
    /// Not at all.
    Opaque,
}

#[derive(Debug)]
pub(super) struct Intake {
    mode: Mode,
    question: Question,
    meter: Meter,
    content_type: Option<String>,
    hide: Option<Hide>,
    held: VecDeque<Bytes>,
    held_bytes: usize,
    begun: bool,
    /// An error or the terminator came: what is left, if anything, is at hand.
    settling: bool,
}

impl Intake {
    pub(super) fn new(question: Question, parts: &http::response::Parts) -> Self {
        let mode = match () {
            () if is_encoded(&parts.headers) => Mode::Opaque,
            () if parts.status.as_u16() >= 400 => Mode::Error,
            () if question.protocol.is_none() => Mode::Opaque,
            () => Mode::Undecided,
        };
        let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        Self {
            mode,
            meter: Meter::new(&question, parts.status, &parts.headers),
            content_type: content_type.map(str::to_owned),
            hide: question.hides_usage.then(Hide::default),
            question,
            held: VecDeque::new(),
            held_bytes: 0,
            begun: false,
            settling: false,
        }
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Whether the rest should not be waited for much longer: a stream has begun, or is as good as over.
    pub(super) fn is_pressing(&self) -> bool {
        self.settling || (self.begun && self.question.config.delivery == Delivery::Live)
    }

    // === the head ===

    /// What is known before the first byte.
    pub(super) fn begin(&self) -> Option<Head> {
        let is_error = self.meter.status().as_u16() >= 400;
        (self.mode == Mode::Opaque).then(|| if is_error { Head::Judged(self.meter.judge()) } else { Head::Live })
    }

    /// Reads a piece of the head; says when there is enough.
    pub(super) fn take(&mut self, chunk: Bytes) -> Option<Head> {
        self.held_bytes += chunk.len();
        if self.mode == Mode::Undecided {
            self.held.push_back(chunk);
            self.mode = self.sniff(&self.beginning())?;
            let held = std::mem::take(&mut self.held);
            held.into_iter().for_each(|chunk| self.hold(chunk));
        } else {
            self.hold(chunk);
        }
        let config = &self.question.config;
        match self.mode {
            Mode::Error if self.held_bytes > config.max_error => {
                self.meter.error_body(&concat(&self.held));
                Some(Head::Judged(self.meter.judge()))
            }
            // A long answer is not a bad one: its status speaks.
            Mode::Json if self.held_bytes > config.max_body => {
                self.mode = Mode::Opaque;
                Some(Head::Judged(self.meter.conclude(Reason::Completed)))
            }
            Mode::Stream => {
                let (most, is_live) = match config.delivery {
                    Delivery::Live => (config.max_held, !self.settling && self.meter.has_output()),
                    Delivery::Whole => (config.max_body, false),
                };
                (is_live || self.held_bytes > most).then(|| self.release())
            }
            _ => None,
        }
    }

    /// Hands on what is held, whatever it is.
    pub(super) fn release(&mut self) -> Head {
        if self.settling { Head::Judged(self.meter.judge()) } else { Head::Live }
    }

    /// The body came to its end while its head was read.
    pub(super) fn end_of_head(&mut self) -> Result<Head, Error> {
        if self.mode == Mode::Undecided {
            self.mode = self.framing(&self.beginning()).unwrap_or(Mode::Json);
            let held = std::mem::take(&mut self.held);
            held.into_iter().for_each(|chunk| self.hold(chunk));
        }
        match self.mode {
            Mode::Stream => {
                let tail = self.finish();
                self.held.push_back(tail);
            }
            Mode::Error => self.meter.error_body(&concat(&self.held)),
            _ => self.meter.json(&concat(&self.held)),
        }
        let verdict = self.meter.judge();
        if verdict.reason == Reason::Cut {
            return Err(Failure::new(verdict).into());
        }
        Ok(Head::Whole(concat(&self.held), verdict))
    }

    /// The body broke off while its head was read.
    pub(super) fn break_off_head(&mut self, error: Error) -> Result<Head, Error> {
        match self.mode {
            // The status still speaks, and what came of its body may say more.
            Mode::Error => self.end_of_head(),
            Mode::Stream if self.settling => self.end_of_head(),
            _ => Err(self.break_off(error).1),
        }
    }

    /// The next piece that was held back.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        self.held.pop_front()
    }

    // === live ===

    /// Passes a piece on; with the verdict, where the answer is over with it.
    pub(super) fn pass(&mut self, chunk: Bytes) -> (Bytes, Option<Verdict>) {
        if self.mode != Mode::Stream {
            return (chunk, None);
        }
        let (chunk, progress) = self.feed(chunk);
        (chunk, (progress == Progress::Done).then(|| self.meter.judge()))
    }

    /// The rest of a live answer, its verdict, and the error for its reader if it is not whole.
    pub(super) fn end(&mut self) -> (Bytes, Verdict, Option<Error>) {
        if self.mode != Mode::Stream {
            return (Bytes::new(), self.meter.conclude(Reason::Completed), None);
        }
        let tail = self.finish();
        let verdict = self.meter.judge();
        let is_whole = self.meter.is_over() && verdict.reason != Reason::Unparsable;
        let fault = (!is_whole).then(|| Failure::new(verdict.clone()).into());
        (tail, verdict, fault)
    }

    /// A live answer broke off.
    pub(super) fn break_off(&mut self, error: Error) -> (Verdict, Error) {
        let (mut verdict, error) = broken(self.meter.call(), error);
        let read = self.meter.conclude(verdict.reason);
        if verdict.usage().is_none() {
            verdict = verdict.with_usage(read.usage());
        }
        let failure = Failure::new(verdict.clone()).caused_by(error);
        (verdict, failure.into())
    }

    /// The verdict that stands if the reader goes away now: an error, or an answer that is whole but for its
    /// terminator.
    pub(super) fn provisional(&self) -> Option<Verdict> {
        let stands = self.mode == Mode::Stream && (self.meter.is_over() || self.meter.has_error());
        stands.then(|| self.meter.judge())
    }

    // === small parts ===

    fn hold(&mut self, chunk: Bytes) {
        if self.mode != Mode::Stream {
            self.held.push_back(chunk);
            return;
        }
        let (chunk, progress) = self.feed(chunk);
        self.settling |= progress >= Progress::Done;
        self.held.push_back(chunk);
    }

    fn feed(&mut self, chunk: Bytes) -> (Bytes, Progress) {
        let mut events = 0;
        let (chunk, progress) = match &mut self.hide {
            None => {
                let progress = self.meter.push(&chunk, |_| events += 1);
                (chunk, progress)
            }
            Some(hide) => {
                let progress = self.meter.push(&chunk, |event| {
                    events += 1;
                    hide.see(event);
                });
                (hide.pass(&chunk, self.question.config.max_held), progress)
            }
        };
        self.begun |= events > 0;
        (chunk, progress)
    }

    fn finish(&mut self) -> Bytes {
        match &mut self.hide {
            None => {
                self.meter.finish(|_| {});
                Bytes::new()
            }
            Some(hide) => {
                self.meter.finish(|event| hide.see(event));
                hide.finish()
            }
        }
    }

    /// The first bytes that are not white space.
    fn beginning(&self) -> Vec<u8> {
        let bytes = self.held.iter().flat_map(|chunk| chunk.iter().copied());
        bytes.skip_while(u8::is_ascii_whitespace).take(16).collect()
    }

    /// By the first bytes, once there are enough to tell.
    fn sniff(&self, beginning: &[u8]) -> Option<Mode> {
        const ENOUGH: usize = b"\xef\xbb\xbfretry:".len();
        match Framing::of(None, beginning) {
            Some(framing) => Some(mode(framing)),
            None if beginning.len() < ENOUGH => None,
            None => Some(self.framing(beginning).unwrap_or(Mode::Json)),
        }
    }

    fn framing(&self, beginning: &[u8]) -> Option<Mode> {
        Framing::of(self.content_type.as_deref(), beginning).map(mode)
    }
}

const fn mode(framing: Framing) -> Mode {
    match framing {
        Framing::Sse => Mode::Stream,
        Framing::Json => Mode::Json,
    }
}

fn concat(held: &VecDeque<Bytes>) -> Bytes {
    if let [only] = held.as_slices().0
        && held.len() == 1
    {
        return only.clone();
    }
    let mut all = BytesMut::with_capacity(held.iter().map(Bytes::len).sum());
    held.iter().for_each(|chunk| all.extend_from_slice(chunk));
    all.freeze()
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity")
}
