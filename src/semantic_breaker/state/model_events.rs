//! What happens to the machine and to the model, and the settings of both.

use std::time::Duration;

use proptest::prelude::*;

use super::{Denials, Failures, Malformed, RateLimits, TripCard, UnknownWrites};
use crate::reason::Reason;

/// The settings that the model knows, in milliseconds.
pub(super) struct Settings {
    pub(super) unknown_within: i64,
    pub(super) denials_within: i64,
    pub(super) limits_within: i64,
    pub(super) first_hold: i64,
    pub(super) pause: i64,
    pub(super) max_hold: i64,
    pub(super) cool_down: i64,
    pub(super) max_cool_down: i64,
    pub(super) probes: u32,
    pub(super) lease: i64,
    pub(super) ramp: i64,
}

pub(super) const CARD: Settings = Settings {
    unknown_within: 60_000,
    denials_within: 30_000,
    limits_within: 20_000,
    first_hold: 2_000,
    pause: 15_000,
    max_hold: 20_000,
    cool_down: 30_000,
    max_cool_down: 100_000,
    probes: 2,
    lease: 10_000,
    ramp: 20_000,
};

pub(super) fn millis(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

pub(super) fn card(live_probes: bool) -> TripCard {
    TripCard::default()
        .failures(Failures::count(3, 5))
        .malformed(Malformed { count: 2, window: 4, ..Malformed::default() })
        .unknown_writes(UnknownWrites { within: millis(CARD.unknown_within), ..UnknownWrites::default() })
        .denials(Denials { within: millis(CARD.denials_within), ..Denials::default() })
        .rate_limits(RateLimits {
            within: millis(CARD.limits_within),
            first_hold: millis(CARD.first_hold),
            pause: millis(CARD.pause),
            max_hold: millis(CARD.max_hold),
            ..RateLimits::default()
        })
        .cool_down(millis(CARD.cool_down))
        .max_cool_down(millis(CARD.max_cool_down))
        .jitter(0.0)
        .probes(CARD.probes)
        .probe_lease(millis(CARD.lease))
        .ramp(millis(CARD.ramp))
        .start_share(0.25)
        .live_probes(live_probes)
}

/// What came of a call, as far as the model cares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Good,
    Failed,
    Lost,
    Malformed,
    Neutral,
    Denied,
    Limited,
    Unauthenticated,
}

pub(super) const REASONS: [(Kind, Reason); 10] = [
    (Kind::Good, Reason::Completed),
    (Kind::Good, Reason::Paused),
    (Kind::Failed, Reason::ConnectFailed),
    (Kind::Lost, Reason::Timeout),
    (Kind::Malformed, Reason::EmptyAnswer),
    (Kind::Neutral, Reason::InvalidRequest),
    (Kind::Neutral, Reason::Abandoned),
    (Kind::Denied, Reason::PolicyDenied),
    (Kind::Limited, Reason::RateLimited),
    (Kind::Unauthenticated, Reason::QuotaExhausted),
];

/// Instants are relative to the real clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) write: bool,
    pub(super) deadline: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) admitted: usize,
    pub(super) lease: Option<usize>,
    pub(super) write: bool,
    pub(super) kind: Kind,
    pub(super) receipt: bool,
    pub(super) action: Option<u128>,
    pub(super) hint: Option<i64>,
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    Step(i64),
    Ask(Asked),
    /// Ends the newest call but `back`; it may end again.
    End {
        back: usize,
        reason: usize,
        receipt: bool,
        action: Option<u128>,
        hint: Option<i64>,
    },
    /// Asks and ends at once, so that windows fill.
    Call {
        write: bool,
        reason: usize,
        action: Option<u128>,
        hint: Option<i64>,
    },
    /// The same call, several times over.
    Burst {
        times: usize,
        write: bool,
        reason: usize,
    },
    /// Steps to where the state ends by itself, or just short of it.
    Wait {
        short: i64,
    },
    Drop {
        back: usize,
    },
    ForceOpen(Option<i64>),
    ForceClosed,
    Reset,
    Reconciled(u128),
}

pub(super) fn steps() -> impl Strategy<Value = i64> {
    let fixed = [0, 1, 500, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 100_000, 4_000_000_000];
    prop_oneof![
        6 => prop::sample::select(fixed.to_vec()),
        2 => 0..40_000_i64,
        1 => prop::sample::select(vec![-1, -500, -1_000, -1_001, -5_000, -100_000_000]),
    ]
}

pub(super) fn events() -> impl Strategy<Value = Event> {
    let soon = || prop::option::weighted(0.5, prop::sample::select(vec![-5_000, 0, 1_000, 8_000, 30_000, 8_000_000]));
    let action = || prop::option::weighted(0.8, 0..4_u128);
    let reason = || prop_oneof![1 => Just(0_usize), 2 => 0..REASONS.len()];
    prop_oneof![
        6 => steps().prop_map(Event::Step),
        8 => (any::<bool>(), soon()).prop_map(|(write, deadline)| Event::Ask(Asked { write, deadline })),
        8 => (0..4_usize, reason(), any::<bool>(), action(), soon())
            .prop_map(|(back, reason, receipt, action, hint)| Event::End { back, reason, receipt, action, hint }),
        12 => (any::<bool>(), reason(), action(), soon())
            .prop_map(|(write, reason, action, hint)| Event::Call { write, reason, action, hint }),
        6 => (1..6_usize, any::<bool>(), reason())
            .prop_map(|(times, write, reason)| Event::Burst { times, write, reason }),
        6 => prop::sample::select(vec![0, 0, 1]).prop_map(|short| Event::Wait { short }),
        2 => (0..3_usize).prop_map(|back| Event::Drop { back }),
        1 => prop_oneof![soon().prop_map(Event::ForceOpen), Just(Event::ForceClosed), Just(Event::Reset), Just(Event::Reset)],
        2 => (0..4_u128).prop_map(Event::Reconciled),
    ]
}
