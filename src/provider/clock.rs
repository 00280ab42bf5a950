//! The timer of an answer under way, and how long its silence may last.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long nothing came. A point in time that is `None` never comes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Silence {
    /// The first byte is due.
    FirstByte(Option<Instant>),
    /// Something just came.
    Broken,
    /// The next byte is due.
    Lasting(Option<Instant>),
}

impl Silence {
    /// Nothing came, again: when it is too long. `limit` is asked when a silence begins.
    pub(super) fn goes_on(&mut self, limit: impl FnOnce() -> Option<Duration>) -> Option<Instant> {
        match *self {
            Self::FirstByte(due) | Self::Lasting(due) => due,
            Self::Broken => {
                let due = limit().and_then(later);
                *self = Self::Lasting(due);
                due
            }
        }
    }
}

pin_project! {
    /// A timer that is set only while somebody waits: a body that is there at once never touches it.
    #[derive(Debug, Default)]
    pub(super) struct Clock {
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl Clock {
    /// Whether it is `due`; else the task is woken then. Forgets every earlier `due`.
    pub(super) fn poll(self: Pin<&mut Self>, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let mut sleep = self.project().sleep;
        match sleep.as_mut().as_pin_mut() {
            Some(sleep) if sleep.deadline() == due => {}
            Some(sleep) => sleep.reset(due),
            None => sleep.set(Some(sleep_until(due))),
        }
        sleep.as_pin_mut().map_or(Poll::Pending, |sleep| sleep.poll(cx))
    }
}

/// So long from now; `None` where no clock goes so far.
pub(super) fn later(limit: Duration) -> Option<Instant> {
    Instant::now().checked_add(limit)
}
