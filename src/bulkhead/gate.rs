//! The calls of one class, and the guards of those that run and those that wait.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio::time::Instant;

use super::{
    config::{BulkheadConfig, Limits},
    state::{Entry, Room, Ticket},
};
use crate::{
    call::{Call, KeyBuf, KeyRef, Name},
    lock::lock,
};

/// The calls of one class, behind a lock that no other class takes.
pub(super) struct Gate {
    key: KeyBuf,
    class: Option<Box<str>>,
    /// For want of room it is also the gate of other classes.
    shared: AtomicBool,
    room: Mutex<Room<Waker>>,
}

/// The leave to run. Dropping it lets the next one run.
pub(super) struct Permit(Arc<Gate>);

/// A place in the queue. Dropping it gives it up, or the permit that it had become.
pub(super) struct Place {
    gate: Option<Arc<Gate>>,
    ticket: Ticket,
    pub(super) until: Option<Instant>,
}

/// What became of a call that came.
pub(super) enum Entered {
    Free(Permit),
    Queued(Place),
    Full(Option<Instant>),
}

impl Gate {
    pub(super) fn new(key: &KeyRef<'_>, call: &Call, config: &BulkheadConfig) -> Self {
        let class = call.name(Name::Agent);
        let room = Room::new(config.limits(class));
        Self {
            key: (*key).to_owned(),
            class: class.map(Into::into),
            shared: AtomicBool::new(false),
            room: Mutex::new(room),
        }
    }

    /// Whether this is the gate of `key`, and was made for it.
    #[inline]
    pub(super) fn is_of(&self, key: &KeyRef<'_>) -> bool {
        self.key.is(key)
    }

    pub(super) fn enter(self: &Arc<Self>, deadline: Option<Instant>) -> Entered {
        let mut room = lock(&self.room);
        let max_wait = room.limits().max_wait;
        let entry = room.enter(|| {
            let until = Instant::now().checked_add(max_wait);
            until.into_iter().chain(deadline).min()
        });
        drop(room);
        match entry {
            Entry::Free => Entered::Free(Permit(self.clone())),
            Entry::Queued(ticket, until) => Entered::Queued(Place { gate: Some(self.clone()), ticket, until }),
            Entry::Full(hint) => Entered::Full(hint),
        }
    }

    /// Runs whatever the limits say, and tells whether they would have refused.
    pub(super) fn enter_anyway(self: &Arc<Self>) -> (Permit, bool) {
        let would_refuse = lock(&self.room).enter_anyway();
        (Permit(self.clone()), would_refuse)
    }

    /// Takes the limits that `config` has for this class. A gate that classes share has nobody's own.
    pub(super) fn configure(&self, config: &BulkheadConfig) {
        let class = self.class.as_deref().filter(|_| !self.shared.load(Ordering::Acquire));
        self.set_limits(config.limits(class));
    }

    /// For want of room this gate is also that of others.
    pub(super) fn share(&self, config: &BulkheadConfig) {
        if !self.shared.swap(true, Ordering::AcqRel) {
            self.configure(config);
        }
    }

    fn set_limits(&self, limits: Limits) {
        let wakers = lock(&self.room).set_limits(limits);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many run and how many wait.
    pub(super) fn counts(&self) -> (u32, u32) {
        let room = lock(&self.room);
        (room.in_flight(), room.queued())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = lock(&self.0.room).leave();
        next.into_iter().for_each(Waker::wake);
    }
}

impl Place {
    /// Ready when the turn of this place has come, with the permit and how many others wait.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Permit, u32)> {
        let gate = self.gate.take().expect("polled after it was ready");
        let mut room = lock(&gate.room);
        match room.waker(self.ticket) {
            Some(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                drop(room);
                self.gate = Some(gate);
                Poll::Pending
            }
            None => {
                let others = room.queued();
                drop(room);
                Poll::Ready((Permit(gate), others))
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            let next = lock(&gate.room).give_up(self.ticket);
            next.into_iter().for_each(Waker::wake);
        }
    }
}
