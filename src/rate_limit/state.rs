//! Who goes and who waits for the rate of one key, without clocks, locks or tasks.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::{Left, bucket::Bucket, config::Limits};

/// The calls of one key. What comes back goes to whoever has waited longest: nobody who comes later overtakes.
#[derive(Debug)]
pub(super) struct Lane<W> {
    limits: Limits,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// The other side said that nothing goes before then.
    gate: Option<Instant>,
    /// By ticket, in order.
    waiting: VecDeque<Waiter<W>>,
    next: Ticket,
    /// Tokens of the calls that wait.
    wanted: u128,
    /// Tokens that calls under way were taken for: some may come back.
    under_way: u128,
    /// Changes when what was taken before is not to come back: it would make up tokens.
    epoch: u64,
}

#[derive(Debug)]
struct Waiter<W> {
    ticket: Ticket,
    tokens: u64,
    waker: Option<W>,
}

/// The number of one that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What a call has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    tokens: u64,
    epoch: u64,
}

/// What became of a call that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Free(Taken),
    Queued(Ticket),
    /// It could not go before `until`, whatever comes back. As things are, it could go then.
    TooLate(Instant),
}

/// Whether the turn of one that waits has come.
#[derive(Debug)]
pub(super) enum Turn<'a, W> {
    /// It has; the next is to be woken.
    Come(Taken, Option<W>),
    /// It is first, and is to ask again then.
    At(Instant, &'a mut Option<W>),
    /// Others come first.
    Behind(&'a mut Option<W>),
}

/// What a call really used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// It was not sent.
    Nothing,
    /// So many tokens.
    Tokens(u64),
    /// So many tokens, and perhaps more.
    AtLeast(u64),
    /// Nobody knows: what it was taken for stands.
    Unknown,
}

impl<W> Lane<W> {
    pub(super) fn new(limits: Limits, now: Instant) -> Self {
        let bucket = |rate: Option<u64>| rate.map(|rate| Bucket::full(rate, now));
        Self {
            limits,
            requests: bucket(limits.requests),
            tokens: bucket(limits.tokens),
            gate: None,
            waiting: VecDeque::new(),
            next: Ticket(0),
            wanted: 0,
            under_way: 0,
            epoch: 0,
        }
    }

    pub(super) const fn limits(&self) -> Limits {
        self.limits
    }

    /// A call came. It may wait until `until`.
    pub(super) fn enter(&mut self, tokens: u64, now: Instant, until: Instant) -> Entry {
        let ahead = (self.waiting.len() as u128, self.wanted);
        if self.waiting.is_empty() && self.when(tokens, ahead, 0, now) <= now {
            return Entry::Free(self.take(tokens, now));
        }
        if self.when(tokens, ahead, self.under_way, now) > until {
            return Entry::TooLate(self.when(tokens, ahead, 0, now));
        }
        let ticket = self.next;
        self.next = Ticket(ticket.0 + 1);
        self.wanted += u128::from(tokens);
        self.waiting.push_back(Waiter { ticket, tokens, waker: None });
        Entry::Queued(ticket)
    }

    /// A call came and goes whatever the rate says. Returns from when on it could have gone.
    pub(super) fn enter_anyway(&mut self, tokens: u64, now: Instant) -> (Taken, Instant) {
        let at = self.when(tokens, (0, 0), 0, now);
        (self.take(tokens, now), at)
    }

