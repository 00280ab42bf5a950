//! The calls of one class, and the guards of those that run and those that wait.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
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

/// The calls of one class, behind a lock that no other class takes; while nobody waits they pass without it.
///
/// In this order, so that the names, which every call compares, lie apart from the count, which every call changes.
#[repr(C)]
pub(super) struct Gate {
    count: Count,
    room: Mutex<Room<Waker>>,
    class: Option<Box<str>>,
    /// For want of room it is also the gate of other classes.
    shared: AtomicBool,
    key: KeyBuf,
}

/// How many calls run, beside the limit up to which the next may run without asking the room, in one word:
///
/// | bit 63 | bits 62 to 32 | bits 31 to 0 |
/// |---|---|---|
/// | the room has the count: somebody waits, or has the lock | the limit | how many run |
struct Count(AtomicU64);

const IN_ROOM: u64 = 1 << 63;
const LONGEST: u32 = u32::MAX >> 1;

impl Count {
    const fn word(in_flight: u32, max_concurrent: u32) -> u64 {
        let limit = if max_concurrent < LONGEST { max_concurrent } else { LONGEST };
        (limit as u64) << 32 | in_flight as u64
    }

    /// One more runs, if that is plain to see.
    #[inline]
    fn enter(&self) -> bool {
        self.change(|word| ((word as u32) < (word >> 32) as u32).then_some(word + 1))
    }

    /// One less runs, if nobody is to be woken.
    #[inline]
    fn leave(&self) -> bool {
        self.change(|word| Some(word - 1))
    }

    #[inline]
    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        let change = |word| if word & IN_ROOM == 0 { change(word) } else { None };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }
}

/// The room with the count in it. It goes back when the lock does, if nobody waits.
struct Opened<'a> {
    count: &'a Count,
    room: MutexGuard<'a, Room<Waker>>,
}

impl Deref for Opened<'_> {
    type Target = Room<Waker>;

    fn deref(&self) -> &Room<Waker> {
        &self.room
    }
}

impl DerefMut for Opened<'_> {
    fn deref_mut(&mut self) -> &mut Room<Waker> {
        &mut self.room
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let waits = if self.room.queued() > 0 { IN_ROOM } else { 0 };
        let word = Count::word(self.room.in_flight(), self.room.limits().max_concurrent);
        self.count.0.store(waits | word, Ordering::Release);
    }
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
            count: Count(AtomicU64::new(Count::word(0, room.limits().max_concurrent))),
            room: Mutex::new(room),
            class: class.map(Into::into),
            shared: AtomicBool::new(false),
            key: (*key).to_owned(),
        }
    }

    /// Takes the lock, and the count into the room.
    fn open(&self) -> Opened<'_> {
        let mut room = lock(&self.room);
        // Whoever comes now sees that the count is here, and waits for the lock.
        room.set_in_flight(self.count.0.fetch_or(IN_ROOM, Ordering::AcqRel) as u32);
        Opened { count: &self.count, room }
    }

    /// Whether this is the gate of `key`, and was made for it.
    #[inline]
    pub(super) fn is_of(&self, key: &KeyRef<'_>) -> bool {
        self.key.is(key)
    }

    /// Runs at once, if that is plain to see.
    #[inline]
    pub(super) fn pass(self: &Arc<Self>) -> Option<Permit> {
        self.count.enter().then(|| Permit(self.clone()))
    }

    pub(super) fn enter(self: &Arc<Self>, deadline: Option<Instant>) -> Entered {
        let mut room = self.open();
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
        let would_refuse = self.open().enter_anyway();
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
        let wakers = self.open().set_limits(limits);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many run and how many wait.
    pub(super) fn counts(&self) -> (u32, u32) {
        let room = self.open();
        (room.in_flight(), room.queued())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.0.count.leave() {
            let next = self.0.open().leave();
            next.into_iter().for_each(Waker::wake);
        }
    }
}

impl Place {
    /// Ready when the turn of this place has come, with the permit and how many others wait.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Permit, u32)> {
        let gate = self.gate.take().expect("polled after it was ready");
        let mut room = gate.open();
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
            let next = gate.open().give_up(self.ticket);
            next.into_iter().for_each(Waker::wake);
        }
    }
}
