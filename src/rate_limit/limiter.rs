//! The rate of one key, and the guards of those that take of it and those that wait.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use http::HeaderMap;
use tokio::time::Instant;

use super::{
    config::RateLimitConfig,
    headers,
    state::{Entry, Lane, Spent, Taken, Ticket, Turn},
};
use crate::{
    call::{Call, KeyBuf, KeyRef, Name},
    lock::lock,
    reason::Class,
    verdict::{Usage, Verdict},
};

/// No word of a provider keeps calls back for longer than this: it may be wrong.
const LONGEST: Duration = Duration::from_secs(600);

/// The rate of one key, behind a lock that no other key takes.
pub(super) struct Limiter {
    key: KeyBuf,
    model: Option<Box<str>>,
    /// For want of room it is also that of other keys.
    shared: AtomicBool,
    lane: Mutex<Lane<Waker>>,
}

/// What is left of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Left {
    /// Requests that may go now; less than zero where some wait. `None` where they are not limited.
    pub requests: Option<i64>,
    /// Tokens that may be spent now; less than zero where some are owed or waited for. `None` where they are not limited.
    pub tokens: Option<i64>,
    /// Until when the other side asked to wait.
    pub gated_until: Option<Instant>,
    /// How many calls wait for their turn.
    pub waiting: usize,
}

/// What a call has taken. Dropped before the call was sent it comes back; later it stays taken.
pub(super) struct Share {
    limiter: Arc<Limiter>,
    taken: Option<Taken>,
    is_sent: bool,
}

/// A place among those who wait. Dropping it gives it up.
pub(super) struct Place {
    limiter: Arc<Limiter>,
    /// None once its turn has come.
    ticket: Option<Ticket>,
    pub(super) until: Instant,
}

/// What became of a call that came.
pub(super) enum Entered {
    Free(Share),
    Queued(Place),
    TooLate(Instant),
}

impl Limiter {
    pub(super) fn new(key: &KeyRef<'_>, call: &Call, config: &RateLimitConfig, now: Instant) -> Self {
        let model = call.name(Name::Operation);
        Self {
            key: (*key).to_owned(),
            model: model.map(Into::into),
            shared: AtomicBool::new(false),
            lane: Mutex::new(Lane::new(config.limits(model), now)),
        }
    }

    /// Whether this is the rate of `key`, and was made for it.
    #[inline]
    pub(super) fn is_of(&self, key: &KeyRef<'_>) -> bool {
        self.key.is(key)
    }

    pub(super) fn enter(self: &Arc<Self>, call: &Call) -> Entered {
        let mut lane = lock(&self.lane);
        let (limits, now) = (lane.limits(), Instant::now());
        let own = now.checked_add(limits.max_wait).unwrap_or(now);
        let until = call.deadline_at().map_or(own, |deadline| deadline.min(own));
        let entry = lane.enter(call.estimated_tokens().unwrap_or(limits.default_estimate), now, until);
        drop(lane);
        match entry {
            Entry::Free(taken) => Entered::Free(self.share(taken)),
            Entry::Queued(ticket) => Entered::Queued(Place { limiter: self.clone(), ticket: Some(ticket), until }),
            Entry::TooLate(at) => Entered::TooLate(at),
        }
    }

    /// Goes whatever the rate says; from when on it could have gone, if that is too late.
    pub(super) fn enter_anyway(self: &Arc<Self>, call: &Call) -> (Share, Option<Instant>) {
        let mut lane = lock(&self.lane);
        let (limits, now) = (lane.limits(), Instant::now());
        let (taken, at) = lane.enter_anyway(call.estimated_tokens().unwrap_or(limits.default_estimate), now);
        drop(lane);
        let patience = call.deadline_at().map(|deadline| deadline.saturating_duration_since(now));
        let wait = at.saturating_duration_since(now);
        let is_late = !wait.is_zero() && wait > patience.unwrap_or(Duration::MAX).min(limits.max_wait);
        (self.share(taken), is_late.then_some(at))
    }

    fn share(self: &Arc<Self>, taken: Taken) -> Share {
        Share { limiter: self.clone(), taken: Some(taken), is_sent: false }
    }

