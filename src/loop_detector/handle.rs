//! Reads the runs of a loop detector, and steers them from outside.

use std::{fmt, sync::Arc};

use super::{Found, LoopPolicy, shared::Shared};
use crate::{call::Call, config_error::ConfigError};

/// Reads and steers the runs that all services of one [`LoopDetectorLayer`](super::LoopDetectorLayer) watch.
///
/// A run is named by a [`Call`] with the same names: `handle.state(&Call::new().tenant("acme").run("run 7"))`.
#[derive(Clone)]
pub struct LoopHandle {
    shared: Arc<Shared>,
}

/// What a run did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunState {
    /// Its steps; calls of one batch are one.
    pub steps: u32,
    /// How many results carried a warning.
    pub warnings: u32,
    /// How many calls were refused since it last made progress.
    pub refusals: u32,
    /// What ended it.
    pub ended: Option<Found>,
}

impl LoopHandle {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The run of `call`; `None` where nothing is known of it.
    pub fn state(&self, call: &Call) -> Option<RunState> {
        self.shared.state(call)
    }

    /// The user spoke: what was asked before may be asked again, and a run that had ended goes on. A call of a later
    /// [turn](Call::at_step) says the same.
    pub fn user_spoke(&self, call: &Call) {
        self.shared.user_spoke(call);
    }

    /// The run is over: nothing is kept of it, and what comes late changes nothing.
    pub fn close(&self, call: &Call) {
        self.shared.close(call);
    }

    /// The policy in force.
    pub fn policy(&self) -> LoopPolicy {
        self.shared.policy()
    }

    /// Replaces the policy. What is known of runs stays.
    ///
    /// # Errors
    /// Names the field that has an impossible value; the old policy stays.
    pub fn update(&self, policy: LoopPolicy) -> Result<(), ConfigError> {
        self.shared.update(policy)
    }
}

impl fmt::Debug for LoopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopHandle").finish_non_exhaustive()
    }
}
