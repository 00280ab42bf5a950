//! Reads a bulkhead and changes its limits from outside.

use std::{fmt, sync::Arc};

use super::{BulkheadConfig, gate::Gate, shared::Shared};
use crate::{call::Call, config_error::ConfigError};

/// Reads and changes what all services of one [`BulkheadLayer`](super::BulkheadLayer) share.
///
/// A class is named by a [`Call`] with the same names: `handle.occupancy(&Call::new().agent("researcher"))`.
#[derive(Clone)]
pub struct BulkheadHandle {
    shared: Arc<Shared>,
}

/// How many calls of a class there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Occupancy {
    /// How many run: sent, and their answer is not over.
    pub in_flight: u32,
    /// How many wait for one of them to end.
    pub queued: u32,
}

impl Occupancy {
    pub(super) fn of(gate: &Gate) -> Self {
        let (in_flight, queued) = gate.counts();
        Self { in_flight, queued }
    }
}

impl BulkheadHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// How many calls of the class of `call` run and wait.
    pub fn occupancy(&self, call: &Call) -> Occupancy {
        self.shared.occupancy(call)
    }

    /// Every class with calls that run or wait, such as `agent=researcher`.
    pub fn all(&self) -> Vec<(String, Occupancy)> {
        self.shared.all()
    }

    /// The configuration in force.
    pub fn config(&self) -> BulkheadConfig {
        (*self.shared.config()).clone()
    }

    /// Replaces the configuration. Calls that run go on, and those that wait keep their places and how long they may
    /// wait; with a higher limit, the first of them run at once. With another scope, counting starts anew.
    ///
    /// # Errors
    /// Names the field that has an impossible value; the old configuration stays.
    pub fn update(&self, config: BulkheadConfig) -> Result<(), ConfigError> {
        self.shared.update(config)
    }
}

impl fmt::Debug for BulkheadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadHandle").finish_non_exhaustive()
    }
}
