//! A bucket that can be corrected: pure, an amount and an instant in, an instant out.

use std::time::Duration;

use tokio::time::Instant;

/// Units in one token, so that one nanosecond of refill at one token a minute is one unit: nothing is ever rounded.
const UNIT: i128 = 60_000_000_000;

/// What may be spent now, and what comes back with time.
///
/// It may be in debt: whoever comes then goes later, each behind those who came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bucket {
    per_minute: u64,
    level: i128,
    at: Instant,
}

impl Bucket {
    /// A full bucket: a minute's worth.
    pub(super) fn full(per_minute: u64, now: Instant) -> Self {
        Self { per_minute, level: capacity(per_minute), at: now }
    }

    /// Takes `amount`; from when on it may be used.
    pub(super) fn take(&mut self, amount: u64, now: Instant) -> Instant {
        self.refill(now);
        self.level -= i128::from(amount) * UNIT;
        self.free_at(now)
    }

    /// From when on nothing is owed.
    pub(super) fn free_at(&self, now: Instant) -> Instant {
        if self.level >= 0 {
            return now;
        }
        let rate = i128::from(self.per_minute.max(1));
        let nanos = (rate - 1 - self.level) / rate;
        let wait = u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos);
        // Further than the clock goes is never.
        now.checked_add(wait).unwrap_or(now + Duration::from_secs(86_400 * 365))
    }

    /// Gives back what was taken and not used.
    pub(super) fn give_back(&mut self, amount: u64, now: Instant) {
        self.refill(now);
        self.level = (self.level + i128::from(amount) * UNIT).min(capacity(self.per_minute));
    }

    /// More was used than was taken.
    pub(super) fn owe(&mut self, amount: u64, now: Instant) {
        self.refill(now);
        self.level -= i128::from(amount) * UNIT;
    }

    /// The other side says that no more than this is left. It never says that there is more.
    pub(super) fn at_most(&mut self, left: u64, now: Instant) {
        self.refill(now);
        self.level = self.level.min(i128::from(left) * UNIT);
    }

    /// What is left, in whole tokens; less than nothing where some is owed.
    pub(super) fn left(&mut self, now: Instant) -> i128 {
        self.refill(now);
        self.level.div_euclid(UNIT)
    }

    pub(super) fn is_full(&self, now: Instant) -> bool {
        let mut later = self.clone();
        later.refill(now);
        later.level >= capacity(self.per_minute)
    }

    /// Another rate; what is owed stays owed.
    pub(super) fn set_rate(&mut self, per_minute: u64, now: Instant) {
        self.refill(now);
        let spent = capacity(self.per_minute) - self.level;
        self.per_minute = per_minute;
        self.level = capacity(per_minute) - spent;
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_nanos();
        self.at = self.at.max(now);
        let back = i128::try_from(passed).unwrap_or(i128::MAX).saturating_mul(i128::from(self.per_minute));
        self.level = self.level.saturating_add(back).min(capacity(self.per_minute));
    }
}

fn capacity(per_minute: u64) -> i128 {
    i128::from(per_minute) * UNIT
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_minutes_worth_goes_at_once_and_the_rest_in_turn() {
        let now = Instant::now();
        let mut bucket = Bucket::full(60, now);
        assert_eq!(bucket.take(60, now), now);
        assert_eq!(bucket.take(1, now), now + seconds(1));
        assert_eq!(bucket.take(2, now), now + seconds(3));
        assert_eq!(bucket.take(1, now + seconds(3)), now + seconds(4));
        assert!(!bucket.is_full(now + seconds(63)) && bucket.is_full(now + seconds(64)));
    }

    #[test]
    fn more_than_a_minutes_worth_waits_for_what_it_owes() {
        let now = Instant::now();
        assert_eq!(Bucket::full(60, now).take(180, now), now + seconds(120));
    }

    #[test]
    fn a_correction_counts_and_never_makes_more_than_a_minutes_worth() {
        let now = Instant::now();
        let mut bucket = Bucket::full(60, now);
        bucket.take(30, now);
        bucket.owe(45, now);
        assert_eq!((bucket.left(now), bucket.free_at(now)), (-15, now + seconds(15)));
        bucket.give_back(u64::MAX, now);
        assert_eq!(bucket.left(now), 60);
        bucket.at_most(5, now);
        bucket.at_most(50, now);
        assert_eq!(bucket.left(now), 5);
    }

    #[test]
    fn extremes_neither_overflow_nor_go_back_in_time() {
        let now = Instant::now();
        let mut bucket = Bucket::full(u64::MAX, now);
        bucket.take(u64::MAX, now);
        bucket.owe(u64::MAX, now);
        assert!(bucket.free_at(now) > now);
        let years = now + seconds(86_400 * 365 * 30);
        assert!(bucket.is_full(years));
        bucket.take(1, years);
        bucket.take(1, now);
        let mut slow = Bucket::full(1, now);
        slow.take(u64::MAX, now);
        assert!(slow.free_at(now) > now + seconds(86_400));
    }

    #[test]
    fn another_rate_keeps_what_was_spent() {
        let now = Instant::now();
        let mut bucket = Bucket::full(60, now);
        bucket.take(60, now);
        bucket.set_rate(120, now);
        assert_eq!(bucket.left(now), 60);
        bucket.set_rate(30, now);
        assert_eq!(bucket.left(now), -30);
    }

    proptest! {
        /// Whatever is taken when, in no span of time goes more than a minute's worth and what came back meanwhile.
        #[test]
        fn the_rate_is_never_exceeded(per_minute in 1_u64..1_000, takes in prop::collection::vec((0_u64..5_000, 1_u64..50), 1..60)) {
            let start = Instant::now();
            let mut bucket = Bucket::full(per_minute, start);
            let (mut now, mut gone) = (start, Vec::new());
            for (pause, amount) in takes {
                now += Duration::from_millis(pause);
                let at = bucket.take(amount, now);
                prop_assert!(at >= now);
                gone.push((at, amount));
            }
            for (from, (begin, _)) in gone.iter().enumerate() {
                let mut sum = 0;
                for (at, amount) in &gone[from + 1..] {
                    sum += amount;
                    let span = at.saturating_duration_since(*begin).as_nanos() as i128;
                    let allowed = capacity(per_minute) + span * i128::from(per_minute);
                    prop_assert!(i128::from(sum) * UNIT <= allowed);
                }
            }
        }
    }
}
