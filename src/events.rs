//! What layers tell the outside: events for a [`Listener`], alerts for an [`AlertSink`].
//!
//! The same goes to `tracing` and, without names of tenants, actors or runs, to `metrics`:
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `belay_refusals_total` | counter | `code` |
//! | `belay_would_refuse_total` | counter | `layer`, `code` |
//! | `belay_loops_total` | counter | `rule` |
//! | `belay_loops_unwatched_total`, calls of runs for which there is no room | counter | |
//! | `belay_fallbacks_total` | counter | `outcome` |
//! | `belay_alerts_total` | counter | `layer`, `kind` |
//! | `belay_breaker_transitions_total` | counter | `circuit`, `to`, `signal` |
//! | `belay_budget_signals_total` | counter | `kind`, `level` |
//! | `belay_budget_settlements_total` | counter | `how` |
//! | `belay_budget_finals_total` | counter, of requests that were changed to ask for a final answer | |
//! | `belay_budget_shared_total` | counter, of calls without room for an account of their own | `level` |
//! | `belay_breaker_circuits` | gauge, of circuits that are not closed | `circuit`, `state` |

use std::fmt;

use crate::{
    call::Scope,
    error::Rejected,
    fallback::Fell,
    loop_detector::Found,
    semantic_breaker::{Circuit, Signal, State},
    token_budget,
};

/// Hears every decision of a layer. It is called outside of all locks, on the caller's task: it must not block. It may
/// steer the layer it hears, and then hears of that too. A panic in it is caught and logged, and changes no decision.
///
/// Closures are listeners:
///
/// ```
/// use tower_belay::{SemanticBreakerLayer, TripCard, events::Event};
/// let layer = SemanticBreakerLayer::new(TripCard::default())
///     .listener(|event: &Event<'_>| println!("{event}"));
/// ```
pub trait Listener: Send + Sync + 'static {
    /// Something was decided.
    fn on_event(&self, event: &Event<'_>);
}

impl<F> Listener for F
where
    F: Fn(&Event<'_>) + Send + Sync + 'static,
{
    fn on_event(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Hears what a person should look at. The same rules as for a [`Listener`]; closures are sinks.
///
/// ```
/// use tower_belay::{SemanticBreakerLayer, TripCard, events::{Alert, AlertKind}};
/// let layer = SemanticBreakerLayer::new(TripCard::default())
///     .alerts(|alert: &Alert| eprintln!("{alert}"));
/// assert_eq!(Alert::new(AlertKind::Reconcile, "target=crm").to_string(), "reconcile: target=crm");
/// ```
pub trait AlertSink: Send + Sync + 'static {
    /// A person should look at this.
    fn alert(&self, alert: &Alert);
}

impl<F> AlertSink for F
where
    F: Fn(&Alert) + Send + Sync + 'static,
{
    fn alert(&self, alert: &Alert) {
        self(alert);
    }
}

/// A decision of a layer.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A circuit of the semantic breaker changed its state.
    Transition(&'a Transition),
    /// A run repeats itself, and was warned with the result of its last call, or ended by it.
    Looping(&'a Looping),
    /// A call was refused; nothing was sent.
    Refused(&'a Rejected),
    /// A call would have been refused, but the layer only watches.
    WouldRefuse(&'a Rejected),
    /// A budget is nearly spent, or is being spent without progress.
    Budget(&'a token_budget::Signal),
    /// A call came to nothing, and something else was asked to answer for it.
    Fell(&'a Fell<'a>),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transition(transition) => transition.fmt(f),
            Self::Looping(looping) => looping.fmt(f),
            Self::Refused(rejected) => write!(f, "refused: {rejected}"),
            Self::WouldRefuse(rejected) => write!(f, "would refuse: {rejected}"),
            Self::Budget(signal) => signal.fmt(f),
            Self::Fell(fell) => fell.fmt(f),
        }
    }
}

/// A change of state of one circuit of the semantic breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The circuit.
    pub circuit: Circuit,
    /// Which names share it.
    pub scope: Scope,
    /// The names themselves, such as `target=crm operation=refund`.
    pub key: String,
    /// The state it left.
    pub from: State,
    /// The state it is in.
    pub to: State,
    /// The signal that opened it, also where it closes again.
    pub signal: Option<Signal>,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {} to {}", self.circuit, self.key, self.from, self.to)?;
        match self.signal {
            Some(signal) => write!(f, " ({signal})"),
            None => Ok(()),
        }
    }
}

/// A run that repeats itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Looping {
    /// The names of the run, such as `tenant=acme run=7`.
    pub key: String,
    /// What was found.
    pub found: Found,
}

impl fmt::Display for Looping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.found.is_end { "ended" } else { "warned" };
        write!(f, "{what} {}: {}", self.key, self.found)
    }
}

/// Something that a person should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alert {
    /// What it is about.
    pub kind: AlertKind,
    /// Which names it is about, such as `tenant=acme actor=mallory`.
    pub key: String,
}

impl Alert {
    /// An alert about the names in `key`.
    pub fn new(kind: AlertKind, key: impl Into<String>) -> Self {
        Self { kind, key: key.into() }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.key)
    }
}

/// Why a person should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AlertKind {
    /// An actor was denied too often and is blocked.
    Security,
    /// The outcome of writes is not known: look them up, and tell the breaker what was found.
    Reconcile,
    /// A breaker may not test its target with the calls that come.
    AwaitingProbe,
    /// A credential does not work any more.
    Credential,
}

impl AlertKind {
    /// The stable, documented code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Reconcile => "reconcile",
            Self::AwaitingProbe => "awaiting_probe",
            Self::Credential => "credential",
        }
    }
}

impl fmt::Display for AlertKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
