//! Splits a byte stream into server-sent events, however the bytes arrive.
//!
//! - LF, CR and CRLF end a line, also where a CRLF is split over two chunks.
//! - Comments and unknown fields are skipped, a byte order mark is dropped, several `data` lines are joined by LF.
//! - A line `error: {…}`, which the standard does not know but servers send, is an event named `error`.
//! - A last event without its blank line is handed out by [`finish`](SseSplitter::finish): providers end so.
//! - An event over the bound is reported as [oversized](Event::oversized) and skipped to its end.
//!
//! Nothing is copied where an event of one `data` line lies within one chunk.
//!
//! ```
//! use tower_belay::wire::SseSplitter;
//!
//! let mut sse = SseSplitter::new();
//! let mut seen = Vec::new();
//! sse.push(b"data: {\"a\":1}\n\ndata: [DO", |event| seen.push(event.data.to_vec()));
//! assert_eq!(seen, [b"{\"a\":1}".to_vec()]);
//! sse.push(b"NE]", |_| unreachable!("not over yet"));
//! sse.finish(|event| assert_eq!(event.data, b"[DONE]"));
//! ```

use std::mem;

use memchr::memchr2;

/// The bound on one event where none is set: 4 MiB.
///
/// A terminal event of the Responses API repeats the whole answer, generated images included.
pub const MAX_EVENT: usize = 4 << 20;

/// One event of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The value of the `event` field; empty where there is none or where it is not UTF-8.
    pub name: &'a str,
    /// The `data` lines, joined by LF.
    pub data: &'a [u8],
    /// Where the event's first byte (or that of a comment before it) lies in the stream.
    pub start: u64,
    /// Where the event ends in the stream, its blank line included.
    ///
    /// The LF of a blank CRLF whose halves come in different chunks is not included: on its own it is a blank line.
    pub end: u64,
    /// Whether it was over the bound; `data` is then empty.
    pub oversized: bool,
    /// Whether its blank line came; without it the stream may have been cut within the event.
    pub complete: bool,
}

/// An incremental splitter of server-sent events. See the [module](self).
#[derive(Debug, Clone)]
pub struct SseSplitter {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    data: Vec<u8>,
    name: Vec<u8>,
    has_data: bool,
    oversized: bool,
    /// The rest of the unfinished line is of no interest.
    skip_line: bool,
    after_cr: bool,
    begun: bool,
    max_event: usize,
    /// Stream offset of the first byte that was not yet pushed.
    offset: u64,
    start: u64,
}

impl Default for SseSplitter {
    fn default() -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            name: Vec::new(),
            has_data: false,
            oversized: false,
            skip_line: false,
            after_cr: false,
            begun: false,
            max_event: MAX_EVENT,
            offset: 0,
            start: 0,
        }
    }
}

/// What of the current event still lies in the chunk.
#[derive(Default)]
struct Borrowed<'a> {
    data: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
}

