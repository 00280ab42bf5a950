//! Keeps from the client the usage chunk that it did not ask for.

use bytes::{Bytes, BytesMut};

use crate::wire::{is_usage_only, sse::Event};

/// Passes a stream on event by event, without those that say nothing but the usage.
#[derive(Debug, Default)]
pub(super) struct Hide {
    pending: BytesMut,
    /// Where in the stream `pending` begins.
    at: u64,
    hidden: Vec<(u64, u64)>,
    complete: u64,
}

impl Hide {
    /// Hears of every event, before [`pass`](Hide::pass) is asked about its bytes.
    pub(super) fn see(&mut self, event: &Event<'_>) {
        if is_usage_only(event.data) {
            self.hidden.push((event.start, event.end));
        }
        self.complete = event.end;
    }

    /// What of the stream so far may be passed on; an unfinished event waits, unless it is longer than `most`.
    pub(super) fn pass(&mut self, chunk: &[u8], most: usize) -> Bytes {
        self.pending.extend_from_slice(chunk);
        let mut until = self.complete.saturating_sub(self.at) as usize;
        if self.pending.len() - until > most {
            until = self.pending.len();
        }
        self.cut(until)
    }

    /// The rest of the stream.
    pub(super) fn finish(&mut self) -> Bytes {
        self.cut(self.pending.len())
    }

    fn cut(&mut self, until: usize) -> Bytes {
        let begins = self.at;
        let ready = self.pending.split_to(until).freeze();
        self.at += until as u64;
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
        }
        kept.extend_from_slice(&ready[from..]);
        kept.freeze()
    }
}
