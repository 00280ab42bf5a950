//! Who is told when an answer is over.

use std::{fmt, time::Duration};

use tokio::time::Instant;

use crate::verdict::Verdict;

/// How an answer ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum End<'a> {
    /// It came to its end, good or bad.
    Over(&'a Verdict),
    /// The reader went away before its end.
    #[non_exhaustive]
    Abandoned {
        /// How long the reader had been waiting, in vain, when it went away.
        waited: Duration,
    },
}

/// Told once when an answer is over.
pub trait OnEnd: Send {
    /// The answer is over.
    fn end(&mut self, end: End<'_>);

    /// By when it must be over. Whoever watches the answer ends it then, as timed out. By default, any time.
    fn due(&self) -> Option<Instant> {
        None
    }
}

impl<F: FnMut(End<'_>) + Send> OnEnd for F {
    fn end(&mut self, end: End<'_>) {
        self(end);
    }
}

/// Owed to a layer: the news of how an answer ended. Dropping it tells that the answer was abandoned.
#[must_use = "dropping a completion says that the answer was abandoned"]
pub struct Completion {
    first: Option<Box<Node<dyn OnEnd>>>,
}

/// A list whose links lie in the same allocation as what they link.
struct Node<T: ?Sized> {
    next: Option<Box<Node<dyn OnEnd>>>,
    on_end: T,
}

impl Completion {
    /// Tells `on_end`, once.
    pub fn new(on_end: impl OnEnd + 'static) -> Self {
        Self { first: Some(Box::new(Node { next: None, on_end })) }
    }

    /// Tells nobody: the outcome is known already.
    pub const fn none() -> Self {
        Self { first: None }
    }

    /// Drops it, which costs nothing where nobody is to be told.
    #[inline]
    pub(crate) fn ignored(self) {
        if self.first.is_none() {
            std::mem::forget(self);
        }
    }

    /// Whether nobody is to be told.
    pub const fn is_none(&self) -> bool {
        self.first.is_none()
    }

    /// By when the answer must be over, by the strictest of those who are told; then it has timed out.
    pub fn due(&self) -> Option<Instant> {
        let nodes = std::iter::successors(self.first.as_deref(), |node| node.next.as_deref());
        nodes.filter_map(|node| node.on_end.due()).min()
    }

    /// The answer came to its end.
    #[inline]
    pub fn over(mut self, verdict: &Verdict) {
        if self.first.is_some() {
            self.tell(End::Over(verdict));
        }
    }

    /// The reader went away after it had waited this long.
    pub fn abandoned(mut self, waited: Duration) {
        self.tell(End::Abandoned { waited });
    }

    /// Tells `other` too, after those who were here first: the outermost layer hears last.
    pub(crate) fn and(&mut self, mut other: Self) {
        let mut last = &mut self.first;
        while let Some(node) = last {
            last = &mut node.next;
        }
        *last = other.first.take();
    }

    pub(crate) fn tell(&mut self, end: End<'_>) {
        let mut next = self.first.take();
        while let Some(mut node) = next {
            node.on_end.end(end);
            next = node.next.take();
        }
    }
}

impl Drop for Completion {
    #[inline]
    fn drop(&mut self) {
        if self.first.is_some() {
            self.tell(End::Abandoned { waited: Duration::ZERO });
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("empty", &self.is_none()).finish()
    }
}
