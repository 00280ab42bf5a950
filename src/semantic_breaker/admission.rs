//! The guard of one admitted call: whatever happens to it, the call is settled once.

use std::{mem, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    decide::{Pass, Sample},
    service::Local,
};
use crate::{
    body::{End, OnEnd},
    call::Call,
    verdict::Verdict,
};

/// One admitted call. Dropping it gives it up.
pub(super) struct Admission<C> {
    local: Arc<Local<C>>,
    call: Call,
    pass: Pass,
    sample: Sample,
    /// Since when the response has been awaited.
    waiting: Option<Instant>,
    /// What stands if the rest is never read.
    provisional: Option<Box<Verdict>>,
    settled: bool,
}

impl<C> Admission<C> {
    pub(super) fn new(local: Arc<Local<C>>, call: Call, pass: Pass) -> Self {
        Self { local, call, pass, sample: Sample::default(), waiting: None, provisional: None, settled: false }
    }

    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    pub(super) fn local(&self) -> &Arc<Local<C>> {
        &self.local
    }

    pub(super) fn classifier(&self) -> &C {
        &self.local.classifier
    }

    /// The inner service has no answer yet. The clock is read only here, so that an answer which is there at once
    /// costs no reading.
    pub(super) fn waits(&mut self) {
        if self.waiting.is_none() {
            self.waiting = Some(Instant::now());
        }
    }

    /// The head of the answer is there.
    pub(super) fn answered(&mut self) {
        self.sample = self.pass.sample();
        self.waiting = None;
    }

    /// This verdict stands unless the rest of the answer says otherwise.
    pub(super) fn stands(&mut self, verdict: Verdict) {
        self.provisional = Some(Box::new(verdict));
    }

    pub(super) fn settle(&mut self, verdict: &Verdict) {
        if !mem::replace(&mut self.settled, true) {
            self.local.shared.settle(&self.call, &self.pass, verdict, self.sample);
        }
    }

    /// Nothing was sent after all.
    pub(super) fn release(&mut self) {
        if !mem::replace(&mut self.settled, true) {
            self.local.shared.release(&self.call, &self.pass);
        }
    }

    fn give_up(&mut self, waited: Duration) {
        match self.provisional.take() {
            Some(verdict) => self.settle(&verdict),
            None => self.settle(&Verdict::new(self.local.shared.reason_of_abandoned(waited))),
        }
    }
}

impl<C: Send + Sync> OnEnd for Admission<C> {
    fn end(&mut self, end: End<'_>) {
        match end {
            End::Over(verdict) => self.settle(verdict),
            End::Abandoned { waited } => self.give_up(waited),
        }
    }
}

impl<C> Drop for Admission<C> {
    fn drop(&mut self) {
        if !self.settled {
            let waited = self.waiting.map(|since| Instant::now().saturating_duration_since(since));
            self.give_up(waited.unwrap_or_default());
        }
    }
}
