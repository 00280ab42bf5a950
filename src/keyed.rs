//! State by key, bounded: exact keys, a cap a tenant and a cap in all, and a lock-free answer for keys without state.
//!
//! A layer keeps an entry only for a key that has something to remember. Asking for any other key reads two counters
//! and takes no lock, unless its hash falls on the mark of an entry. Over a cap a key shares the state of its parent,
//! first its tenant's, then everybody's; or nothing is kept of it, where one key must not answer for another. No single
//! question looks at more than a bounded number of entries, however many there are.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hashbrown::{HashTable, hash_table::OccupiedEntry};
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
    /// Whether a key over a cap shares its parent's state; else nothing is kept of it.
    pub(crate) shares: bool,
}

/// For whom state is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// For a call: the caps hold.
    Call,
    /// For an operator, who means this key and no other: there is always room.
    Operator,
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
    /// How far each [`Sweep`] has come.
    swept: Mutex<[Round; 2]>,
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

/// Sweeps go around the shards in parts, so that no single call pays for all that others left behind.
#[derive(Debug, Default)]
struct Round {
    last: Option<Instant>,
    next_shard: usize,
    /// Whether the last part was the whole round.
    whole: bool,
}

const SHARDS: usize = 64;
const MARKS: usize = 2048;
/// Under attack, a full sweep that freed nothing is not repeated sooner than this, and a part of one not sooner than
/// that part of it.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);
/// About so many entries one part of a sweep looks at.
const SWEEP_PART: usize = 1_024;

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

    /// Looks at the state of the call's key, or at the parent's that it shares. Where `f` finds nothing in one it is
    /// shown the next.
    pub(crate) fn look<R>(
        &self,
        call: &Call,
        scope: Scope,
        at: &At<'_, V::Rules>,
        mut f: impl FnMut(&mut V) -> Option<R>,
    ) -> Option<R> {
        self.look_at(&KeyRef::new(call, scope), at, &mut f).or_else(|| self.look_at_parents(call, at, &mut f))
    }

    fn look_at_parents<R>(
        &self,
        call: &Call,
        at: &At<'_, V::Rules>,
        f: &mut impl FnMut(&mut V) -> Option<R>,
    ) -> Option<R> {
        // Parents are looked at only while somebody shares one.
        if self.overflowing.load(Ordering::Acquire) == 0 {
            return None;
        }
        let parents = [KeyRef::overflow_of_tenant(call), KeyRef::overflow_of_all()];
        parents.iter().find_map(|key| self.look_at(key, at, f))
    }

    fn look_at<R>(
        &self,
        key: &KeyRef<'_>,
        at: &At<'_, V::Rules>,
        f: &mut impl FnMut(&mut V) -> Option<R>,
    ) -> Option<R> {
        if self.mark(key.hash()).load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut shard = self.shard(key.hash());
        let found = shard.find_entry(key.hash(), |entry| entry.key.is(key)).ok()?;
        let (result, gone) = used(found, at, f);
        drop(shard);
        self.forgotten(gone.as_ref());
        result
    }

    /// Looks at the state of the call's key, making it where there is none. `None` where there is no room for it.
    pub(crate) fn make<R>(
        &self,
        call: &Call,
        scope: Scope,
        claim: Claim,
        at: &At<'_, V::Rules>,
        new: impl FnOnce() -> V,
        mut f: impl FnMut(&mut V) -> R,
    ) -> Option<R> {
        let mut f = |value: &mut V| Some(f(value));
        let own = KeyRef::new(call, scope);
        if let Some(result) = self.look_at(&own, at, &mut f) {
            return Some(result);
        }
        let key = if self.reserve(own.tenant(), claim, at) {
            own
        } else if !self.limits.shares {
            return None;
        } else if let Some(result) = self.look_at_parents(call, at, &mut f) {
            return Some(result);
        } else {
            self.overflowing.fetch_add(1, Ordering::AcqRel);
            let tenant_fits = self.total.fetch_add(1, Ordering::AcqRel) < self.limits.total;
            if tenant_fits { KeyRef::overflow_of_tenant(call) } else { KeyRef::overflow_of_all() }
        };
        let mut shard = self.shard(key.hash());
        if let Ok(found) = shard.find_entry(key.hash(), |entry| entry.key.is(&key)) {
            // Somebody else made it in between.
            let (result, gone) = used(found, at, &mut f);
            drop(shard);
            self.unreserve(&key.to_owned());
            self.forgotten(gone.as_ref());
            return result;
        }
        // Marked before `f` runs: who sees what `f` publishes also sees that the key has state.
        self.mark(key.hash()).fetch_add(1, Ordering::AcqRel);
        let entry = Entry { key: key.to_owned(), value: new(), used: at.now };
        let made = shard.insert_unique(key.hash(), entry, |entry| entry.key.hash());
        let (result, gone) = used(made, at, &mut f);
        drop(shard);
        self.forgotten(gone.as_ref());
        result
    }

    /// Visits every entry, without order, and forgets what is not needed any more.
    pub(crate) fn visit(&self, at: &At<'_, V::Rules>, mut f: impl FnMut(&KeyBuf, &mut V)) {
        for shard in &self.shards {
            self.forget_if(shard, |entry| {
                f(&entry.key, &mut entry.value);
                entry.value.keep(at.now, at.rules) == Keep::No
            });
        }
    }

    fn forget_if(&self, shard: &Mutex<HashTable<Entry<V>>>, gone: impl FnMut(&mut Entry<V>) -> bool) -> usize {
        let entries: Vec<_> = lock(shard).extract_if(gone).collect();
        entries.iter().for_each(|entry| self.forgotten(Some(entry)));
        entries.len()
    }

    fn forgotten(&self, entry: Option<&Entry<V>>) {
        let Some(entry) = entry else { return };
        self.mark(entry.key.hash()).fetch_sub(1, Ordering::AcqRel);
        self.unreserve(&entry.key);
        entry.value.forgotten();
    }

    fn reserve(&self, tenant: &str, claim: Claim, at: &At<'_, V::Rules>) -> bool {
        self.sweep(Sweep::Done, at, self.limits.idle);
        self.reserve_own(tenant, claim)
            || (self.sweep(Sweep::Idle, at, SWEEP_PAUSE) > 0 && self.reserve_own(tenant, claim))
    }

    fn reserve_own(&self, tenant: &str, claim: Claim) -> bool {
        let mut tenants = lock(&self.tenants);
        let count = tenants.get(tenant).copied().unwrap_or(0);
        let is_full = count >= self.limits.per_tenant || self.total.load(Ordering::Acquire) >= self.limits.total;
        if is_full && claim == Claim::Call {
            return false;
        }
        match tenants.get_mut(tenant) {
            Some(count) => *count += 1,
            None => drop(tenants.insert(tenant.into(), 1)),
        }
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

    /// Forgets what may go in the next part of the map, unless it is too early: a whole round takes at least `pause`.
    fn sweep(&self, sweep: Sweep, at: &At<'_, V::Rules>, pause: Duration) -> usize {
        let now = at.now;
        let (first, many) = {
            let round = &mut lock(&self.swept)[sweep as usize];
            let pause = if round.whole { pause } else { pause / SHARDS as u32 };
            if round.last.is_some_and(|last| now.saturating_duration_since(last) < pause) {
                return 0;
            }
            let many = self.shards_in_a_part();
            let first = round.next_shard;
            *round = Round { last: Some(now), next_shard: (first + many) % SHARDS, whole: many == SHARDS };
            (first, many)
        };
        let idle = self.limits.idle;
        let shards = (first..first + many).map(|shard| &self.shards[shard % SHARDS]);
        let gone = |entry: &mut Entry<V>| match (entry.value.keep(now, at.rules), sweep) {
            (Keep::Always, _) | (Keep::WhileUsed, Sweep::Done) => false,
            (Keep::WhileUsed, Sweep::Idle) => now.saturating_duration_since(entry.used) >= idle,
            (Keep::No, _) => true,
        };
        shards.map(|shard| self.forget_if(shard, gone)).sum()
    }

    /// So many shards as hold about as many entries as one call may look at.
    fn shards_in_a_part(&self) -> usize {
        (SWEEP_PART * SHARDS / self.len().max(SWEEP_PART)).max(1)
    }

    fn mark(&self, hash: u64) -> &AtomicU32 {
        &self.marks[hash as usize % MARKS]
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Entry<V>>> {
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

/// Runs `f` on an entry; takes the entry out if it has nothing left to remember.
fn used<V: Kept, R>(
    mut found: OccupiedEntry<'_, Entry<V>>,
    at: &At<'_, V::Rules>,
    f: &mut impl FnMut(&mut V) -> Option<R>,
) -> (Option<R>, Option<Entry<V>>) {
    let entry = found.get_mut();
    entry.used = at.now;
    let result = f(&mut entry.value);
    let is_done = entry.value.keep(at.now, at.rules) == Keep::No;
    (result, is_done.then(|| found.remove().0))
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
        Keyed::new(Limits { per_tenant, total, idle: Duration::from_secs(600), shares: true })
    }

    fn count(map: &Keyed<Counter>, call: &Call, now: Instant, keep: Keep) -> u32 {
        let new = || Counter { count: 0, keep };
        let made = map.make(call, Scope::TARGET, Claim::Call, &at(now), new, |value| {
            value.count += 1;
            value.keep = keep;
            value.count
        });
        made.expect("there is room, or a parent")
    }

    fn seen(map: &Keyed<Counter>, call: &Call, now: Instant) -> Option<u32> {
        map.look(call, Scope::TARGET, &at(now), |value| Some(value.count))
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
        assert_eq!(seen(&map, &key("quiet", 9), now), None);
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
        assert_eq!(seen(&map, &Call::to("idle"), later), None);
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
    fn a_new_key_has_its_own_state_as_soon_as_there_is_room_although_others_still_share() {
        let (map, now) = (map(1, 100), Instant::now());
        count(&map, &Call::to("a"), now, Keep::Always);
        assert_eq!(count(&map, &Call::to("shares"), now, Keep::Always), 1);
        assert_eq!(count(&map, &Call::to("a"), now, Keep::No), 2);
        assert_eq!(count(&map, &Call::to("b"), now, Keep::Always), 1, "its own");
        assert_eq!(seen(&map, &Call::to("shares"), now), Some(1));
    }

    #[test]
    fn where_keys_do_not_share_nothing_is_kept_over_the_cap() {
        let now = Instant::now();
        let map = Keyed::new(Limits { shares: false, ..map(1, 100).limits });
        count(&map, &Call::to("a"), now, Keep::Always);
        let new = || Counter { count: 0, keep: Keep::Always };
        let made = |claim| map.make(&Call::to("b"), Scope::TARGET, claim, &at(now), new, |_| ());
        assert_eq!((made(Claim::Call), seen(&map, &Call::to("b"), now), map.len()), (None, None, 1));
        assert_eq!((made(Claim::Operator), seen(&map, &Call::to("b"), now), map.len()), (Some(()), Some(0), 2));
    }

    #[test]
    fn no_call_looks_at_more_than_a_part_of_a_full_map() {
        use std::cell::Cell;
        thread_local! { static ASKED: Cell<usize> = const { Cell::new(0) } }
        struct Asked;
        impl Kept for Asked {
            type Rules = ();
            fn keep(&self, _: Instant, (): &()) -> Keep {
                ASKED.set(ASKED.get() + 1);
                Keep::WhileUsed
            }
        }
        let (total, mut now) = (20_000, Instant::now());
        let map = Keyed::new(Limits { per_tenant: total, total, idle: Duration::from_secs(600), shares: false });
        let made = |n: usize, now| {
            ASKED.set(0);
            let made = map.make(&Call::to(&format!("{n}")), Scope::TARGET, Claim::Call, &at(now), || Asked, |_| ());
            (made.is_some(), ASKED.get())
        };
        for n in 0..total {
            made(n, now);
        }
        now += Duration::from_secs(3_600);
        let mut most = 0;
        let found_room = (0..2 * SHARDS).filter(|n| {
            now += Duration::from_millis(20);
            let (made, asked) = made(total + n, now);
            most = most.max(asked);
            made
        });
        assert!(found_room.count() > SHARDS, "what is idle still goes");
        assert!(most < 3 * SWEEP_PART, "{most}");
    }

    #[test]
    fn counters_return_to_zero_under_any_number_of_threads() {
        let (map, now) = (map(3, 8), Instant::now());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let map = &map;
                scope.spawn(move || {
                    for n in 0..20_000_u32 {
                        let call = Call::to(&format!("t{}", n % 7)).tenant(&format!("{}", (n + thread) % 5));
                        let keep = if n % 3 == 0 { Keep::Always } else { Keep::No };
                        count(map, &call, now, keep);
                        map.look(&call, Scope::TARGET, &at(now), |value| {
                            value.keep = Keep::No;
                            Some(())
                        });
                    }
                });
            }
        });
        map.visit(&at(now), |_, value| value.keep = Keep::No);
        assert_eq!((map.len(), map.overflowing.load(Ordering::Relaxed)), (0, 0));
        assert!(map.marks.iter().all(|mark| mark.load(Ordering::Relaxed) == 0));
        assert!(lock(&map.tenants).is_empty());
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
