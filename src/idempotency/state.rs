//! What is known of a run's writes: pure, a write and an instant in, a decision out.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::call::ActionId;

/// The writes of one run. `K` is what is kept of an answer.
#[derive(Debug)]
pub(super) struct Book<K> {
    entries: HashMap<ActionId, Entry<K>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<K> {
    fingerprint: Option<u64>,
    /// When it last changed.
    at: Instant,
    is: Is<K>,
}

#[derive(Debug)]
enum Is<K> {
    /// Somebody is at it.
    Running { ticket: Ticket, lease: Instant },
    /// It was applied.
    Done(Option<K>),
    /// It may have been applied.
    InDoubt,
}

/// Who may say how a write ended. A later one takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// By which rules a book is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// How long a write may run before it is in doubt.
    pub(super) lease: Duration,
    /// How long it is known that a write was applied.
    pub(super) keep_for: Duration,
    /// How many writes one run may have in the book.
    pub(super) max_per_run: usize,
    /// Whether a write in doubt can be looked up.
    pub(super) looks_up: bool,
}

/// What to do with a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Begin<K> {
    /// Send it, and say how it ended.
    Run(Ticket),
    /// Find out first whether it was applied.
    LookUp(Ticket),
    /// It was applied: this was the answer, if it could be kept.
    Replay(Option<K>),
    /// Another request came under the same id.
    Conflict,
    /// It is under way, until then at most.
    Running(Instant),
    /// It may have been applied, and nobody can be asked.
    InDoubt,
    /// There is no room to remember it.
    Full,
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome<K> {
    /// It was applied; the answer, if it can be kept.
    Applied(Option<K>),
    /// It certainly was not: it may be tried again.
    NotApplied,
    /// Nobody knows.
    Unknown,
}

impl<K> Default for Book<K> {
    fn default() -> Self {
        Self { entries: HashMap::new(), next: 0 }
    }
}

impl<K: Clone> Book<K> {
    pub(super) fn begin(&mut self, id: ActionId, fingerprint: Option<u64>, now: Instant, rules: &Rules) -> Begin<K> {
        self.forget(now, rules);
        let is_full = self.entries.len() >= rules.max_per_run;
        let lease = now.checked_add(rules.lease).unwrap_or(now);
        let Some(entry) = self.entries.get_mut(&id) else {
            if is_full {
                return Begin::Full;
            }
            let ticket = self.issue();
            let is = Is::Running { ticket, lease };
            self.entries.insert(id, Entry { fingerprint, at: now, is });
            return Begin::Run(ticket);
        };
        // What cannot be compared is not the same.
        if entry.fingerprint != fingerprint {
            return Begin::Conflict;
        }
        match &entry.is {
            Is::Done(answer) => return Begin::Replay(answer.clone()),
            Is::Running { lease, .. } if *lease > now => return Begin::Running(*lease),
            Is::Running { .. } | Is::InDoubt if !rules.looks_up => return Begin::InDoubt,
            Is::Running { .. } | Is::InDoubt => {}
        }
        let ticket = self.issue();
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is = Is::Running { ticket, lease };
        }
        Begin::LookUp(ticket)
    }

    /// Says how a write ended. Who no longer holds the ticket changes nothing.
    pub(super) fn end(&mut self, id: ActionId, ticket: Ticket, outcome: Outcome<K>, now: Instant) {
        let holds = |entry: &&mut Entry<K>| matches!(entry.is, Is::Running { ticket: held, .. } if held == ticket);
        let Some(entry) = self.entries.get_mut(&id).filter(holds) else { return };
        entry.at = now;
        match outcome {
            Outcome::Applied(answer) => entry.is = Is::Done(answer),
            Outcome::Unknown => entry.is = Is::InDoubt,
            Outcome::NotApplied => drop(self.entries.remove(&id)),
        }
    }

    /// Somebody looked a write up that was in doubt; says whether there was one.
    pub(super) fn reconciled(&mut self, id: ActionId, was_applied: bool, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let in_doubt = match entry.is {
            Is::InDoubt => true,
            Is::Running { lease, .. } => lease <= now,
            Is::Done(_) => false,
        };
        match (in_doubt, was_applied) {
            (true, true) => (entry.is, entry.at) = (Is::Done(None), now),
            (true, false) => drop(self.entries.remove(&id)),
            (false, _) => {}
        }
        in_doubt
    }

    /// The writes that may have been applied.
    pub(super) fn in_doubt(&self, now: Instant) -> impl Iterator<Item = ActionId> + '_ {
        let doubtful = move |entry: &Entry<K>| match entry.is {
            Is::InDoubt => true,
            Is::Running { lease, .. } => lease <= now,
            Is::Done(_) => false,
        };
        self.entries.iter().filter(move |(_, entry)| doubtful(entry)).map(|(id, _)| *id)
    }

    /// Whether something is under way or in doubt: it must not be forgotten.
    pub(super) fn is_pending(&self) -> bool {
        self.entries.values().any(|entry| !matches!(entry.is, Is::Done(_)))
    }

    /// Whether there is nothing left to remember.
    pub(super) fn is_empty(&self, now: Instant, rules: &Rules) -> bool {
        self.entries.values().all(|entry| entry.is_over(now, rules))
    }

    fn forget(&mut self, now: Instant, rules: &Rules) {
        // Only for want of room: a look at every write would cost more than the write.
        if self.entries.len() >= rules.max_per_run {
            self.entries.retain(|_, entry| !entry.is_over(now, rules));
        }
        // What is over may still be there, and must not count.
    }

    fn issue(&mut self) -> Ticket {
        self.next += 1;
        Ticket(self.next)
    }
}

