//! Windows that truly slide, at flat cost: the last attempts, the last times, a rate over time, a moving average.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// `now + by`, or about thirty years on where that cannot be expressed.
pub(super) fn later(now: Instant, by: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);
    now.checked_add(by.min(FAR)).unwrap_or(now)
}

/// Moves `instant` back with a clock that went back.
pub(super) fn rewind(instant: &mut Instant, by: Duration) {
    *instant = instant.checked_sub(by).unwrap_or(*instant);
}

/// Which of the last attempts were bad: a shift register, so that the oldest falls out as the newest comes in.
///
/// The window is given with each question: a changed setting keeps what is known.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    newest: u64,
    /// Attempts 65 to 1,024, only where the window is that long.
    older: Option<Box<[u64; 15]>>,
}

impl Attempts {
    pub(super) fn push(&mut self, bad: bool, window: u32) {
        let mut carry = self.newest >> 63;
        self.newest = (self.newest << 1) | u64::from(bad);
        if window > 64 {
            for word in self.older.get_or_insert_default().iter_mut() {
                (*word, carry) = ((*word << 1) | carry, *word >> 63);
            }
        }
    }

    pub(super) fn count(&self, window: u32) -> u32 {
        let masked = |word: u64, size: u32| if size >= 64 { word } else { word & ((1 << size) - 1) };
        let mut count = masked(self.newest, window).count_ones();
        let mut left = window.saturating_sub(64);
        for word in self.older.iter().flat_map(|older| older.iter()) {
            count += masked(*word, left).count_ones();
            left = left.saturating_sub(64);
        }
        count
    }
}

/// The last few instants at which something happened.
#[derive(Debug, Default)]
pub(super) struct Times(VecDeque<Instant>);

impl Times {
    /// Adds `now` and says whether the last `count` lie within the window.
    pub(super) fn push(&mut self, now: Instant, count: u32, within: Duration) -> bool {
        self.prune(now, within);
        while self.0.len() >= count.max(1) as usize {
            self.0.pop_front();
        }
        self.0.push_back(now);
        self.0.len() >= count.max(1) as usize
    }

    pub(super) fn count(&self, now: Instant, within: Duration) -> u32 {
        self.0.iter().filter(|at| now.saturating_duration_since(**at) < within).count() as u32
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn rewind(&mut self, by: Duration) {
        self.0.iter_mut().for_each(|at| rewind(at, by));
    }

    fn prune(&mut self, now: Instant, within: Duration) {
        while self.0.front().is_some_and(|at| now.saturating_duration_since(*at) >= within) {
            self.0.pop_front();
        }
    }
}

const BUCKETS: usize = 16;

/// Attempts and failures over a time window, in sixteen buckets: when time moves on, the oldest bucket falls out.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Attempts and failures; `head` is the newest.
    buckets: [(u32, u32); BUCKETS],
    head: usize,
    /// When the newest bucket began.
    start: Option<Instant>,
}

impl Rate {
    pub(super) fn push(&mut self, failed: bool, now: Instant, within: Duration) {
        let start = *self.start.get_or_insert(now);
        let width = width(within);
        let steps = now.saturating_duration_since(start).as_nanos() / width.as_nanos();
        for _ in 0..steps.min(BUCKETS as u128) {
            self.head = (self.head + 1) % BUCKETS;
            self.buckets[self.head] = (0, 0);
        }
        let whole = u32::try_from(steps).ok().and_then(|steps| width.checked_mul(steps));
        self.start = Some(whole.and_then(|whole| start.checked_add(whole)).unwrap_or(now));
        let bucket = &mut self.buckets[self.head];
        bucket.0 = bucket.0.saturating_add(1);
        bucket.1 = bucket.1.saturating_add(u32::from(failed));
    }

    /// Attempts and failures that are still in the window at `now`.
    pub(super) fn sums(&self, now: Instant, within: Duration) -> (u64, u64) {
        let Some(start) = self.start else { return (0, 0) };
        let steps = now.saturating_duration_since(start).as_nanos() / width(within).as_nanos();
        let kept = BUCKETS.saturating_sub(usize::try_from(steps).unwrap_or(BUCKETS));
        (0..kept)
            .map(|back| self.buckets[(self.head + BUCKETS - back) % BUCKETS])
            .fold((0, 0), |sum, bucket| (sum.0 + u64::from(bucket.0), sum.1 + u64::from(bucket.1)))
    }

    pub(super) fn rewind(&mut self, by: Duration) {
        self.start.iter_mut().for_each(|start| rewind(start, by));
    }
}

fn width(within: Duration) -> Duration {
    (within / BUCKETS as u32).max(Duration::from_nanos(1))
}

/// An exponential moving average that starts as a plain mean, so that the first value does not weigh most.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Average {
    mean: f64,
    samples: u32,
}

impl Average {
    /// Adds `value`; what is not a finite number says nothing.
    pub(super) fn push(&mut self, value: f64, span: u32) {
        if value.is_finite() {
            self.samples = self.samples.saturating_add(1);
            let weight = (2.0 / (f64::from(span) + 1.0)).max(1.0 / f64::from(self.samples));
            // Two products rather than a difference, which could overflow.
            self.mean = self.mean * (1.0 - weight) + value * weight;
        }
    }

    /// The average, once there are `min_sample` values.
    pub(super) fn get(&self, min_sample: u32) -> Option<f64> {
        (self.samples >= min_sample.max(1)).then_some(self.mean)
    }
}