enum Field<'a> {
    Data(&'a [u8]),
    Name(&'a [u8]),
    Error(&'a [u8]),
    Other,
}

const BOM: &[u8] = b"\xef\xbb\xbf";
/// The longest field name that counts, its colon and space included.
const PREFIX: usize = "event: ".len();

fn field(line: &[u8]) -> Field<'_> {
    fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
        match line.strip_prefix(name)? {
            [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
            [] => Some(&[]),
            _ => None,
        }
    }
    let read = match line.first() {
        Some(b'd') => value(line, b"data").map(Field::Data),
        Some(b'e') if line.get(1) == Some(&b'v') => value(line, b"event").map(Field::Name),
        Some(b'e') => value(line, b"error").map(Field::Error),
        _ => None,
    };
    read.unwrap_or(Field::Other)
}

impl SseSplitter {
    /// A splitter with the bound [`MAX_EVENT`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the bound on the data of one event, in bytes. Memory stays below about twice this.
    #[must_use]
    pub fn max_event(mut self, bytes: usize) -> Self {
        self.max_event = bytes;
        self
    }

    /// Takes the next bytes and hands each event that they complete to `sink`.
    pub fn push(&mut self, chunk: &[u8], mut sink: impl FnMut(Event<'_>)) {
        let base = self.offset;
        self.offset += chunk.len() as u64;
        let mut at = 0;
        if self.after_cr && !chunk.is_empty() {
            self.after_cr = false;
            if chunk[0] == b'\n' {
                at = 1;
                if self.start == base {
                    self.start += 1;
                }
            }
        }
        let mut held = Borrowed::default();
        while at < chunk.len() {
            let rest = &chunk[at..];
            let length = match rest[0] {
                b'\n' | b'\r' => 0,
                _ => match memchr2(b'\n', b'\r', rest) {
                    Some(length) => length,
                    None => {
                        self.keep(rest);
                        break;
                    }
                },
            };
            let line = &rest[..length];
            at += length + 1;
            if rest[length] == b'\r' {
                match chunk.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            let end = base + at as u64;
            if self.line.is_empty() && !self.skip_line {
                if line.is_empty() {
                    self.dispatch(&mut held, end, true, &mut sink);
                } else {
                    self.take(line, &mut held);
                }
            } else {
                self.keep(line);
                self.take_kept(&mut held);
            }
        }
        self.hold(&mut held);
    }

    /// The stream is over: hands out a last event that lacks its blank line.
    pub fn finish(&mut self, mut sink: impl FnMut(Event<'_>)) {
        let mut held = Borrowed::default();
        self.take_kept(&mut held);
        self.dispatch(&mut held, self.offset, false, &mut sink);
    }

    /// How many bytes were pushed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many of the bytes are past: they belong to events, and to comments, that are over.
    pub(crate) fn settled(&self) -> u64 {
        self.start
    }

    /// Whether bytes of an unfinished event are held.
    pub fn is_mid_event(&self) -> bool {
        self.start != self.offset
    }

    /// Keeps a piece of an unfinished line, as far as it can still matter.
    fn keep(&mut self, piece: &[u8]) {
        if self.skip_line {
            return;
        }
        if self.line.len() + piece.len() <= self.max_event.saturating_add(PREFIX + BOM.len()) {
            self.line.extend_from_slice(piece);
            return;
        }
        if self.line.len() < PREFIX + BOM.len() {
            self.line.extend_from_slice(&piece[..piece.len().min(PREFIX + BOM.len())]);
        }
        let line = self.line.strip_prefix(BOM).filter(|_| !self.begun).unwrap_or(&self.line);
        match field(line) {
            Field::Other => {}
            Field::Error(_) => {
                self.name = b"error".to_vec();
                self.overflow();
            }
            Field::Data(_) | Field::Name(_) => self.overflow(),
        }
        self.begun = true;
        self.line = Vec::new();
        self.skip_line = true;
    }

    fn overflow(&mut self) {
        self.oversized = true;
        self.has_data = true;
        self.data = Vec::new();
    }

    fn take_kept(&mut self, held: &mut Borrowed<'_>) {
        if mem::take(&mut self.skip_line) {
            return;
        }
        // Only owned bytes may outlive `line`, so what it says is stored at once.
        let mut line = mem::take(&mut self.line);
        self.hold(held);
        let mut own = Borrowed::default();
        self.take(&line, &mut own);
        self.hold(&mut own);
        line.clear();
        self.line = line;
    }

    fn take<'a>(&mut self, mut line: &'a [u8], held: &mut Borrowed<'a>) {
        if !mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        match field(line) {
            Field::Data(value) => self.take_data(value, held),
            Field::Name(value) => self.take_name(value, held),
            Field::Error(value) => {
                self.take_name(b"error", held);
                self.take_data(value, held);
            }
            Field::Other => {}
        }
    }

    fn take_name<'a>(&mut self, value: &'a [u8], held: &mut Borrowed<'a>) {
        if value.len() > self.max_event {
            self.overflow();
        } else {
            held.name = Some(value);
        }
    }

    fn take_data<'a>(&mut self, value: &'a [u8], held: &mut Borrowed<'a>) {
        if !self.has_data && held.data.is_none() && value.len() <= self.max_event {
            held.data = Some(value);
            return;
        }
        self.hold(held);
        if self.oversized || self.data.len() + value.len() + usize::from(self.has_data) > self.max_event {
            self.overflow();
            return;
        }
        if mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
    }

    /// Copies what still lies in a chunk that is about to go.
    fn hold(&mut self, held: &mut Borrowed<'_>) {
        if let Some(name) = held.name.take() {
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        if let Some(data) = held.data.take()
            && !self.oversized
        {
            self.data.extend_from_slice(data);
            self.has_data = true;
        }
    }

    fn dispatch(&mut self, held: &mut Borrowed<'_>, end: u64, complete: bool, sink: &mut impl FnMut(Event<'_>)) {
        let start = mem::replace(&mut self.start, end);
        let name = held.name.take().unwrap_or(&self.name);
        let data = held.data.take();
        if data.is_some() || self.has_data {
            let oversized = self.oversized;
            let data = if oversized { &[] } else { data.unwrap_or(&self.data) };
            sink(Event { name: str::from_utf8(name).unwrap_or(""), data, start, end, oversized, complete });
        }
        self.has_data = false;
        self.oversized = false;
        self.name.clear();
        self.data.clear();
    }
}
