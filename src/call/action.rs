//! The identity of an intended effect, by which attempts at the same write are known: [`ActionId`].

use std::{
    fmt,
    hash::BuildHasher,
    sync::atomic::{AtomicU64, Ordering},
};

use super::secret_seed;

/// The identity of an intended effect: equal for every attempt at it, new for every new intent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActionId(u128);

impl ActionId {
    /// A new id, unique in this process and random across processes.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let high = std::hash::RandomState::new().hash_one(count);
        Self((u128::from(high) << 64) | u128::from(secret_seed().hash_one(count)))
    }

    /// An id from the caller's own idempotency key, such as a UUID as a number.
    pub fn from_key(key: u128) -> Self {
        Self(key)
    }
}

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActionId({self})")
    }
}
