//! What is made of the pieces of an answer: piece in, decision out.
//!
//! An answer has two phases. While its *head* is read, pieces are held back until it is known what the answer is, or
//! that it is under way. Then it is *live*: pieces pass, and the end is still judged.

use bytes::Bytes;

use super::{
    Delivery, ProviderConfig,
    held::Held,
    hide::Hide,
    meter::{Meter, Question},
    mode::{Mode, declared},
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

/// What is left of an answer that is over: its last bytes, its verdict, and the error for its reader if it is not whole.
pub(super) type Rest = (Bytes, Verdict, Option<Error>);

#[derive(Debug)]
pub(super) struct Intake {
    mode: Mode,
    question: Question,
    meter: Meter,
    /// What the `content-type` says.
    declared: Option<Framing>,
    hide: Option<Hide>,
    held: Held,
    /// How much came while the head was read.
    came: usize,
    /// How many of the first bytes are white space.
    blank: usize,
    begun: bool,
    /// An error or the terminator came: what is left, if anything, is at hand.
    settling: bool,
    /// The verdict was known before the answer was handed on.
    judged: bool,
}

impl Intake {
    pub(super) fn new(question: Question, parts: &http::response::Parts) -> Self {
        Self {
            mode: Mode::of(parts, question.protocol),
            meter: Meter::new(&question, parts.status, &parts.headers),
            declared: declared(&parts.headers),
            hide: question.hides_usage.then(Hide::default),
            question,
            held: Held::default(),
            came: 0,
            blank: 0,
            begun: false,
            settling: false,
            judged: false,
        }
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(super) fn config(&self) -> &ProviderConfig {
        &self.question.config
    }

    /// Whether the rest should not be waited for much longer: a stream has begun, or is as good as over.
    pub(super) fn is_pressing(&self) -> bool {
        self.settling || (self.begun && self.question.config.delivery == Delivery::Live)
    }

    /// Whether it is read event by event.
    pub(super) fn is_stream(&self) -> bool {
        self.mode == Mode::Stream
    }

    /// Whether an error or the terminator came.
    pub(super) fn is_settling(&self) -> bool {
        self.settling
    }

    /// Whether nothing is missing: what breaks now breaks no answer.
    pub(super) fn is_complete(&self) -> bool {
        self.mode == Mode::Stream && self.meter.is_over() && !self.meter.has_error()
    }

    // === the head ===

    /// What is known before the first byte.
    pub(super) fn begin(&self) -> Option<Head> {
        let is_error = self.meter.status().as_u16() >= 400;
        (self.mode == Mode::Opaque).then(|| if is_error { Head::Judged(self.meter.verdict()) } else { Head::Live })
    }

    /// Reads a piece of the head; says when there is enough.
    pub(super) fn take(&mut self, piece: Bytes) -> Option<Head> {
        self.came += piece.len();
        if self.mode == Mode::Undecided {
            self.held.push(piece);
            let beginning = &self.held.bytes()[self.blank..];
            self.blank += beginning.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if let Some(mode) = Mode::sniff(&self.held.bytes()[self.blank..], self.declared) {
                self.decide(mode);
            }
        } else {
            self.hold(piece);
        }
        let config = &self.question.config;
        match self.mode {
            Mode::Error if self.came > config.max_error => {
                self.meter.error_body(self.held.bytes());
                Some(Head::Judged(self.meter.judge()))
            }
            // A long answer is not a bad one: its status speaks.
            Mode::Json | Mode::Undecided if self.came > config.max_body => {
                self.mode = Mode::Opaque;
                Some(Head::Judged(Verdict::completed()))
            }
            Mode::Stream => {
                let (most, is_live) = match config.delivery {
                    Delivery::Live => (config.max_held, !self.settling && self.meter.has_output()),
                    Delivery::Whole => (config.max_body, false),
                };
                // Nothing that is still to come mends it: whoever retries need not wait for the end.
                if config.delivery == Delivery::Whole && self.meter.is_unparsable() {
                    self.judged = true;
                    return Some(Head::Judged(self.meter.judge()));
                }
                (is_live || self.came > most).then(|| self.release())
            }
            _ => None,
        }
    }

    /// Hands on what is held, whatever it is.
    pub(super) fn release(&mut self) -> Head {
        self.judged = self.settling;
        if self.settling { Head::Judged(self.meter.judge()) } else { Head::Live }
    }

    /// The body came to its end while its head was read.
    pub(super) fn end_of_head(&mut self) -> Result<Head, Error> {
        if self.mode == Mode::Undecided {
            self.decide(Mode::guess(self.held.bytes(), self.declared));
        }
        match self.mode {
            Mode::Stream => {
                let tail = self.finish();
                self.held.push(tail);
            }
            Mode::Error => self.meter.error_body(self.held.bytes()),
            _ => self.meter.json(self.held.bytes()),
        }
        let verdict = self.meter.judge();
        if verdict.reason == Reason::Cut {
            return Err(Failure::new(verdict).into());
        }
        Ok(Head::Whole(self.held.take(), verdict))
    }

    /// The body broke off while its head was read; with the error for the reader of what there is of it.
    pub(super) fn break_off_head(&mut self, error: Error) -> Result<(Head, Option<Error>), Error> {
        match self.mode {
            // The status still speaks, and what came of its body may say more.
            Mode::Error => {
                self.meter.error_body(self.held.bytes());
                Ok((Head::Judged(self.meter.judge()), Some(broken(self.meter.call(), error).1)))
            }
            Mode::Stream if self.settling || self.is_complete() => self.end_of_head().map(|head| (head, None)),
            _ => Err(self.break_off(error).1),
        }
    }

    /// Holds back what was to be handed on as a whole.
    pub(super) fn hold_back(&mut self, whole: Bytes) {
        self.held.push(whole);
    }

    /// What was held back.
    pub(super) fn take_held(&mut self) -> Option<Bytes> {
        (!self.held.is_empty()).then(|| self.held.take())
    }

    /// Whether nothing is held back.
    pub(super) fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }

    // === live ===

    /// Passes a piece on; with the verdict, where the answer is over with it.
    pub(super) fn pass(&mut self, piece: Bytes) -> (Bytes, Option<Verdict>) {
        if self.mode != Mode::Stream {
            return (piece, None);
        }
        let (piece, progress) = self.feed(piece);
        let ended = progress >= Progress::Done && self.meter.is_settled();
        (piece, ended.then(|| self.meter.judge()))
    }

    /// A live answer came to its end.
    pub(super) fn end(&mut self) -> Rest {
        if self.mode != Mode::Stream {
            return (Bytes::new(), Verdict::completed(), None);
        }
        let tail = self.finish();
        let verdict = self.meter.judge();
        let is_whole = self.judged || self.is_complete();
        let fault = (!is_whole).then(|| Failure::new(verdict.clone()).into());
        (tail, verdict, fault)
    }

    /// A live answer broke off.
    pub(super) fn break_off(&mut self, error: Error) -> (Bytes, Error, Verdict) {
        let (verdict, error) = broken(self.meter.call(), error);
        if self.mode != Mode::Stream {
            return (Bytes::new(), error, verdict);
        }
        let tail = self.finish();
        // What the other side stated comes before how the connection ended.
        let verdict = if self.meter.has_error() { self.meter.judge() } else { self.meter.conclude(verdict.reason) };
        (tail, Failure::new(verdict.clone()).caused_by(error).into(), verdict)
    }

    /// The verdict that stands if the reader goes away now: an error, or an answer that is whole but for its
    /// terminator.
    pub(super) fn provisional(&self) -> Option<Verdict> {
        let stands = self.mode == Mode::Stream && (self.meter.is_over() || self.meter.has_error());
        stands.then(|| self.meter.judge())
    }

    // === small parts ===

    fn decide(&mut self, mode: Mode) {
        self.mode = mode;
        let held = self.held.take();
        self.hold(held);
    }

    fn hold(&mut self, piece: Bytes) {
        let piece = if self.mode == Mode::Stream { self.feed(piece).0 } else { piece };
        self.held.push(piece);
    }

    fn feed(&mut self, piece: Bytes) -> (Bytes, Progress) {
        let mut begun = false;
        let (piece, progress) = match &mut self.hide {
            None => {
                let progress = self.meter.push(&piece, |_| begun = true);
                (piece, progress)
            }
            Some(hide) => {
                let progress = self.meter.push(&piece, |event| {
                    begun = true;
                    hide.see(event);
                });
                (hide.pass(piece, self.meter.settled()), progress)
            }
        };
        self.begun |= begun;
        self.settling |= progress >= Progress::Done;
        (piece, progress)
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
}
