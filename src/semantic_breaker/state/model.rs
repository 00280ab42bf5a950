//! A deliberately naive breaker: it keeps everything, scans it for every answer, and counts time in milliseconds.

use super::{
    Circuit, Refusal, Signal, State,
    evidence::Voucher,
    model_events::{Asked, CARD, Ended, Kind},
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    Pass,
    Probe,
    RunProbe,
    Refuse(Refusal, Signal, Option<i64>),
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Closed,
    Open {
        until: i64,
        cause: Signal,
    },
    HalfOpen {
        good: u32,
        awaiting: bool,
        cause: Signal,
    },
    /// The share of every call that asked, in millionths.
    Recovering {
        start: i64,
        cause: Signal,
        asked: Vec<i64>,
    },
}

/// All instants are milliseconds of the model's clock, all orders are positions in the history of events.
#[derive(Debug)]
pub(super) struct Model {
    circuit: Circuit,
    live_probes: bool,
    has_probe: bool,
    /// The model's clock, and by how much the real one is ahead of it (or behind, in a little disorder).
    pub(super) now: i64,
    pub(super) ahead: i64,
    pub(super) event: usize,
    began: usize,
    phase: Phase,
    forced: Option<Option<i64>>,
    forced_closed: bool,
    pub(super) lease: Option<(usize, i64, Voucher)>,
    failed_recoveries: u32,
    /// Kinds of the attempts since the windows were cleared.
    attempts: Vec<Kind>,
    denials: Vec<i64>,
    /// Action, when, and whether it counts.
    pub(super) unknown: Vec<(Option<u128>, i64, bool)>,
    limits: Vec<i64>,
    hintless: u32,
    latest_hint: Option<i64>,
    /// Started, may probe, over, at which event.
    hold: Option<(i64, i64, i64, usize)>,
    paused: usize,
    reset: usize,
}

impl Model {
    pub(super) fn new(circuit: Circuit, live_probes: bool, has_probe: bool) -> Self {
        Self {
            circuit,
            live_probes,
            has_probe,
            now: 0,
            ahead: 0,
            event: 0,
            began: 0,
            phase: Phase::Closed,
            forced: None,
            forced_closed: false,
            lease: None,
            failed_recoveries: 0,
            attempts: Vec::new(),
            denials: Vec::new(),
            unknown: Vec::new(),
            limits: Vec::new(),
            hintless: 0,
            latest_hint: None,
            hold: None,
            paused: 0,
            reset: 0,
        }
    }

    fn sync(&mut self) {
        if self.ahead >= 0 {
            self.now += self.ahead;
            self.ahead = 0;
        } else if self.ahead < -1_000 {
            self.ahead = 0;
        }
        if matches!(self.forced, Some(Some(until)) if self.now >= until) {
            self.forced = None;
            self.begin_again();
        }
        self.end_ramp();
    }

    fn end_ramp(&mut self) {
        if matches!(self.phase, Phase::Recovering { start, .. } if self.now >= start + CARD.ramp) {
            self.phase = Phase::Closed;
            self.failed_recoveries = 0;
        }
    }

    fn begin_again(&mut self) {
        self.began = self.event;
        self.lease = None;
    }

    fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.begin_again();
    }

    fn busy(&self) -> Option<i64> {
        self.lease.map(|(_, expires, _)| expires).filter(|expires| self.now < *expires)
    }

    pub(super) fn ask(&mut self, asked: &Asked) -> Answer {
        if self.circuit == Circuit::Writes && !asked.write {
            return Answer::Pass;
        }
        let deadline = asked.deadline.map(|at| at + self.raw());
        self.sync();
        if let Some(until) = self.forced {
            return Answer::Refuse(Refusal::ForcedOpen, Signal::Operator, until);
        }
        if self.forced_closed {
            return Answer::Pass;
        }
        if let Phase::Open { until, cause } = self.phase {
            if self.now < until {
                let refusal = match self.circuit {
                    Circuit::Health => Refusal::Open,
                    Circuit::Writes => Refusal::WritesOpen,
                    Circuit::Denials => Refusal::ActorBlocked,
                    Circuit::Credential => Refusal::CredentialOpen,
                };
                return Answer::Refuse(refusal, cause, Some(until));
            }
            self.begin(Phase::HalfOpen { good: 0, awaiting: false, cause });
        }
        let hold = self.hold.filter(|hold| self.now < hold.2);
        if let Some((_, probe, over, _)) = hold {
            if self.now < probe {
                return Answer::Refuse(Refusal::Gated, Signal::RateLimits, Some(probe));
            }
            if self.busy().is_some() {
                return Answer::Refuse(Refusal::Gated, Signal::RateLimits, Some(over));
            }
        }
        let now = self.now;
        let busy = self.busy();
        let lease = |model: &mut Self, voucher| {
            let expires = deadline.filter(|at| *at > now).unwrap_or(now + CARD.lease).min(now + 3_600_000);
            model.lease = Some((model.event, expires, voucher));
        };
        match &mut self.phase {
            Phase::HalfOpen { awaiting, cause, .. } => {
                if let Some(expires) = busy {
                    return Answer::Refuse(Refusal::Probing, *cause, Some(expires));
                }
                let any = matches!(self.circuit, Circuit::Denials | Circuit::Credential);
                let users = asked.write && !any && self.has_probe;
                if asked.write && !any && !self.has_probe && !self.live_probes {
                    *awaiting = true;
                    return Answer::Refuse(Refusal::AwaitingProbe, *cause, None);
                }
                *awaiting = false;
                lease(self, if users { Voucher::Probe } else { Voucher::Call });
                return if users { Answer::RunProbe } else { Answer::Probe };
            }
            Phase::Recovering { start, cause, asked } => {
                let whole = |asked: &[i64]| asked.iter().sum::<i64>() / 1_000_000;
                let before = whole(asked);
                asked.push(250_000 + 750_000 * (now - *start) / CARD.ramp);
                if whole(asked) == before {
                    return Answer::Refuse(Refusal::Recovering, *cause, None);
                }
            }
            _ => {}
        }
        if hold.is_some() {
            lease(self, Voucher::Call);
            return Answer::Probe;
        }
        Answer::Pass
    }

    /// The real clock, in the model's time.
    pub(super) fn raw(&self) -> i64 {
        if self.ahead < -1_000 { self.now } else { self.now + self.ahead }
    }

    pub(super) fn end(&mut self, ended: &Ended) {
        let held = self.lease.filter(|lease| Some(lease.0) == ended.lease).map(|lease| lease.2);
        if held.is_some() {
            self.lease = None;
        }
        if self.circuit == Circuit::Writes && !ended.write && held.is_none() {
            return;
        }
        let hint = ended.hint.map(|at| at + self.raw());
        self.sync();
        let forced = self.forced.is_some() || self.forced_closed;
        let late = ended.admitted < self.began;
        let running = matches!(self.phase, Phase::Closed | Phase::Recovering { .. });
        let unknown_write = ended.kind == Kind::Lost && ended.write;
        if self.circuit == Circuit::Writes && unknown_write {
            self.unknown.retain(|write| self.now - write.1 < CARD.unknown_within);
            let mut counts = running && !late && !forced;
            if let Some(index) = self.unknown.iter().position(|it| it.0.is_some() && it.0 == ended.action) {
                counts |= self.unknown.remove(index).2;
            }
            self.unknown.push((ended.action, self.now, counts));
        }
        if self.circuit == Circuit::Credential && !forced {
            let after_hold = held.is_some() || self.hold.is_none_or(|hold| ended.admitted >= hold.3);
            if ended.kind == Kind::Limited && ended.admitted >= self.reset {
                self.limited(hint, ended.admitted, after_hold, held.is_some());
            } else if ended.kind == Kind::Good && after_hold {
                self.hintless = 0;
                if held.is_some() {
                    (self.hold, self.latest_hint) = (None, None);
                }
            }
        }
        if forced || (late && held.is_none()) {
            return;
        }
        match self.phase.clone() {
            Phase::Closed | Phase::Recovering { .. } => {
                self.attempts.push(if ended.kind == Kind::Lost && !ended.write { Kind::Failed } else { ended.kind });
                if ended.kind == Kind::Denied {
                    self.denials.push(self.now);
                }
                if let Some(signal) = self.reached(ended.kind) {
                    if self.phase != Phase::Closed {
                        self.failed_recoveries += 1;
                    }
                    self.open(signal);
                }
            }
            Phase::HalfOpen { good, awaiting, cause } => {
                let Some(voucher) = held else { return };
                let target = matches!(self.circuit, Circuit::Health | Circuit::Writes);
                let signal = match ended.kind {
                    Kind::Lost if target && ended.write => Some(Signal::UnknownWrites),
                    Kind::Lost | Kind::Failed if target => Some(Signal::Failures),
                    Kind::Malformed if target => Some(Signal::Malformed),
                    Kind::Denied if self.circuit == Circuit::Denials => Some(Signal::Denials),
                    Kind::Unauthenticated if self.circuit == Circuit::Credential => Some(Signal::Credential),
                    _ => None,
                };
                let verified = !target || voucher == Voucher::Probe || !ended.write || ended.receipt;
                if let Some(signal) = signal {
                    self.failed_recoveries += 1;
                    self.open(signal);
                } else if ended.kind == Kind::Good && verified {
                    if good + 1 < CARD.probes {
                        self.phase = Phase::HalfOpen { good: good + 1, awaiting, cause };
                    } else {
                        self.begin(Phase::Recovering { start: self.now, cause, asked: Vec::new() });
                    }
                }
            }
            Phase::Open { .. } => {}
        }
    }

    fn limited(&mut self, hint: Option<i64>, admitted: usize, after_hold: bool, probed: bool) {
        let now = self.now;
        self.latest_hint = self.latest_hint.max(hint);
        let mut paused = false;
        if admitted >= self.paused {
            self.limits.push(now);
            paused = self.limits.iter().filter(|at| now - **at < CARD.limits_within).count() >= 3;
        }
        let target = match hint {
            _ if paused => {
                self.limits.clear();
                self.latest_hint.filter(|at| *at > now).unwrap_or(now + CARD.pause)
            }
            Some(hint) => {
                self.hintless = 0;
                hint
            }
            None if after_hold => {
                self.hintless += 1;
                now + (CARD.first_hold << (self.hintless - 1).min(20)).min(CARD.max_hold)
            }
            None => now,
        };
        let old = self.hold.filter(|hold| now < hold.2);
        let over = old.map_or(target, |hold| hold.2.max(target));
        let longer = old.is_none_or(|hold| over > hold.2);
        if over > now && (longer || probed || paused) {
            let started = old.filter(|_| !after_hold && !paused).map_or(now, |hold| hold.0);
            self.hold = Some((started, over.min(started + CARD.max_hold), over, self.event + 1));
            if paused {
                self.paused = self.event + 1;
            }
        }
    }

    fn reached(&self, kind: Kind) -> Option<Signal> {
        let last =
            |kind: Kind, window: usize| self.attempts.iter().rev().take(window).filter(|it| **it == kind).count();
        match self.circuit {
            Circuit::Health if last(Kind::Failed, 5) >= 3 => Some(Signal::Failures),
            Circuit::Health if last(Kind::Malformed, 4) >= 2 => Some(Signal::Malformed),
            Circuit::Writes if self.counting() >= 2 => Some(Signal::UnknownWrites),
            Circuit::Denials => {
                let recent = self.denials.iter().filter(|at| self.now - **at < CARD.denials_within).count();
                (kind == Kind::Denied && recent >= 3).then_some(Signal::Denials)
            }
            Circuit::Credential if kind == Kind::Unauthenticated => Some(Signal::Credential),
            _ => None,
        }
    }

    fn counting(&self) -> usize {
        self.unknown.iter().filter(|(_, at, counts)| *counts && self.now - at < CARD.unknown_within).count()
    }

    fn open(&mut self, cause: Signal) {
        let wait = (CARD.cool_down << self.failed_recoveries.min(20)).min(CARD.max_cool_down);
        self.clear();
        self.begin(Phase::Open { until: self.now + wait, cause });
        // A result that opens is of the event before the phase: later calls are not late.
        self.began = self.event + 1;
    }

    fn clear(&mut self) {
        self.attempts.clear();
        self.denials.clear();
        self.unknown.iter_mut().for_each(|write| write.2 = false);
    }

    pub(super) fn release(&mut self, lease: usize) {
        self.lease = self.lease.filter(|held| held.0 != lease);
    }

    pub(super) fn force_open(&mut self, until: Option<i64>) {
        let until = until.map(|at| at + self.raw());
        self.sync();
        (self.forced, self.forced_closed) = (Some(until), false);
        self.begin_again();
    }

    pub(super) fn start_over(&mut self, forced_closed: bool) {
        self.sync();
        (self.forced, self.forced_closed) = (None, forced_closed);
        self.clear();
        self.begin(Phase::Closed);
        (self.limits, self.hintless, self.latest_hint, self.hold) = (Vec::new(), 0, None, None);
        (self.paused, self.reset, self.failed_recoveries) = (0, self.event, 0);
    }

    pub(super) fn reconciled(&mut self, action: u128) {
        self.sync();
        let before = self.unknown.len();
        self.unknown.retain(|write| write.0 != Some(action));
        let opened = matches!(
            self.phase,
            Phase::Open { cause: Signal::UnknownWrites, .. } | Phase::HalfOpen { cause: Signal::UnknownWrites, .. }
        );
        let left = self.unknown.iter().filter(|write| self.now - write.1 < CARD.unknown_within).count();
        if self.unknown.len() < before && opened && left < 2 {
            self.unknown.iter_mut().for_each(|write| write.2 = true);
            self.begin(Phase::Closed);
        }
    }

    /// Whether a long hold lets one call try.
    pub(super) fn may_try(&self, at: i64) -> bool {
        self.hold.is_some_and(|hold| at >= hold.1)
    }

    pub(super) fn state(&self, at: i64) -> State {
        match (&self.phase, self.forced) {
            (_, Some(until)) if until.is_none_or(|until| at < until) => State::Open,
            _ if self.forced_closed => State::Closed,
            (Phase::Open { until, .. }, _) if at < *until => State::Open,
            _ if self.hold.is_some_and(|hold| at < hold.2) => State::Gated,
            (Phase::HalfOpen { awaiting: true, .. }, _) if self.lease.is_none_or(|lease| at >= lease.1) => {
                State::AwaitingProbe
            }
            (Phase::HalfOpen { .. } | Phase::Open { .. }, _) => State::HalfOpen,
            (Phase::Recovering { start, .. }, _) if at < start + CARD.ramp => State::Recovering,
            _ => State::Closed,
        }
    }

    /// What must never be: closed, while a threshold is reached.
    pub(super) fn is_overdue(&self) -> bool {
        self.phase == Phase::Closed
            && self.forced.is_none()
            && !self.forced_closed
            && self.reached(Kind::Good).is_some()
    }
}
