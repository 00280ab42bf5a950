//! The one slot of a half-open circuit: who holds it, and until when.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    cell::Cell,
    event::{Ask, LeaseId, Moment},
    evidence::Voucher,
    window::later,
};

#[derive(Debug)]
pub(super) struct Held {
    id: LeaseId,
    pub(super) expires: Instant,
    voucher: Voucher,
}

impl Cell {
    pub(super) fn grant(&mut self, voucher: Voucher, ask: &Ask, moment: &mut Moment<'_>) -> LeaseId {
        /// A deadline that never comes must not hold the slot for ever.
        const LONGEST: Duration = Duration::from_secs(3_600);
        let now = moment.now;
        // A deadline that has passed says nothing about how long the call will take.
        let deadline = ask.deadline.filter(|deadline| *deadline > now);
        let expires = deadline.unwrap_or_else(|| later(now, moment.card.probe_lease)).min(later(now, LONGEST));
        let id = LeaseId::new(moment);
        self.lease = Some(Held { id, expires, voucher });
        id
    }

    /// A probe that was dropped without an outcome: the slot comes free, if it is this cell's.
    pub(crate) fn release(&mut self, lease: LeaseId) -> bool {
        self.take_lease(Some(lease)).is_some()
    }

    /// Whether this cell gave the slot.
    pub(crate) fn holds(&self, lease: LeaseId) -> bool {
        self.lease.as_ref().is_some_and(|held| held.id == lease)
    }

    /// A lease that has expired is still its owner's until another call takes the slot.
    pub(super) fn take_lease(&mut self, lease: Option<LeaseId>) -> Option<Voucher> {
        let held = self.lease.take_if(|held| Some(held.id) == lease)?;
        Some(held.voucher)
    }

    pub(super) fn slot_taken(&self, now: Instant) -> bool {
        self.lease.as_ref().is_some_and(|held| now < held.expires)
    }
}
