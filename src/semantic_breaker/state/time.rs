//! What time alone does to a cell.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    cell::{Cell, Forced, Phase},
    event::Moment,
    window::rewind,
};

impl Cell {
    /// What time alone changes. A clock that goes back takes everything with it; a little disorder between threads
    /// does not.
    pub(super) fn tick(&mut self, moment: &mut Moment<'_>) {
        const DISORDER: Duration = Duration::from_secs(1);
        // Compared before it is subtracted, since a refusal costs little more than this.
        if moment.now < self.seen {
            let back = self.seen.saturating_duration_since(moment.now);
            if back > DISORDER {
                self.rewind(back);
            } else {
                moment.now = self.seen;
            }
        }
        self.seen = moment.now;
        if let Some(Forced::Open { until: Some(until) }) = self.forced
            && moment.now >= until
        {
            self.forced = None;
            self.disown(moment);
        }
        self.finish_ramp(moment.now);
    }

    /// The end of a ramp begins no phase: calls admitted while recovering still belong.
    pub(super) fn finish_ramp(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Recovering { ends, .. } if now >= ends) {
            self.phase = Phase::Closed;
            self.changed = Some(now);
            self.cool.start_anew();
        }
    }

    fn rewind(&mut self, by: Duration) {
        match &mut self.phase {
            Phase::Open { until, .. } => rewind(until, by),
            Phase::Recovering { started, ends, .. } => [started, ends].into_iter().for_each(|at| rewind(at, by)),
            Phase::Closed | Phase::HalfOpen { .. } => {}
        }
        if let Some(Forced::Open { until: Some(until) }) = &mut self.forced {
            rewind(until, by);
        }
        self.lease.iter_mut().for_each(|held| rewind(&mut held.expires, by));
        self.changed.iter_mut().for_each(|at| rewind(at, by));
        self.evidence.rewind(by);
    }
}
