//! What is held back of an answer.

use std::mem;

use bytes::{Bytes, BytesMut};

/// Bytes in the order in which they came. Small pieces are put together: a server that sends byte by byte must not make
/// us keep more than it sent.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The only piece so far, as it came.
    only: Bytes,
    all: BytesMut,
}

impl Held {
    pub(super) fn push(&mut self, piece: Bytes) {
        if self.is_empty() {
            self.only = piece;
            return;
        }
        if !self.only.is_empty() {
            let only = mem::take(&mut self.only);
            self.all.reserve(only.len() + piece.len());
            self.all.extend_from_slice(&only);
        }
        self.all.extend_from_slice(&piece);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if self.only.is_empty() { &self.all } else { &self.only }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.only.is_empty() && self.all.is_empty()
    }

    pub(super) fn take(&mut self) -> Bytes {
        if self.only.is_empty() { mem::take(&mut self.all).freeze() } else { mem::take(&mut self.only) }
    }
}
