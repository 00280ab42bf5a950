//! How long a circuit stays open, and how traffic returns after it.

use std::time::Duration;

use tokio::time::Instant;

use super::config::TripCard;

/// The cool-down: it doubles with each failed recovery, with jitter, to a cap, and starts anew after a recovery.
#[derive(Debug)]
pub(super) struct CoolDown {
    level: u32,
    seed: u64,
}

impl CoolDown {
    pub(super) const fn new(seed: u64) -> Self {
        Self { level: 0, seed }
    }

    pub(super) const fn level(&self) -> u32 {
        self.level
    }

    pub(super) fn lengthen(&mut self) {
        self.level = self.level.saturating_add(1);
    }

    pub(super) fn start_anew(&mut self) {
        self.level = 0;
    }

    /// The first cool-down is exact; grown ones get longer by up to `card.jitter`, never shorter.
    pub(super) fn draw(&mut self, card: &TripCard) -> Duration {
        let grown = card.cool_down.saturating_mul(1_u32.checked_shl(self.level).unwrap_or(u32::MAX));
        if self.level == 0 || grown >= card.max_cool_down {
            return grown.min(card.max_cool_down);
        }
        let extra = grown.as_secs_f64() * card.jitter.clamp(0.0, 1.0) * self.unit();
        let extra = Duration::try_from_secs_f64(extra).unwrap_or(Duration::ZERO);
        grown.saturating_add(extra).min(card.max_cool_down)
    }

    /// The next number in 0..1 of this seed (splitmix64).
    fn unit(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const WHOLE: u32 = 1_000_000;

/// The share of calls admitted at `now`, in millionths: a straight line from the start share to all.
pub(super) fn share(started: Instant, ends: Instant, now: Instant, card: &TripCard) -> u32 {
    let start = (card.start_share.clamp(0.0, 1.0) * f64::from(WHOLE)).round() as u128;
    let length = ends.saturating_duration_since(started).as_nanos().max(1);
    let passed = now.saturating_duration_since(started).as_nanos().min(length);
    // Micros would do, but nanos cannot overflow here either: 2^20 times 2^94.
    (start + (u128::from(WHOLE) - start) * passed / length) as u32
}

/// Admits exactly the given share: each call earns its share, and a whole one is spent.
pub(super) fn earns(credit: &mut u32, share: u32) -> bool {
    *credit += share.min(WHOLE);
    let whole = *credit >= WHOLE;
    if whole {
        *credit -= WHOLE;
    }
    whole
}