impl<K> Entry<K> {
    fn is_over(&self, now: Instant, rules: &Rules) -> bool {
        matches!(self.is, Is::Done(_)) && now.saturating_duration_since(self.at) >= rules.keep_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules =
        Rules { lease: Duration::from_secs(60), keep_for: Duration::from_secs(600), max_per_run: 3, looks_up: false };

    fn id(n: u128) -> ActionId {
        ActionId::from_key(n)
    }

    fn later(now: Instant, seconds: u64) -> Instant {
        now + Duration::from_secs(seconds)
    }

    fn run(begin: &Begin<&'static str>) -> Ticket {
        match begin {
            Begin::Run(ticket) | Begin::LookUp(ticket) => *ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_write_that_was_applied_is_answered_as_before_and_one_that_failed_is_sent_again() {
        let (mut book, now) = (Book::default(), Instant::now());
        let first = run(&book.begin(id(1), Some(7), now, &RULES));
        assert_eq!(book.begin(id(1), Some(7), now, &RULES), Begin::Running(later(now, 60)));
        book.end(id(1), first, Outcome::Applied(Some("4711")), now);
        assert_eq!(book.begin(id(1), Some(7), now, &RULES), Begin::Replay(Some("4711")));
        assert_eq!(book.begin(id(1), Some(8), now, &RULES), Begin::Conflict);
        assert_eq!(book.begin(id(1), None, now, &RULES), Begin::Conflict);

        let second = run(&book.begin(id(2), None, now, &RULES));
        book.end(id(2), second, Outcome::NotApplied, now);
        assert!(matches!(book.begin(id(2), None, now, &RULES), Begin::Run(_)));
    }

    #[test]
    fn a_write_whose_lease_is_over_is_in_doubt_and_may_still_end() {
        let (mut book, now) = (Book::default(), Instant::now());
        let ticket = run(&book.begin(id(1), None, now, &RULES));
        assert_eq!(book.begin(id(1), None, later(now, 60), &RULES), Begin::InDoubt);
        assert_eq!(book.in_doubt(later(now, 60)).collect::<Vec<_>>(), [id(1)]);
        book.end(id(1), ticket, Outcome::Applied(Some("late")), later(now, 61));
        assert_eq!(book.begin(id(1), None, later(now, 61), &RULES), Begin::Replay(Some("late")));
    }

    #[test]
    fn what_was_looked_up_and_begun_anew_is_not_changed_by_a_late_result() {
        let (mut book, now) = (Book::default(), Instant::now());
        let rules = Rules { looks_up: true, ..RULES };
        let first = run(&book.begin(id(1), None, now, &rules));
        book.end(id(1), first, Outcome::Unknown, now);
        let second = book.begin(id(1), None, now, &rules);
        assert!(matches!(second, Begin::LookUp(_)));
        assert!(matches!(book.begin(id(1), None, now, &rules), Begin::Running(_)), "it is looked up once at a time");
        book.end(id(1), first, Outcome::Applied(Some("late")), now);
        assert!(matches!(book.begin(id(1), None, now, &rules), Begin::Running(_)));
        book.end(id(1), run(&second), Outcome::Unknown, now);
        assert!(book.reconciled(id(1), false, now) && !book.reconciled(id(1), false, now));
        assert!(matches!(book.begin(id(1), None, now, &rules), Begin::Run(_)));
    }

    #[test]
    fn room_is_made_by_what_is_over_and_never_by_what_is_in_doubt() {
        let (mut book, now) = (Book::default(), Instant::now());
        for n in 0..3 {
            let ticket = run(&book.begin(id(n), None, now, &RULES));
            book.end(id(n), ticket, if n == 0 { Outcome::Unknown } else { Outcome::Applied(None) }, now);
        }
        assert_eq!(book.begin(id(9), None, later(now, 599), &RULES), Begin::Full);
        assert!(matches!(book.begin(id(9), None, later(now, 600), &RULES), Begin::Run(_)));
        assert_eq!(book.begin(id(0), None, later(now, 1_000_000), &RULES), Begin::InDoubt);
        assert!(book.is_pending());
    }
}
