//! Keeps from the client the usage chunk that it did not ask for.

use bytes::{Bytes, BytesMut};

use crate::wire::{is_usage_only, sse::Event};

/// No event that is worth hiding is longer.
const LONGEST: usize = 64 << 10;

/// Passes a stream on event by event, without those that say nothing but the usage.
#[derive(Debug, Default)]
pub(super) struct Hide {
    pending: BytesMut,
    /// Where in the stream `pending` begins.
    at: u64,
    hidden: Vec<(u64, u64)>,
    /// What was hidden last ended in a CR, and nothing came since: an LF still belongs to it.
    after_cr: bool,
}

impl Hide {
    /// Hears of every event, before [`pass`](Hide::pass) is asked about its bytes.
    pub(super) fn see(&mut self, event: &Event<'_>) {
        if is_usage_only(event.data) {
            self.hidden.push((event.start, event.end));
        }
    }

    /// What of the stream so far may be passed on, of which `settled` bytes are events that are over. An unfinished
    /// event waits, unless it is too long.
    pub(super) fn pass(&mut self, chunk: Bytes, settled: u64) -> Bytes {
        if self.pending.is_empty()
            && self.hidden.is_empty()
            && !self.after_cr
            && settled == self.at + chunk.len() as u64
        {
            self.at = settled;
            return chunk;
        }
        self.pending.extend_from_slice(&chunk);
        let mut until = (settled.saturating_sub(self.at) as usize).min(self.pending.len());
        if self.pending.len() - until > LONGEST {
            until = self.pending.len();
        }
        self.cut(until)
    }

    /// The rest of the stream.
    pub(super) fn finish(&mut self) -> Bytes {
        self.cut(self.pending.len())
    }

    fn cut(&mut self, until: usize) -> Bytes {
        let mut begins = self.at;
        let mut ready = self.pending.split_to(until).freeze();
        self.at += until as u64;
        if self.after_cr && !ready.is_empty() {
            self.after_cr = false;
            if ready[0] == b'\n' {
                ready = ready.slice(1..);
                begins += 1;
            }
        }
        if self.hidden.is_empty() {
            return ready;
        }
        let mut kept = BytesMut::with_capacity(ready.len());
        let mut from = 0;
        for (start, end) in self.hidden.drain(..) {
            // An event whose beginning was passed on already is past hiding.
            let (start, end) = (start.saturating_sub(begins) as usize, end.saturating_sub(begins) as usize);
            kept.extend_from_slice(&ready[from..start.clamp(from, ready.len())]);
            from = end.clamp(from, ready.len());
            if from > 0 && ready[from - 1] == b'\r' {
                match ready.get(from) {
                    Some(b'\n') => from += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        kept.extend_from_slice(&ready[from..]);
        kept.freeze()
    }
}
