//! State by key, bounded: exact keys, a cap a tenant and a cap in all, and a lock-free answer for keys without state.
//!
//! A layer keeps an entry only for a key that has something to remember. Asking for any other key reads two counters
//! and takes no lock, unless its hash falls on the mark of an entry. Over a cap a key shares the state of its parent:
//! first its tenant's, then everybody's.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hashbrown::HashTable;
use tokio::time::Instant;

use crate::{
    call::{Call, KeyBuf, KeyRef, Scope},
    lock::lock,
};

/// How much a map may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) per_tenant: usize,
    pub(crate) total: usize,
    /// How long an entry that may go is kept after its last use.
    pub(crate) idle: Duration,
}

/// What a value says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It must not be forgotten.
    Always,
    /// It may be forgotten for want of room, once it was not used for a while.
    WhileUsed,
    /// There is nothing left to remember.
    No,
}

/// A value that can say how long it is needed.
pub(crate) trait Kept {
    /// What the answer depends on besides the value.
    type Rules;

    fn keep(&self, now: Instant, rules: &Self::Rules) -> Keep;

    /// It was forgotten: what it told the outside is over.
    fn forgotten(&self) {}
}

/// When a map is asked, and by which rules its values are kept.
#[derive(Debug)]
pub(crate) struct At<'a, R> {
    pub(crate) now: Instant,
    pub(crate) rules: &'a R,
}

pub(crate) struct Keyed<V> {
    shards: Box<[Mutex<HashTable<Entry<V>>>]>,
    /// How many entries have a hash that falls on each mark; zero proves that a key has no entry.
    marks: Box<[AtomicU32]>,
    total: AtomicUsize,
    overflowing: AtomicUsize,
    tenants: Mutex<HashMap<Box<str>, usize>>,
    /// When each [`Sweep`] was last done.
    swept: Mutex<[Option<Instant>; 2]>,
    limits: Limits,
}

struct Entry<V> {
    key: KeyBuf,
    value: V,
    used: Instant,
}

/// What is forgotten in passing.
#[derive(Debug, Clone, Copy)]
enum Sweep {
    /// What has nothing left to remember.
    Done,
    /// What is idle too, because there is no room: a count must not be lost for any other reason.
    Idle,
}

const SHARDS: usize = 16;
const MARKS: usize = 2048;
/// Under attack, a full sweep that freed nothing is not repeated sooner than this.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

