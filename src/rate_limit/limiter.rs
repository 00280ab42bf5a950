//! The rate of one key, and what a call takes of it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use http::HeaderMap;
use tokio::time::Instant;

use super::{config::Rates, state::Bucket};
use crate::{classify::wait, lock::lock, verdict::Verdict};

/// No word of a provider keeps calls back for longer than this: it may be wrong.
const LONGEST: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Limiter(Mutex<Limits>);

#[derive(Debug)]
struct Limits {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// The other side said that nothing goes before then.
    gate: Option<Instant>,
}

/// What is left of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Left {
    /// Requests that may go now; less than zero where some wait. `None` where they are not limited.
    pub requests: Option<i64>,
    /// Tokens that may be spent now; less than zero where some are owed. `None` where they are not limited.
    pub tokens: Option<i64>,
    /// Until when the other side asked to wait.
    pub gated_until: Option<Instant>,
}

impl Limiter {
    pub(super) fn new(rates: Rates, now: Instant) -> Self {
        let bucket = |rate: Option<u64>| rate.map(|rate| Bucket::full(rate, now));
        let Rates { requests_per_minute, tokens_per_minute } = rates;
        Self(Mutex::new(Limits {
            requests: bucket(requests_per_minute),
            tokens: bucket(tokens_per_minute),
            gate: None,
        }))
    }

    /// Takes a request and `tokens`; from when on it may be sent.
    pub(super) fn take(self: &Arc<Self>, tokens: u64, now: Instant) -> (Share, Instant) {
        let mut limits = lock(&self.0);
        let requests = limits.requests.as_mut().map(|bucket| bucket.take(1, now));
        let free = limits.tokens.as_mut().map(|bucket| bucket.take(tokens, now));
        let gate = limits.gate.filter(|gate| *gate > now);
        let at = [requests, free, gate].into_iter().flatten().fold(now, Instant::max);
        (Share { limiter: self.clone(), tokens, held: true }, at)
    }

    /// Until when the other side asked to wait.
    pub(super) fn gate(&self, now: Instant) -> Option<Instant> {
        lock(&self.0).gate.filter(|gate| *gate > now)
    }

    pub(super) fn left(&self, now: Instant) -> Left {
        let mut limits = lock(&self.0);
        let left = |bucket: Option<&mut Bucket>| {
            bucket.map(|bucket| bucket.left(now).clamp(i64::MIN.into(), i64::MAX.into()) as i64)
        };
        Left {
            requests: left(limits.requests.as_mut()),
            tokens: left(limits.tokens.as_mut()),
            gated_until: limits.gate.filter(|gate| *gate > now),
        }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        let limits = lock(&self.0);
        let full = |bucket: &Option<Bucket>| bucket.as_ref().is_none_or(|bucket| bucket.is_full(now));
        limits.gate.is_none_or(|gate| gate <= now) && full(&limits.requests) && full(&limits.tokens)
    }

    pub(super) fn configure(&self, rates: Rates, now: Instant) {
        let mut limits = lock(&self.0);
        let change = |bucket: &mut Option<Bucket>, rate: Option<u64>| match (bucket.as_mut(), rate) {
            (Some(bucket), Some(rate)) => bucket.set_rate(rate, now),
            (None, Some(rate)) => *bucket = Some(Bucket::full(rate, now)),
            (_, None) => *bucket = None,
        };
        change(&mut limits.requests, rates.requests_per_minute);
        change(&mut limits.tokens, rates.tokens_per_minute);
    }

    /// What the head of an answer says of the rate. It only makes the rate stricter, and not for long.
    pub(super) fn hear(&self, headers: &HeaderMap, now: Instant) {
        let mut limits = lock(&self.0);
        for (name, value) in headers {
            let name = name.as_str();
            if !name.contains("ratelimit") || !name.contains("remaining") {
                continue;
            }
            let Some(left) = value.to_str().ok().and_then(|left| left.trim().parse().ok()) else { continue };
            let bucket = match () {
                () if name.contains("token") => limits.tokens.as_mut(),
                () if name.contains("request") => limits.requests.as_mut(),
                () => None,
            };
            // Nothing left says when there is some again; a bucket at zero would guess.
            if let Some(bucket) = bucket.filter(|_| left > 0) {
                bucket.at_most(left, now);
            }
        }
        if let Some(wait) = wait::window(headers, SystemTime::now()) {
            limits.keep_back(now.checked_add(wait), now);
        }
    }

    /// What the end of an answer says of the rate.
    fn hear_verdict(limits: &mut Limits, verdict: &Verdict, now: Instant) {
        if verdict.class() == crate::reason::Class::RateLimited {
            limits.keep_back(verdict.retry_at, now);
        }
    }
}

impl Limits {
    fn keep_back(&mut self, until: Option<Instant>, now: Instant) {
        let Some(until) = until else { return };
        let until = until.min(now + LONGEST);
        self.gate = Some(self.gate.map_or(until, |gate| gate.max(until)));
    }
}

/// What a call has taken. Dropped, it stays taken: the call may have been sent.
#[derive(Debug)]
pub(super) struct Share {
    limiter: Arc<Limiter>,
    tokens: u64,
    held: bool,
}

impl Share {
    pub(super) fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Nothing was sent: all of it comes back.
    pub(super) fn give_back(mut self) {
        self.held = false;
        let (mut limits, now) = (lock(&self.limiter.0), Instant::now());
        if let Some(bucket) = &mut limits.requests {
            bucket.give_back(1, now);
        }
        if let Some(bucket) = &mut limits.tokens {
            bucket.give_back(self.tokens, now);
        }
    }

    /// The call is over: what it really used counts, where that was stated.
    pub(super) fn settle(mut self, verdict: &Verdict) {
        self.held = false;
        let (mut limits, now) = (lock(&self.limiter.0), Instant::now());
        Limiter::hear_verdict(&mut limits, verdict, now);
        let usage = verdict.usage();
        let spent =
            usage.and_then(|usage| Some(usage.input_total()?.saturating_add(usage.output_total().unwrap_or(0))));
        let (Some(bucket), Some(spent)) = (&mut limits.tokens, spent) else { return };
        if spent <= self.tokens {
            bucket.give_back(self.tokens - spent, now);
        } else {
            bucket.owe(spent - self.tokens, now);
        }
    }
}
