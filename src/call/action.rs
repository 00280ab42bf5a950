//! The identity of an intended effect, by which attempts at the same write are known: [`ActionId`].

use std::{
    cell::Cell,
    fmt,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// The identity of an intended effect: equal for every attempt at it, new for every new intent.
#[derive(Clone, Copy)]
pub struct ActionId(Id);

/// Every call that may be attempted again gets an id, few are ever read: a new one is a number until somebody asks.
#[derive(Clone, Copy)]
enum Id {
    Counted(u64),
    Given([u64; 2]),
}

impl ActionId {
    /// A new id, unique in this process and random across processes.
    #[inline]
    pub fn fresh() -> Self {
        Self(Id::Counted(count()))
    }

    /// An id from the caller's own idempotency key, such as a UUID as a number.
    pub fn from_key(key: u128) -> Self {
        Self(Id::Given([(key >> 64) as u64, key as u64]))
    }

    /// The number that the outside knows it by. A count is hashed with secret keys: whoever has seen one id cannot tell
    /// the next.
    fn value(self) -> [u64; 2] {
        static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
        match self.0 {
            Id::Counted(count) => {
                KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]).each_ref().map(|key| key.hash_one(count))
            }
            Id::Given(key) => key,
        }
    }
}

/// A number that nobody else gets. Each thread takes them by the block, since a counter that every call of every thread
/// writes to would cost more than the call's own bookkeeping.
#[inline]
fn count() -> u64 {
    const BLOCK: u64 = 1 << 16;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! { static LAST: Cell<u64> = const { Cell::new(BLOCK - 1) } }
    let mut next = LAST.get() + 1;
    if next.is_multiple_of(BLOCK) {
        next = NEXT.fetch_add(1, Ordering::Relaxed) * BLOCK;
    }
    LAST.set(next);
    next
}

impl PartialEq for ActionId {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Id::Counted(ours), Id::Counted(theirs)) => ours == theirs,
            // One that was written down and read back is the same id.
            _ => self.value() == other.value(),
        }
    }
}

impl Eq for ActionId {}

impl Hash for ActionId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low] = self.value();
        write!(f, "{high:016x}{low:016x}")
    }
}

impl fmt::Debug for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActionId({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_unique_whatever_thread_makes_them() {
        let make = || (0..70_000).map(|_| ActionId::fresh()).collect::<Vec<_>>();
        let others: Vec<_> = (0..4).map(|_| std::thread::spawn(make)).collect();
        let mut ids = make();
        ids.extend(others.into_iter().flat_map(|thread| thread.join().expect("no panic")));
        assert_eq!(ids.iter().map(|id| id.value()).collect::<HashSet<_>>().len(), ids.len());
    }

    #[test]
    fn an_id_that_was_written_down_is_known_again() {
        let (id, other) = (ActionId::fresh(), ActionId::fresh());
        let read = ActionId::from_key(u128::from_str_radix(&id.to_string(), 16).expect("hexadecimal"));
        assert_eq!((read, read.to_string()), (id, id.to_string()));
        assert!(HashSet::from([id]).contains(&read) && read != other && id != other);
        assert_eq!(ActionId::from_key(0x1_0000_0000_0000_0000).to_string(), format!("{:032x}", 1_u128 << 64));
    }
}
