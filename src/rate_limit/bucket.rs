//! A bucket that can be corrected: pure, an amount and an instant in, an instant out.

use std::time::Duration;

use tokio::time::Instant;

/// Units in one token, so that one nanosecond of refill at one token a minute is one unit: nothing is ever rounded.
const UNIT: i128 = 60_000_000_000;
/// A wait of a year is never.
const NEVER: Duration = Duration::from_secs(86_400 * 365);

/// What may be spent now, and what comes back with time. It may be in debt.
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

    /// From when on `amount` may be spent by one who comes behind others that spend `ahead`, if `more` comes back before.
    ///
    /// Who wants more than a bucket holds goes when it is full, and leaves a debt: it could never go otherwise.
    pub(super) fn ready_at(&mut self, amount: u64, ahead: u128, more: u128, now: Instant) -> Instant {
        self.refill(now);
        let capacity = capacity(self.per_minute);
        let level = self.level.saturating_add(units(more)).min(capacity);
        let missing = units(ahead).saturating_add(units(amount.into()).min(capacity)).saturating_sub(level);
        if missing <= 0 {
            return now;
        }
        let nanos = missing.saturating_sub(1) / i128::from(self.per_minute.max(1)) + 1;
        let wait = u64::try_from(nanos).map_or(NEVER, Duration::from_nanos).min(NEVER);
        now.checked_add(wait).unwrap_or(now)
    }

    /// Takes `amount`.
    pub(super) fn spend(&mut self, amount: u64, now: Instant) {
        self.refill(now);
        self.level = self.level.saturating_sub(units(amount.into()));
    }

    /// Gives back what was taken and not used.
    pub(super) fn give_back(&mut self, amount: u64, now: Instant) {
        self.refill(now);
        self.level = self.level.saturating_add(units(amount.into())).min(capacity(self.per_minute));
    }

    /// The other side says that no more than this is left; whether that is news. It never says that there is more.
    pub(super) fn at_most(&mut self, left: u64, now: Instant) -> bool {
        self.refill(now);
        let told = units(left.into());
        let is_news = told < self.level;
        self.level = self.level.min(told);
        is_news
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
        let spent = capacity(self.per_minute).saturating_sub(self.level);
        self.per_minute = per_minute;
        self.level = capacity(per_minute).saturating_sub(spent);
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_nanos();
        self.at = self.at.max(now);
        let back = i128::try_from(passed).unwrap_or(i128::MAX).saturating_mul(i128::from(self.per_minute));
        self.level = self.level.saturating_add(back).min(capacity(self.per_minute));
    }
}

fn capacity(per_minute: u64) -> i128 {
    units(per_minute.into())
}