    pub(super) fn left(&self, now: Instant) -> Left {
        lock(&self.lane).left(now)
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        lock(&self.lane).is_full(now)
    }

    /// Takes the limits that `config` has for this model. A rate that keys share has nobody's own.
    pub(super) fn configure(&self, config: &RateLimitConfig) {
        let model = self.model.as_deref().filter(|_| !self.shared.load(Ordering::Acquire));
        self.change(|lane| lane.set_limits(config.limits(model), Instant::now()));
    }

    /// For want of room this is also the rate of others.
    pub(super) fn become_shared(&self, config: &RateLimitConfig) {
        if !self.shared.swap(true, Ordering::AcqRel) {
            self.configure(config);
        }
    }

    pub(super) fn reset(&self) {
        self.change(|lane| lane.reset(Instant::now()));
    }

    /// Whoever is to be woken is woken outside of the lock.
    fn change(&self, change: impl FnOnce(&mut Lane<Waker>) -> Option<Waker>) {
        let next = change(&mut lock(&self.lane));
        next.into_iter().for_each(Waker::wake);
    }

    /// What the head of an answer says of the rate. It only makes the rate stricter, and not for long.
    pub(super) fn hear(&self, headers: &HeaderMap) {
        let Some(told) = headers::read(headers) else { return };
        let (mut lane, now) = (lock(&self.lane), Instant::now());
        lane.at_most(told.requests, told.tokens, now);
        if let Some(wait) = told.wait {
            lane.keep_back(now + wait.min(LONGEST));
        }
    }
}

impl Share {
    pub(super) fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// From now on nobody can say that it was not sent.
    pub(super) const fn sent(&mut self) {
        self.is_sent = true;
    }

    /// It was not sent after all.
    pub(super) fn give_back(mut self) {
        self.is_sent = false;
    }

    /// The call is over: what it really used counts, where that was stated.
    pub(super) fn settle(mut self, verdict: &Verdict) {
        if let (Class::RateLimited, Some(at)) = (verdict.class(), verdict.retry_at) {
            lock(&self.limiter.lane).keep_back(at.min(Instant::now() + LONGEST));
        }
        self.end(spent(verdict));
    }

    fn end(&mut self, spent: Spent) {
        if let Some(taken) = self.taken.take() {
            self.limiter.change(|lane| lane.settle(taken, spent, Instant::now()));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.end(if self.is_sent { Spent::Unknown } else { Spent::Nothing });
    }
}

/// What the end of an answer says of the tokens used. Of an answer that broke off it is the least.
fn spent(verdict: &Verdict) -> Spent {
    let Some(usage) = verdict.usage() else { return Spent::Unknown };
    let whole = match (usage.input_total(), usage.output_total()) {
        (Some(input), Some(output)) => Some(input.saturating_add(output)),
        _ => usage.total_tokens,
    };
    match whole {
        Some(tokens) if verdict.class() != Class::Unknown => Spent::Tokens(tokens),
        whole => Spent::AtLeast(whole.unwrap_or_else(|| stated(&usage))),
    }
}

fn stated(usage: &Usage) -> u64 {
    usage.input_total().unwrap_or(0).saturating_add(usage.output_total().unwrap_or(0))
}

impl Place {
    /// What the call has taken, if its turn has come; else when to ask again at the latest.
    pub(super) fn turn(&mut self, cx: &Context<'_>) -> Result<Share, Instant> {
        let ticket = self.ticket.expect("polled after it was ready");
        let mut lane = lock(&self.limiter.lane);
        let (at, waker) = match lane.turn(ticket, Instant::now()) {
            Turn::Come(taken, next) => {
                drop(lane);
                self.ticket = None;
                next.into_iter().for_each(Waker::wake);
                return Ok(self.limiter.share(taken));
            }
            Turn::At(at, waker) => (at.min(self.until), waker),
            Turn::Behind(waker) => (self.until, waker),
        };
        match waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
        Err(at)
    }

    /// From when on it could go, as things are.
    pub(super) fn forecast(&self) -> Option<Instant> {
        lock(&self.limiter.lane).forecast(self.ticket?, Instant::now())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.limiter.change(|lane| lane.give_up(ticket));
        }
    }
}
