//! What operators may read and change of a breaker's shared state.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    TripCard,
    plan::Plan,
    shared::{ProbeService, Shared},
    state::{Cell, Changes, Moment},
    words::{Circuit, Snapshot},
};
use crate::{
    call::{ActionId, Call},
    config_error::ConfigError,
    coverage::Mode,
    events::{AlertSink, Listener},
    keyed::{At, Claim},
    lock::lock,
};

impl Shared {
    pub(super) fn set_dry_run(&self) {
        self.change_plan(Plan::dry_run);
    }

    pub(super) fn set_killed(&self, killed: bool) {
        self.change_plan(|plan| plan.killed(killed));
    }

    pub(super) fn mode(&self) -> Mode {
        let plan = self.plan();
        match () {
            () if plan.is_dry_run() => Mode::DryRun,
            () if plan.is_off() && !plan.is_killed() => Mode::Misconfigured,
            () if lock(&self.card).is_off() => Mode::Off,
            () => Mode::Enforcing,
        }
    }

    pub(super) fn is_killed(&self) -> bool {
        self.plan().is_killed()
    }

    pub(super) fn set_probe(&self, probe: ProbeService) {
        *lock(&self.probe) = Some(probe);
        self.change_plan(Plan::with_probe);
    }

    pub(super) fn set_listener(&self, listener: Arc<dyn Listener>) {
        lock(&self.hooks).listener = Some(listener);
        self.change_plan(Plan::heard);
    }

    pub(super) fn set_alerts(&self, alerts: Arc<dyn AlertSink>) {
        lock(&self.hooks).alerts = Some(alerts);
        self.change_plan(Plan::heard);
    }

    pub(super) fn update(&self, card: TripCard) -> Result<(), ConfigError> {
        card.validate()?;
        *lock(&self.invalid) = None;
        let fresh = Plan::of(&card);
        // Under the lock, so that of two updates at once the card and the plan are the same one's.
        let mut current = lock(&self.card);
        *current = Arc::new(card);
        self.change_plan(|plan| fresh.with_switches_of(plan));
        Ok(())
    }

    /// Changes the circuit of a call's own key, making it where there is none.
    pub(super) fn operate(&self, circuit: Circuit, call: &Call, act: impl Fn(&mut Cell, Moment<'_>) -> Changes) {
        let (card, plan, now) = (self.card(), self.plan(), Instant::now());
        let act = |cell: &mut Cell| act(cell, self.moment(now, &card, &mut || self.next_epoch()));
        let (cells, scope, at) = (&self.cells[circuit as usize], plan.scope(circuit, call), At { now, rules: &*card });
        let changes = cells.make(call, scope, Claim::Operator, &at, || self.new_cell(circuit, now), act);
        self.tell(circuit, call, plan, &changes.unwrap_or_default());
    }

    /// Tells the circuit that lists this write, wherever it lies.
    pub(super) fn reconciled(&self, call: &Call, action: ActionId) {
        let (card, plan, now) = (self.card(), self.plan(), Instant::now());
        let (cells, at) = (&self.cells[Circuit::Writes as usize], At { now, rules: &*card });
        let changes = cells.look(call, plan.scope(Circuit::Writes, call), &at, |cell| {
            let listed = cell.pending_writes().any(|write| write == action);
            listed.then(|| cell.reconciled(action, self.moment(now, &card, &mut || self.next_epoch())))
        });
        self.tell(Circuit::Writes, call, plan, &changes.unwrap_or_default());
    }

    /// What a call's keys are like now; circuits without state are left out.
    pub(super) fn snapshots(&self, call: &Call) -> Vec<Snapshot> {
        let (card, plan, now) = (self.card(), self.plan(), Instant::now());
        let look = |circuit: &Circuit| {
            let (cells, at) = (&self.cells[*circuit as usize], At { now, rules: &*card });
            cells.look(call, plan.scope(*circuit, call), &at, |cell| Some(cell.snapshot(now, &card)))
        };
        Circuit::ALL.iter().filter_map(look).collect()
    }

    /// Every key that keeps state, with its snapshot.
    pub(super) fn all_snapshots(&self) -> Vec<(String, Snapshot)> {
        let (card, now) = (self.card(), Instant::now());
        let mut all = Vec::new();
        for cells in &self.cells {
            cells.visit(&At { now, rules: &*card }, |key, cell| all.push((key.to_string(), cell.snapshot(now, &card))));
        }
        all
    }

    pub(super) fn pending_writes(&self, call: &Call) -> Vec<ActionId> {
        let (card, plan, now) = (self.card(), self.plan(), Instant::now());
        let (cells, at) = (&self.cells[Circuit::Writes as usize], At { now, rules: &*card });
        cells
            .look(call, plan.scope(Circuit::Writes, call), &at, |cell| Some(cell.pending_writes().collect()))
            .unwrap_or_default()
    }
}