impl<V: Kept> Keyed<V> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            marks: (0..MARKS).map(|_| AtomicU32::new(0)).collect(),
            total: AtomicUsize::new(0),
            overflowing: AtomicUsize::new(0),
            tenants: Mutex::default(),
            swept: Mutex::default(),
            limits,
        }
    }

    /// Whether `key` certainly has no state, its own or a parent's.
    #[inline]
    pub(crate) fn is_absent(&self, key: &KeyRef<'_>) -> bool {
        self.mark(key.hash()).load(Ordering::Acquire) == 0 && self.overflowing.load(Ordering::Acquire) == 0
    }

    /// Whether no key at all has state.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.total.load(Ordering::Acquire) == 0
    }

    /// How many keys have state.
    pub(crate) fn len(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Looks at the state of the call's key, or at the parent's that it shares.
    pub(crate) fn look<R>(
        &self,
        call: &Call,
        scope: Scope,
        at: &At<'_, V::Rules>,
        mut f: impl FnMut(&mut V) -> R,
    ) -> Option<R> {
        let own = self.look_at(&KeyRef::new(call, scope), at, &mut f);
        // Parents are looked at only while somebody shares one.
        if own.is_some() || self.overflowing.load(Ordering::Acquire) == 0 {
            return own;
        }
        let parents = [KeyRef::overflow_of_tenant(call), KeyRef::overflow_of_all()];
        parents.iter().find_map(|key| self.look_at(key, at, &mut f))
    }

    fn look_at<R>(&self, key: &KeyRef<'_>, at: &At<'_, V::Rules>, f: &mut impl FnMut(&mut V) -> R) -> Option<R> {
        if self.mark(key.hash()).load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut shard = self.shard(key.hash());
        let mut found = shard.find_entry(key.hash(), |entry| entry.key.is(key)).ok()?;
        let entry = found.get_mut();
        entry.used = at.now;
        let result = f(&mut entry.value);
        if entry.value.keep(at.now, at.rules) == Keep::No {
            let entry = found.remove().0;
            drop(shard);
            self.forgotten(&entry);
        }
        Some(result)
    }

    /// Looks at the state of the call's key, making it where there is none.
    pub(crate) fn make<R>(
        &self,
        call: &Call,
        scope: Scope,
        at: &At<'_, V::Rules>,
        new: impl FnOnce() -> V,
        mut f: impl FnMut(&mut V) -> R,
    ) -> R {
        let own = KeyRef::new(call, scope);
        if !self.is_absent(&own)
            && let Some(result) = self.look(call, scope, at, &mut f)
        {
            return result;
        }
        let key = match self.reserve(own.tenant(), at) {
            Room::Own => own,
            Room::Tenant => KeyRef::overflow_of_tenant(call),
            Room::All => KeyRef::overflow_of_all(),
        };
        let mut shard = self.shard(key.hash());
        if let Some(entry) = shard.find_mut(key.hash(), |entry| entry.key.is(&key)) {
            // Somebody else made it in between.
            let result = f(&mut entry.value);
            drop(shard);
            self.unreserve(&key.to_owned());
            return result;
        }
        // Marked before `f` runs: who sees what `f` publishes also sees that the key has state.
        self.mark(key.hash()).fetch_add(1, Ordering::AcqRel);
        let entry = Entry { key: key.to_owned(), value: new(), used: at.now };
        let mut entry = shard.insert_unique(key.hash(), entry, |entry| entry.key.hash());
        let result = f(&mut entry.get_mut().value);
        if entry.get().value.keep(at.now, at.rules) == Keep::No {
            let entry = entry.remove().0;
            drop(shard);
            self.forgotten(&entry);
        }
        result
    }

    /// Visits every entry, without order, and forgets what is not needed any more.
    pub(crate) fn visit(&self, at: &At<'_, V::Rules>, mut f: impl FnMut(&KeyBuf, &mut V)) {
        self.forget_if(|entry| {
            f(&entry.key, &mut entry.value);
            entry.value.keep(at.now, at.rules) == Keep::No
        });
    }

    fn forget_if(&self, mut gone: impl FnMut(&mut Entry<V>) -> bool) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            let entries: Vec<_> = lock(shard).extract_if(&mut gone).collect();
            entries.iter().for_each(|entry| self.forgotten(entry));
            count += entries.len();
        }
        count
    }

    fn forgotten(&self, entry: &Entry<V>) {
        self.mark(entry.key.hash()).fetch_sub(1, Ordering::AcqRel);
        self.unreserve(&entry.key);
        entry.value.forgotten();
    }

    fn reserve(&self, tenant: &str, at: &At<'_, V::Rules>) -> Room {
        self.sweep(Sweep::Done, at, self.limits.idle);
        if self.reserve_own(tenant) {
            return Room::Own;
        }
        if self.sweep(Sweep::Idle, at, SWEEP_PAUSE) > 0 && self.reserve_own(tenant) {
            return Room::Own;
        }
        self.overflowing.fetch_add(1, Ordering::AcqRel);
        if self.total.fetch_add(1, Ordering::AcqRel) < self.limits.total { Room::Tenant } else { Room::All }
    }

    fn reserve_own(&self, tenant: &str) -> bool {
        let mut tenants = lock(&self.tenants);
        let count = tenants.get(tenant).copied().unwrap_or(0);
        if count >= self.limits.per_tenant || self.total.load(Ordering::Acquire) >= self.limits.total {
            return false;
        }
        tenants.insert(tenant.into(), count + 1);
        self.total.fetch_add(1, Ordering::AcqRel);
        true
    }

    fn unreserve(&self, key: &KeyBuf) {
        self.total.fetch_sub(1, Ordering::AcqRel);
        if key.is_overflow() {
            self.overflowing.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let mut tenants = lock(&self.tenants);
        if let Some(count) = tenants.get_mut(key.tenant()) {
            *count -= 1;
            if *count == 0 {
                tenants.remove(key.tenant());
            }
        }
    }

    /// Forgets what may go, unless that was done within `pause`.
    fn sweep(&self, sweep: Sweep, at: &At<'_, V::Rules>, pause: Duration) -> usize {
        let now = at.now;
        {
            let last = &mut lock(&self.swept)[sweep as usize];
            if last.is_some_and(|last| now.saturating_duration_since(last) < pause) {
                return 0;
            }
            *last = Some(now);
        }
        let idle = self.limits.idle;
        self.forget_if(|entry| match (entry.value.keep(now, at.rules), sweep) {
            (Keep::Always, _) | (Keep::WhileUsed, Sweep::Done) => false,
            (Keep::WhileUsed, Sweep::Idle) => now.saturating_duration_since(entry.used) >= idle,
            (Keep::No, _) => true,
        })
    }

    fn mark(&self, hash: u64) -> &AtomicU32 {
        &self.marks[hash as usize % MARKS]
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Entry<V>>> {
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

/// Where a new key's state may lie.
enum Room {
    Own,
    Tenant,
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counter {
        count: u32,
        keep: Keep,
    }

    impl Kept for Counter {
        type Rules = ();

        fn keep(&self, _: Instant, (): &()) -> Keep {
            self.keep
        }
    }

    fn at(now: Instant) -> At<'static, ()> {
        At { now, rules: &() }
    }

    fn map(per_tenant: usize, total: usize) -> Keyed<Counter> {
        Keyed::new(Limits { per_tenant, total, idle: Duration::from_secs(600) })
    }

    fn count(map: &Keyed<Counter>, call: &Call, now: Instant, keep: Keep) -> u32 {
        let new = || Counter { count: 0, keep };
        map.make(call, Scope::TARGET, &at(now), new, |value| {
            value.count += 1;
            value.keep = keep;
            value.count
        })
    }

    #[test]
    fn equal_names_share_state_and_what_is_not_needed_is_forgotten() {
        let (map, now) = (map(10, 100), Instant::now());
        assert_eq!(count(&map, &Call::to("a"), now, Keep::Always), 1);
        assert_eq!(count(&map, &Call::to("a"), now, Keep::Always), 2);
        assert_eq!(count(&map, &Call::to("b"), now, Keep::Always), 1);
        assert_eq!(count(&map, &Call::to("a"), now, Keep::No), 3);
        assert!(map.is_absent(&KeyRef::new(&Call::to("a"), Scope::TARGET)));
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn a_tenant_over_its_cap_shares_its_own_state_and_nobody_elses() {
        let (map, now) = (map(3, 100), Instant::now());
        let key = |tenant: &str, n: u32| Call::to(&format!("t{n}")).tenant(tenant);
        for n in 0..3 {
            assert_eq!(count(&map, &key("loud", n), now, Keep::Always), 1);
        }
        assert_eq!(count(&map, &key("loud", 3), now, Keep::Always), 1);
        assert_eq!(count(&map, &key("loud", 4), now, Keep::Always), 2, "shared with the key before");
        assert_eq!(count(&map, &key("loud", 0), now, Keep::Always), 2, "its own");
        assert_eq!(count(&map, &key("quiet", 3), now, Keep::Always), 1);
        assert_eq!(map.look(&key("quiet", 9), Scope::TARGET, &at(now), |value| value.count), None);
    }

    #[test]
    fn the_total_cap_holds_against_any_number_of_tenants() {
        let (map, now) = (map(2, 50), Instant::now());
        for n in 0..10_000 {
            count(&map, &Call::to("x").tenant(&format!("tenant {n}")), now, Keep::Always);
        }
        assert!(map.len() <= 51, "{}", map.len());
    }

    #[test]
    fn idle_entries_go_when_room_is_needed_and_needed_ones_never() {
        let (map, now) = (map(2, 100), Instant::now());
        count(&map, &Call::to("idle"), now, Keep::WhileUsed);
        count(&map, &Call::to("open"), now, Keep::Always);
        let later = now + Duration::from_secs(601);
        assert_eq!(count(&map, &Call::to("new"), later, Keep::Always), 1);
        assert_eq!(count(&map, &Call::to("open"), later, Keep::Always), 2);
        assert_eq!(map.look(&Call::to("idle"), Scope::TARGET, &at(later), |value| value.count), None);
    }

    #[test]
    fn an_idle_entry_stays_while_there_is_room() {
        let (map, now) = (map(2, 100), Instant::now());
        count(&map, &Call::to("idle"), now, Keep::WhileUsed);
        let later = now + Duration::from_secs(86_400);
        count(&map, &Call::to("another"), later, Keep::WhileUsed);
        assert_eq!(count(&map, &Call::to("idle"), later, Keep::WhileUsed), 2);
    }

    #[test]
    fn counters_return_to_zero() {
        let (map, now) = (map(2, 5), Instant::now());
        for n in 0..20 {
            count(&map, &Call::to(&format!("t{n}")).tenant(&format!("{}", n % 4)), now, Keep::Always);
        }
        map.visit(&at(now), |_, value| value.keep = Keep::No);
        assert_eq!(map.len(), 0);
        assert_eq!(map.overflowing.load(Ordering::Relaxed), 0);
        assert!(map.marks.iter().all(|mark| mark.load(Ordering::Relaxed) == 0));
        assert!(lock(&map.tenants).is_empty());
    }
}
