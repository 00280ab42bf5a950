//! The windows of a target's health: failures, malformed answers, slow calls, quality and cost.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    config::TripCard,
    event::Settled,
    window::{Attempts, Average, Rate},
    words::{Counts, Signal},
};
use crate::reason::Impact;

/// Every attempt moves every window: what says nothing of the target fills them with a zero.
#[derive(Debug, Default)]
pub(super) struct Health {
    failures: Attempts,
    malformed: Attempts,
    slow: Attempts,
    rate: Option<Box<Rate>>,
    averages: Option<Box<Averages>>,
}

#[derive(Debug, Default)]
struct Averages {
    quality: Average,
    cost: Average,
}

pub(super) fn is_slow(settled: &Settled<'_>, card: &TripCard) -> bool {
    let row = &card.slow_calls;
    row.enabled
        && settled.latency.is_some_and(|latency| latency >= row.threshold)
        && (settled.queued || !row.only_while_queued)
}

/// Whether this result changes windows that are still clear.
pub(super) fn matters(settled: &Settled<'_>, card: &TripCard) -> bool {
    let impact = settled.impact();
    (card.failures.enabled && (impact == Impact::Trip || card.failures.rate.is_some()))
        || (card.malformed.enabled && impact == Impact::Malformed)
        || is_slow(settled, card)
        || (card.quality.enabled && settled.score.is_some())
        || (card.cost.enabled && settled.cost.is_some())
}

impl Health {
    /// Counts one attempt; says which threshold is reached, if one is.
    pub(super) fn push(&mut self, settled: &Settled<'_>, now: Instant, card: &TripCard) -> Option<Signal> {
        let impact = settled.impact();
        let failed = impact == Impact::Trip;
        if card.failures.enabled {
            match &card.failures.rate {
                Some(row) => self.rate.get_or_insert_default().push(failed, now, row.within),
                None => self.failures.push(failed, card.failures.window),
            }
        }
        if card.malformed.enabled {
            self.malformed.push(impact == Impact::Malformed, card.malformed.window);
        }
        if card.slow_calls.enabled {
            self.slow.push(is_slow(settled, card), card.slow_calls.window);
        }
        if let Some(score) = settled.score.filter(|_| card.quality.enabled) {
            self.averages.get_or_insert_default().quality.push(score, card.quality.span);
        }
        if let Some(cost) = settled.cost.filter(|_| card.cost.enabled) {
            self.averages.get_or_insert_default().cost.push(cost, card.cost.span);
        }
        self.reached(now, card)
    }

    fn reached(&self, now: Instant, card: &TripCard) -> Option<Signal> {
        let failures = &card.failures;
        if let (true, Some(row)) = (failures.enabled, &failures.rate) {
            let (attempts, failed) = self.rate.as_ref().map_or((0, 0), |rate| rate.sums(now, row.within));
            let enough = attempts >= u64::from(row.min_sample.max(1));
            if enough && failed > 0 && failed as f64 >= row.share * attempts as f64 {
                return Some(Signal::FailureRate);
            }
        }
        let full = |attempts: &Attempts, count: u32, window: u32| attempts.count(window) >= count.max(1);
        if failures.enabled && failures.rate.is_none() && full(&self.failures, failures.count, failures.window) {
            return Some(Signal::Failures);
        }
        if card.malformed.enabled && full(&self.malformed, card.malformed.count, card.malformed.window) {
            return Some(Signal::Malformed);
        }
        if card.slow_calls.enabled && full(&self.slow, card.slow_calls.count, card.slow_calls.window) {
            return Some(Signal::SlowCalls);
        }
        let averages = self.averages.as_ref()?;
        let average = |average: &Average, min_sample| average.get(min_sample);
        if card.quality.enabled
            && average(&averages.quality, card.quality.min_sample).is_some_and(|mean| mean < card.quality.floor)
        {
            return Some(Signal::Quality);
        }
        let dear = average(&averages.cost, card.cost.min_sample).is_some_and(|mean| mean > card.cost.ceiling);
        (card.cost.enabled && dear).then_some(Signal::Cost)
    }

    pub(super) fn fill(&self, counts: &mut Counts, now: Instant, card: &TripCard) {
        counts.failures = match &card.failures.rate {
            Some(row) => {
                self.rate.as_ref().map_or(0, |rate| rate.sums(now, row.within).1.try_into().unwrap_or(u32::MAX))
            }
            None => self.failures.count(card.failures.window),
        };
        counts.malformed = self.malformed.count(card.malformed.window);
        counts.slow = self.slow.count(card.slow_calls.window);
    }

    pub(super) fn is_clear(&self, now: Instant, card: &TripCard) -> bool {
        let within = card.failures.rate.as_ref().map_or(Duration::ZERO, |row| row.within);
        let attempts = self.rate.as_ref().map_or(0, |rate| rate.sums(now, within).0);
        attempts == 0
            && self.averages.is_none()
            && self.failures.count(card.failures.window) == 0
            && self.malformed.count(card.malformed.window) == 0
            && self.slow.count(card.slow_calls.window) == 0
    }

    pub(super) fn rewind(&mut self, by: Duration) {
        self.rate.iter_mut().for_each(|rate| rate.rewind(by));
    }
}