    /// Whether the turn of `ticket` has come: then it has taken what it wanted.
    pub(super) fn turn(&mut self, ticket: Ticket, now: Instant) -> Turn<'_, W> {
        let at = self.at(ticket).expect("a ticket is given back once");
        if at > 0 {
            return Turn::Behind(&mut self.waiting[at].waker);
        }
        let tokens = self.waiting[0].tokens;
        let when = self.when(tokens, (0, 0), 0, now);
        if when > now {
            return Turn::At(when, &mut self.waiting[0].waker);
        }
        let next = self.give_up(ticket);
        Turn::Come(self.take(tokens, now), next)
    }

    /// One that waited goes away. If it was first, the next is to be woken.
    pub(super) fn give_up(&mut self, ticket: Ticket) -> Option<W> {
        let at = self.at(ticket)?;
        let gone = self.waiting.remove(at)?;
        self.wanted -= u128::from(gone.tokens);
        if at == 0 { self.first() } else { None }
    }

    /// From when on the call of `ticket` could go, as things are.
    pub(super) fn forecast(&mut self, ticket: Ticket, now: Instant) -> Option<Instant> {
        let at = self.at(ticket)?;
        let ahead = self.waiting.iter().take(at).map(|waiter| u128::from(waiter.tokens)).sum();
        Some(self.when(self.waiting[at].tokens, (at as u128, ahead), 0, now))
    }

    /// A call is over. Whoever waits first is to be woken: its turn may come sooner.
    pub(super) fn settle(&mut self, taken: Taken, spent: Spent, now: Instant) -> Option<W> {
        self.under_way = self.under_way.saturating_sub(taken.tokens.into());
        let used = match spent {
            Spent::Nothing => 0,
            Spent::Tokens(used) => used,
            Spent::AtLeast(used) => used.max(taken.tokens),
            Spent::Unknown => taken.tokens,
        };
        // Else the other side counted this call when it said what is left, or the bucket is another one.
        let comes_back = taken.epoch == self.epoch;
        if let Some(bucket) = &mut self.tokens {
            match taken.tokens.checked_sub(used) {
                Some(less) if comes_back => bucket.give_back(less, now),
                Some(_) => {}
                None => bucket.spend(used - taken.tokens, now),
            }
        }
        if let (Some(bucket), Spent::Nothing, true) = (&mut self.requests, spent, comes_back) {
            bucket.give_back(1, now);
        }
        self.first()
    }

    /// The other side says that so much is left.
    pub(super) fn at_most(&mut self, requests: Option<u64>, tokens: Option<u64>, now: Instant) {
        for (bucket, left) in [(&mut self.requests, requests), (&mut self.tokens, tokens)] {
            if let (Some(bucket), Some(left)) = (bucket, left) {
                self.epoch += u64::from(bucket.at_most(left, now));
            }
        }
    }

    /// The other side asks to wait until then. A wait that it asked for before still holds.
    pub(super) fn keep_back(&mut self, until: Instant) {
        self.gate = Some(self.gate.map_or(until, |gate| gate.max(until)));
    }

    /// Sets the limits; who waits keeps the place. The first is to be woken.
    pub(super) fn set_limits(&mut self, limits: Limits, now: Instant) -> Option<W> {
        for (bucket, rate) in [(&mut self.requests, limits.requests), (&mut self.tokens, limits.tokens)] {
            match (bucket.as_mut(), rate) {
                (Some(bucket), Some(rate)) => bucket.set_rate(rate, now),
                (None, Some(rate)) => {
                    *bucket = Some(Bucket::full(rate, now));
                    self.epoch += 1;
                }
                (_, None) => *bucket = None,
            }
        }
        self.limits = limits;
        self.first()
    }

    /// As if nothing had ever been sent or said. The first is to be woken.
    pub(super) fn reset(&mut self, now: Instant) -> Option<W> {
        self.epoch += 1;
        self.gate = None;
        self.requests = self.limits.requests.map(|rate| Bucket::full(rate, now));
        self.tokens = self.limits.tokens.map(|rate| Bucket::full(rate, now));
        self.first()
    }

    pub(super) fn left(&mut self, now: Instant) -> Left {
        let less = |bucket: Option<&mut Bucket>, wanted: u128| {
            let left = bucket?.left(now).saturating_sub(i128::try_from(wanted).unwrap_or(i128::MAX));
            Some(left.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
        };
        Left {
            requests: less(self.requests.as_mut(), self.waiting.len() as u128),
            tokens: less(self.tokens.as_mut(), self.wanted),
            gated_until: self.gate.filter(|gate| *gate > now),
            waiting: self.waiting.len(),
        }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        let full = |bucket: &Option<Bucket>| bucket.as_ref().is_none_or(|bucket| bucket.is_full(now));
        self.gate.is_none_or(|gate| gate <= now) && full(&self.requests) && full(&self.tokens)
    }

    /// From when on a call can go behind others that take so many requests and tokens, if `back` tokens come back.
    fn when(&mut self, tokens: u64, (calls, ahead): (u128, u128), back: u128, now: Instant) -> Instant {
        let requests = self.requests.as_mut().map(|bucket| bucket.ready_at(1, calls, 0, now));
        let tokens = self.tokens.as_mut().map(|bucket| bucket.ready_at(tokens, ahead, back, now));
        [requests, tokens, self.gate].into_iter().flatten().fold(now, Instant::max)
    }

    fn take(&mut self, tokens: u64, now: Instant) -> Taken {
        if let Some(bucket) = &mut self.requests {
            bucket.spend(1, now);
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.spend(tokens, now);
        }
        self.under_way += u128::from(tokens);
        Taken { tokens, epoch: self.epoch }
    }

    fn first(&mut self) -> Option<W> {
        self.waiting.front_mut()?.waker.take()
    }

    fn at(&self, ticket: Ticket) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }
}
