//! Reads and steers a breaker from outside.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Circuit, Snapshot, State, TripCard, shared::Shared};
use crate::{
    call::{ActionId, Call},
    config_error::ConfigError,
};

/// Reads and steers the state that all services of one [`SemanticBreakerLayer`](super::SemanticBreakerLayer) share.
///
/// A key is named by a [`Call`] with the same names: `handle.state(&Call::to("crm").operation("refund"))`. A tenant is
/// such a name: for calls that carry one, name it here too, or another key is meant. Where a classifier names the calls,
/// its [`classify`](crate::classify::Classify::classify) tells what a request is called.
///
/// ```
/// # use tower_belay::{BreakerHandle, Call, SemanticBreakerLayer, TripCard, semantic_breaker::{Circuit, State}};
/// let layer = SemanticBreakerLayer::new(TripCard::default());
/// let (handle, crm) = (layer.handle(), Call::to("crm"));
/// handle.force_open(&crm, Circuit::Health, None);
/// assert_eq!(handle.state(&crm), State::Open);
/// assert_eq!(handle.state(&crm.clone().tenant("acme")), State::Closed);
/// handle.reset(&crm);
/// assert_eq!(handle.state(&crm), State::Closed);
/// ```
#[derive(Clone)]
pub struct BreakerHandle {
    shared: Arc<Shared>,
}

impl BreakerHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The state that decides about `call`: of its circuits the one that lets the least pass.
    pub fn state(&self, call: &Call) -> State {
        let severity = |state: &State| match state {
            State::Closed => 0,
            State::Recovering => 1,
            State::HalfOpen => 2,
            State::Gated => 3,
            State::AwaitingProbe => 4,
            State::Open => 5,
        };
        let states = self.shared.snapshots(call).into_iter().map(|snapshot| snapshot.state);
        states.max_by_key(severity).unwrap_or(State::Closed)
    }

    /// The circuits of `call` that keep state; a healthy one keeps none.
    pub fn snapshots(&self, call: &Call) -> Vec<Snapshot> {
        self.shared.snapshots(call)
    }

    /// Every key that keeps state, such as `target=crm operation=refund`: one that is not closed, one that counted
    /// something, and for a while one that closed again.
    pub fn all(&self) -> Vec<(String, Snapshot)> {
        self.shared.all_snapshots()
    }

    /// How many keys keep state, see [`all`](BreakerHandle::all).
    pub fn unhealthy(&self) -> usize {
        self.shared.cells.iter().map(crate::keyed::Keyed::len).sum()
    }

    /// Refuses the calls of this key for `duration`, or until it is reset.
    pub fn force_open(&self, call: &Call, circuit: Circuit, duration: impl Into<Option<Duration>>) {
        let until = duration.into().and_then(|duration| Instant::now().checked_add(duration));
        self.shared.operate(circuit, call, |cell, moment| cell.force_open(until, moment));
    }

    /// Lets the calls of this key pass whatever comes of them, until it is reset.
    pub fn force_closed(&self, call: &Call, circuit: Circuit) {
        self.shared.operate(circuit, call, |cell, moment| cell.force_closed(moment));
    }

    /// Closes all circuits of this key and forgets what they counted. Writes go on, but unknown ones stay to be
    /// reconciled.
    pub fn reset(&self, call: &Call) {
        for circuit in Circuit::ALL {
            self.shared.operate(circuit, call, |cell, moment| cell.reset(moment));
        }
    }

    /// The writes to this call's target that may have been applied: look them up, then tell
    /// [`reconciled`](BreakerHandle::reconciled).
    ///
    /// Only a write whose call has an [`action`](Call::action) can be named here. One without counts too, and cannot be
    /// reconciled: [`reset`](BreakerHandle::reset) lets writes go on all the same.
    ///
    /// ```
    /// use std::io;
    /// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
    /// use tower_belay::{
    ///     ActionId, Call, Effect, SemanticBreakerLayer, TripCard, classify_fn, semantic_breaker::State,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tower_belay::Error> {
    /// let refund = |key: &u128| Call::to("crm").effect(Effect::Sensitive).action(ActionId::from_key(*key));
    /// let breaker = SemanticBreakerLayer::new(TripCard::default()).classifier(classify_fn(refund));
    /// let (handle, crm) = (breaker.handle(), Call::to("crm"));
    /// let mut refunds = ServiceBuilder::new()
    ///     .layer(breaker)
    ///     .service(service_fn(|_: u128| async { Err::<(), _>(io::Error::from(io::ErrorKind::TimedOut)) }));
    ///
    /// for key in [17, 18] {
    ///     assert!(refunds.ready().await?.call(key).await.is_err());
    /// }
    /// assert_eq!(handle.state(&crm), State::Open);
    /// for action in handle.pending_writes(&crm) {
    ///     // Ask the target whether this one was applied.
    ///     handle.reconciled(&crm, action);
    /// }
    /// assert_eq!(handle.state(&crm), State::Closed);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pending_writes(&self, call: &Call) -> Vec<ActionId> {
        self.shared.pending_writes(call)
    }

    /// It is known now whether this write was applied. When fewer than the threshold are left unknown, writes that
    /// were stopped for them go on.
    pub fn reconciled(&self, call: &Call, action: ActionId) {
        self.shared.reconciled(call, action);
    }

    /// The kill switch: refuses every call of every key until [`revive`](BreakerHandle::revive).
    pub fn kill(&self) {
        self.shared.set_killed(true);
        tracing::error!("the kill switch is on: every call is refused");
    }

    /// Turns the kill switch off.
    pub fn revive(&self) {
        self.shared.set_killed(false);
        tracing::warn!("the kill switch is off");
    }

    /// Whether the kill switch is on.
    pub fn is_killed(&self) -> bool {
        self.shared.is_killed()
    }

    /// Replaces the card and keeps the state. Keys whose scope changed start anew.
    ///
    /// # Errors
    /// Names the field that has an impossible value; the old card stays.
    pub fn update(&self, card: TripCard) -> Result<(), ConfigError> {
        self.shared.update(card)
    }
}

impl fmt::Debug for BreakerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerHandle").field("unhealthy", &self.unhealthy()).finish()
    }
}