fn units(amount: u128) -> i128 {
    i128::try_from(amount).unwrap_or(i128::MAX).saturating_mul(UNIT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    impl Bucket {
        fn free(&mut self, amount: u64, now: Instant) -> Instant {
            self.ready_at(amount, 0, 0, now)
        }
    }

    #[test]
    fn a_minutes_worth_goes_at_once_and_the_rest_in_turn() {
        let now = Instant::now();
        let mut bucket = Bucket::full(60, now);
        assert_eq!(bucket.free(60, now), now);
        bucket.spend(60, now);
        assert_eq!(bucket.free(1, now), now + seconds(1));
        assert_eq!(bucket.ready_at(2, 1, 0, now), now + seconds(3));
        assert_eq!(bucket.ready_at(2, 1, 2, now), now + seconds(1));
        bucket.spend(3, now + seconds(3));
        assert_eq!(bucket.free(1, now + seconds(3)), now + seconds(4));
        assert!(!bucket.is_full(now + seconds(62)) && bucket.is_full(now + seconds(63)));
    }

    #[test]
    fn more_than_a_minutes_worth_goes_when_the_bucket_is_full_and_is_owed_then() {
        let now = Instant::now();
        let mut bucket = Bucket::full(60, now);
        assert_eq!(bucket.free(180, now), now);
        bucket.spend(180, now);
        assert_eq!(bucket.free(1, now), now + seconds(121));
        assert_eq!(bucket.free(180, now), now + seconds(180));
    }

    #[test]
    fn a_correction_counts_and_never_makes_more_than_a_minutes_worth() {
        let now = Instant::now();
        let mut bucket = Bucket::full(60, now);
        bucket.spend(30, now);
        bucket.spend(45, now);
        assert_eq!((bucket.left(now), bucket.free(0, now)), (-15, now + seconds(15)));
        bucket.give_back(u64::MAX, now);
        assert_eq!(bucket.left(now), 60);
        assert!(bucket.at_most(5, now) && !bucket.at_most(50, now));
        assert_eq!(bucket.left(now), 5);
    }

    #[test]
    fn extremes_neither_overflow_nor_go_back_in_time() {
        let now = Instant::now();
        let mut bucket = Bucket::full(u64::MAX, now);
        bucket.spend(u64::MAX, now);
        bucket.spend(u64::MAX, now);
        assert!(bucket.free(u64::MAX, now) > now);
        assert!(bucket.ready_at(u64::MAX, u128::MAX, u128::MAX, now) > now);
        let years = now + seconds(86_400 * 365 * 30);
        assert!(bucket.is_full(years));
        bucket.spend(1, years);
        bucket.spend(1, now);
        let mut slow = Bucket::full(1, now);
        (0..64).for_each(|_| slow.spend(u64::MAX, now));
        assert!(slow.free(1, now) > now + seconds(86_400));
        slow.set_rate(u64::MAX, now);
        slow.set_rate(1, now);
    }

    #[test]
    fn another_rate_keeps_what_was_spent() {
        let now = Instant::now();
        let mut bucket = Bucket::full(60, now);
        bucket.spend(60, now);
        bucket.set_rate(120, now);
        assert_eq!(bucket.left(now), 60);
        bucket.set_rate(30, now);
        assert_eq!(bucket.left(now), -30);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Pause(u64),
        Spend(u64),
        GiveBack(u64),
        AtMost(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0_u64..20_000).prop_map(Step::Pause),
            (0_u64..80).prop_map(Step::Spend),
            (0_u64..80).prop_map(Step::GiveBack),
            (0_u64..80).prop_map(Step::AtMost),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A level that is plainly right, counted up millisecond by millisecond in sixty-thousandths, beside the bucket.
        #[test]
        fn the_bucket_does_as_a_naive_one(per_minute in 1_u64..100, steps in steps()) {
            const WHOLE: i64 = 60_000;
            let mut now = Instant::now();
            let (mut bucket, most, rate) = (Bucket::full(per_minute, now), per_minute as i64 * WHOLE, per_minute as i64);
            let mut level = most;
            for step in steps {
                match step {
                    Step::Pause(millis) => {
                        now += Duration::from_millis(millis);
                        (0..millis).for_each(|_| level = (level + rate).min(most));
                    }
                    Step::Spend(amount) => {
                        let wanted = (amount as i64 * WHOLE).min(most);
                        let mut waited = 0;
                        while level < wanted {
                            level = (level + rate).min(most);
                            waited += 1;
                        }
                        // To the next whole millisecond, as the naive one counts.
                        let wait = bucket.free(amount, now).saturating_duration_since(now);
                        prop_assert_eq!(wait.as_nanos().div_ceil(1_000_000), waited);
                        now += Duration::from_millis(waited as u64);
                        level -= amount as i64 * WHOLE;
                        bucket.spend(amount, now);
                    }
                    Step::GiveBack(amount) => {
                        bucket.give_back(amount, now);
                        level = (level + amount as i64 * WHOLE).min(most);
                    }
                    Step::AtMost(left) => {
                        let told = left as i64 * WHOLE;
                        prop_assert_eq!(bucket.at_most(left, now), told < level);
                        level = level.min(told);
                    }
                }
                prop_assert_eq!(bucket.left(now), i128::from(level.div_euclid(WHOLE)));
                prop_assert_eq!(bucket.is_full(now), level == most);
            }
        }
    }
}
