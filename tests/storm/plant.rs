//! What the provider does, and what it counts.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst},
};

use super::CLASSES;

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    Good,
    Busy,
    Reset,
    Stall,
    Cut,
}

/// A number in 0..1 that looks random and is the same in every run.
pub(crate) fn draw(seed: u64, n: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Counts what comes to the provider, and deals out fates. Clones share it.
#[derive(Clone)]
pub(crate) struct Gauge {
    seed: u64,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicUsize,
    healed: AtomicBool,
    now: [AtomicU32; CLASSES.len()],
    most: [AtomicU32; CLASSES.len()],
}

impl Gauge {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, shared: Arc::default() }
    }

    /// A request of this class came: what becomes of it, and a guard that is held as long as it is in flight.
    pub(crate) fn take(&self, class: &str) -> (Fate, InFlight) {
        let n = self.shared.sent.fetch_add(1, SeqCst);
        let fate = match draw(self.seed, n as u64) {
            _ if self.shared.healed.load(SeqCst) => Fate::Good,
            ..0.20 => Fate::Busy,
            ..0.30 => Fate::Reset,
            ..0.35 => Fate::Stall,
            ..0.40 => Fate::Cut,
            _ => Fate::Good,
        };
        let class = CLASSES.iter().position(|it| *it == class).expect("one of the classes");
        let now = self.shared.now[class].fetch_add(1, SeqCst) + 1;
        self.shared.most[class].fetch_max(now, SeqCst);
        (fate, InFlight { shared: self.shared.clone(), class })
    }

    /// From now on every request is answered.
    pub(crate) fn heals(&self) {
        self.shared.healed.store(true, SeqCst);
    }

    pub(crate) fn sent(&self) -> usize {
        self.shared.sent.load(SeqCst)
    }

    pub(crate) fn most(&self, class: usize) -> u32 {
        self.shared.most[class].load(SeqCst)
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.shared.now.iter().map(|now| now.load(SeqCst)).sum()
    }
}

/// A request that is in flight.
pub(crate) struct InFlight {
    shared: Arc<Shared>,
    class: usize,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shared.now[self.class].fetch_sub(1, SeqCst);
    }
}
