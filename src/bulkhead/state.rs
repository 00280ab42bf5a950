//! Who runs and who waits, without clocks, locks or tasks.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::config::Limits;

/// The calls of one class. A place that comes free goes to whoever has waited longest: it is never up for grabs
/// while somebody waits.
#[derive(Debug)]
pub(super) struct Room<W> {
    limits: Limits,
    in_flight: u32,
    /// By ticket, in order.
    waiting: VecDeque<Waiter<W>>,
    next: Ticket,
}

#[derive(Debug)]
struct Waiter<W> {
    ticket: Ticket,
    until: Option<Instant>,
    waker: Option<W>,
}

/// The number of one that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What became of a call that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// It may run.
    Free,
    /// It waits, until then at most.
    Queued(Ticket, Option<Instant>),
    /// It can neither run nor wait. By then, a place to wait comes free for certain.
    Full(Option<Instant>),
}

impl<W> Room<W> {
    pub(super) const fn new(limits: Limits) -> Self {
        Self { limits, in_flight: 0, waiting: VecDeque::new(), next: Ticket(0) }
    }

    pub(super) const fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many run by another count, which was kept while nobody waited.
    pub(super) const fn set_in_flight(&mut self, in_flight: u32) {
        self.in_flight = in_flight;
    }

    pub(super) fn queued(&self) -> u32 {
        self.waiting.len() as u32
    }

    /// A call came. `until` is asked only if it has to wait.
    pub(super) fn enter(&mut self, until: impl FnOnce() -> Option<Instant>) -> Entry {
        if self.has_place() && self.waiting.is_empty() {
            self.in_flight += 1;
            return Entry::Free;
        }
        if self.queued() >= self.limits.max_queued {
            return Entry::Full(self.waiting.front().and_then(|first| first.until));
        }
        let (ticket, until) = (self.next, until());
        self.next = Ticket(ticket.0 + 1);
        self.waiting.push_back(Waiter { ticket, until, waker: None });
        Entry::Queued(ticket, until)
    }

    /// A call came and runs whatever the limits say. Returns whether they would have refused it.
    pub(super) fn enter_anyway(&mut self) -> bool {
        let would_refuse =
            u64::from(self.in_flight) >= u64::from(self.limits.max_concurrent) + u64::from(self.limits.max_queued);
        self.in_flight += 1;
        would_refuse
    }

    /// Whom to wake when the turn of `ticket` comes; `None` where it has come: it runs.
    pub(super) fn waker(&mut self, ticket: Ticket) -> Option<&mut Option<W>> {
        let at = self.at(ticket).ok()?;
        Some(&mut self.waiting[at].waker)
    }

    /// One that waited goes away. If its turn had come, the next is to be woken.
    pub(super) fn give_up(&mut self, ticket: Ticket) -> Option<W> {
        match self.at(ticket) {
            Ok(at) => {
                self.waiting.remove(at);
                None
            }
            Err(_) => self.leave(),
        }
    }

    /// One that ran has ended; the next is to be woken.
    pub(super) fn leave(&mut self) -> Option<W> {
        self.in_flight -= 1;
        self.grant().flatten()
    }

    /// Sets the limits. Who runs goes on and who waits goes on waiting; all that may run now are to be woken.
    pub(super) fn set_limits(&mut self, limits: Limits) -> Vec<W> {
        self.limits = limits;
        std::iter::from_fn(|| self.grant()).flatten().collect()
    }

    fn grant(&mut self) -> Option<Option<W>> {
        if !self.has_place() {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.in_flight += 1;
        Some(first.waker)
    }

    const fn has_place(&self) -> bool {
        self.in_flight < self.limits.max_concurrent
    }

    fn at(&self, ticket: Ticket) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Enter,
        /// The nth of those that run ends.
        Leave(usize),
        /// The nth of those that came and did not end goes away.
        GiveUp(usize),
        Limit(u32, u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Enter),
            3 => (0..64_usize).prop_map(Step::Leave),
            2 => (0..64_usize).prop_map(Step::GiveUp),
            1 => (1..6_u32, 0..6_u32).prop_map(|(runs, waits)| Step::Limit(runs, waits)),
        ];
        prop::collection::vec(step, 0..200)
    }

    const fn limits(max_concurrent: u32, max_queued: u32) -> Limits {
        Limits { max_concurrent, max_queued, max_wait: Duration::from_secs(30) }
    }

    proptest! {
        /// A list that is plainly right beside the room.
        #[test]
        fn turns_come_in_order_within_the_limits_and_nothing_leaks(steps in steps()) {
            let mut room: Room<()> = Room::new(limits(2, 3));
            let (mut untracked, mut running, mut waiting) = (0_usize, Vec::<Ticket>::new(), Vec::<Ticket>::new());
            for step in steps {
                match step {
                    Step::Enter => match room.enter(|| None) {
                        Entry::Free => {
                            prop_assert!(waiting.is_empty(), "nobody is overtaken");
                            untracked += 1;
                        }
                        Entry::Queued(ticket, _) => waiting.push(ticket),
                        Entry::Full(_) => prop_assert!(waiting.len() as u32 >= room.limits().max_queued),
                    },
                    Step::Leave(_) if untracked > 0 => {
                        untracked -= 1;
                        room.leave();
                    }
                    Step::Leave(n) if !running.is_empty() => {
                        running.remove(n % running.len());
                        room.leave();
                    }
                    Step::Leave(_) => {}
                    Step::GiveUp(n) => {
                        let all = running.len() + waiting.len();
                        if all > 0 {
                            let n = n % all;
                            let ticket = if n < running.len() { running.remove(n) } else { waiting.remove(n - running.len()) };
                            room.give_up(ticket);
                        }
                    }
                    Step::Limit(runs, waits) => drop(room.set_limits(limits(runs, waits))),
                }
                while waiting.first().is_some_and(|first| room.waker(*first).is_none()) {
                    running.push(waiting.remove(0));
                    prop_assert!(room.in_flight() <= room.limits().max_concurrent, "a turn came over the limit");
                }
                for ticket in &waiting {
                    prop_assert!(room.waker(*ticket).is_some(), "a turn came out of order");
                }
                prop_assert_eq!(room.in_flight() as usize, untracked + running.len());
                prop_assert_eq!(room.queued() as usize, waiting.len());
                prop_assert!(waiting.is_empty() || room.in_flight() >= room.limits().max_concurrent, "a place lies idle");
            }
            for ticket in waiting.into_iter().rev().chain(running) {
                room.give_up(ticket);
            }
            (0..untracked).for_each(|_| assert!(room.leave().is_none()));
            prop_assert_eq!((room.in_flight(), room.queued()), (0, 0));
        }
    }
}
