//! One account, as a pure function of what is asked of it and when.
//!
//! Money moves in two steps. What a call may cost is *reserved* before it is sent, and *settled* once when its answer is
//! over: exactly, as at least so much, or not at all if it was not sent. What is spent may then be more than the limit:
//! that is a debt, and stays one.

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;

use super::{
    amount::{Amount, Dimension, Sums},
    balance::Balance,
    config::Budget,
    limits::Limits,
    need::{Ask, Denied, Need, Pricing, Settlement},
};

/// What holds for all accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) soft_percent: u32,
    pub(super) kept_back_percent: u32,
    pub(super) least_answer: u64,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    limits: Limits,
    granted: Sums,
    spent: Sums,
    reserved: Sums,
    uncertain: Sums,
    begun: Instant,
    used: Instant,
    since_progress: u64,
    /// Whether it was told to finish, and goes on until then.
    finishing: bool,
    /// Signals are raised once.
    finish_told: bool,
    no_progress_told: bool,
}

// === impl Rules ===

impl Rules {
    pub(super) const fn of(budget: &Budget) -> Self {
        let Budget { soft_percent, kept_back_percent, least_answer, .. } = *budget;
        Self { soft_percent, kept_back_percent, least_answer }
    }
}

// === impl State ===

impl State {
    pub(super) fn new(limits: Limits, now: Instant) -> Self {
        Self {
            limits,
            granted: Sums::default(),
            spent: Sums::default(),
            reserved: Sums::default(),
            uncertain: Sums::default(),
            begun: now,
            used: now,
            since_progress: 0,
            finishing: false,
            finish_told: false,
            no_progress_told: false,
        }
    }

    /// Whether a call may use this account. Changes nothing, but makes a final answer as short as it must be.
    pub(super) fn admit(&self, ask: Ask, need: &mut Need, now: Instant, rules: &Rules) -> Result<(), Denied> {
        if self.limits == Limits::default() && !self.finishing {
            return Ok(());
        }
        if let Some(stopped) = self.stopped(need.steps > 0, now) {
            return Err(Denied::Spent(stopped));
        }
        if self.limits.nano_dollars.is_some() && need.pricing == Pricing::Unknown {
            return Err(Denied::Unpriced);
        }
        match ask {
            Ask::Work if self.is_soft(now, rules) => Err(Denied::Finish),
            Ask::Work => self.leaves_a_last_answer(need, rules).map_err(|_| Denied::Finish),
            Ask::Whole => self.fits(&need.amount(), |_, _, _| true).map_err(Denied::Spent),
            Ask::Final => self.shorten(need, rules).map_err(Denied::Spent),
        }
    }

    pub(super) fn reserve(&mut self, amount: &Amount, now: Instant) {
        self.reserved.add(amount);
        self.used = now;
    }

    /// Gives back what was reserved, and books what came of it.
    pub(super) fn settle(&mut self, reserved: &Amount, settlement: &Settlement) {
        self.reserved.take(reserved);
        let amount = match settlement {
            Settlement::Exact(amount) => amount,
            Settlement::AtLeast(amount) => {
                self.uncertain.add(amount);
                amount
            }
            Settlement::NotSent => return,
        };
        self.spent.add(amount);
        self.since_progress = self.since_progress.saturating_add(amount.tokens);
    }

    /// The run is told to finish, and goes on to until it is granted more.
    pub(super) const fn finish(&mut self) {
        self.finishing = true;
    }

    /// Whether this is the first time that it has to finish.
    pub(super) const fn tell_finish(&mut self) -> bool {
        !std::mem::replace(&mut self.finish_told, true)
    }

    /// Whether just now `tokens` were spent since the last progress.
    pub(super) const fn tell_no_progress(&mut self, tokens: u64) -> bool {
        self.since_progress >= tokens && !std::mem::replace(&mut self.no_progress_told, true)
    }

    pub(super) const fn progressed(&mut self) {
        self.since_progress = 0;
        self.no_progress_told = false;
    }

    /// More of everything that is limited. A debt is paid first.
    pub(super) fn grant(&mut self, amount: &Amount) {
        self.granted.add(amount);
        self.finishing = false;
        self.finish_told = false;
    }

    pub(super) const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub(super) const fn used(&self) -> Instant {
        self.used
    }

    /// Whether there is anything to remember.
    pub(super) fn was_spent_from(&self) -> bool {
        [self.spent, self.reserved, self.granted].iter().any(|sums| *sums != Sums::default())
    }

    /// What no call may start for any more; calls of tools also for want of steps.
    pub(super) fn stopped(&self, is_step: bool, now: Instant) -> Option<Dimension> {
        if self.limits.wall_time.is_some_and(|limit| self.elapsed(now) >= limit) {
            return Some(Dimension::WallTime);
        }
        let counts = |dimension: &Dimension| is_step || *dimension != Dimension::Steps;
        let is_spent = |dimension: &Dimension| self.limit(*dimension).is_some_and(|it| it <= self.spent.of(*dimension));
        Dimension::SUMMED.into_iter().filter(counts).find(is_spent)
    }

    pub(super) fn balance(&self, now: Instant) -> Balance {
        let limit = |dimension| self.limit(dimension).map(|limit| u64::try_from(limit).unwrap_or(u64::MAX));
        Balance {
            spent: self.spent.amount(),
            reserved: self.reserved.amount(),
            uncertain: self.uncertain.amount(),
            limits: Limits {
                input_tokens: limit(Dimension::Input),
                output_tokens: limit(Dimension::Output),
                tokens: limit(Dimension::Tokens),
                nano_dollars: limit(Dimension::NanoDollars),
                steps: limit(Dimension::Steps),
                wall_time: self.limits.wall_time,
            },
            elapsed: self.elapsed(now),
            since_progress: self.since_progress,
            finishing: self.finishing,
        }
    }

    fn is_soft(&self, now: Instant, rules: &Rules) -> bool {
        if self.finishing {
            return true;
        }
        let soft = u128::from(rules.soft_percent);
        let late =
            |limit: Duration| self.elapsed(now).as_nanos().saturating_mul(100) >= limit.as_nanos().saturating_mul(soft);
        self.limits.wall_time.is_some_and(late)
            || Dimension::SUMMED.into_iter().any(|dimension| {
                // The last step is as good as any other: there is no final answer to keep some of it for.
                let soft = if dimension == Dimension::Steps { 100 } else { soft };
                self.limit(dimension).is_some_and(|limit| self.used_of(dimension) * 100 >= limit * soft)
            })
    }

    /// Whether there is so much, and enough beside it for a final answer to a request as long as this one.
    fn leaves_a_last_answer(&self, need: &Need, rules: &Rules) -> Result<(), Dimension> {
        let last = Need { output: need.output.min(rules.least_answer), ..need.made_last() }.amount();
        self.fits(&need.amount(), |dimension, limit, left| {
            let share = limit.saturating_mul(rules.kept_back_percent.into());
            // It takes no steps.
            dimension == Dimension::Steps || (left >= last.of(dimension).into() && left.saturating_mul(100) >= share)
        })
    }

    /// Whether there is so much, and `enough` of each limit is left; else of what there is not.
    fn fits(&self, amount: &Amount, enough: impl Fn(Dimension, u128, u128) -> bool) -> Result<(), Dimension> {
        let lacks = |dimension: &Dimension| {
            let needed = u128::from(amount.of(*dimension));
            let is_left = |limit: u128| {
                let left = limit.checked_sub(self.used_of(*dimension)).and_then(|left| left.checked_sub(needed));
                left.is_some_and(|left| enough(*dimension, limit, left))
            };
            needed > 0 && self.limit(*dimension).is_some_and(|limit| !is_left(limit))
        };
        Dimension::SUMMED.into_iter().find(lacks).map_or(Ok(()), Err)
    }

    /// Makes the answer so short that it fits, if it is still worth asking for then.
    fn shorten(&self, need: &mut Need, rules: &Rules) -> Result<(), Dimension> {
        let least = need.output.min(rules.least_answer);
        self.fits(&Need { output: least, ..*need }.amount(), |_, _, _| true)?;
        let room = |dimension| self.limit(dimension).map(|limit| limit.saturating_sub(self.used_of(dimension)));
        let tokens = |room: u128| u64::try_from(room).unwrap_or(u64::MAX);
        let bounds = [
            room(Dimension::Output).map(tokens),
            room(Dimension::Tokens).map(|room| tokens(room.saturating_sub(need.input.into()))),
            match need.pricing {
                Pricing::Known(price) => {
                    room(Dimension::NanoDollars).map(|room| price.affordable_output(room, need.input))
                }
                Pricing::Unknown | Pricing::Free => None,
            },
        ];
        need.output = bounds.into_iter().flatten().fold(need.output, u64::min);
        Ok(())
    }

    /// The limit with what was granted.
    fn limit(&self, dimension: Dimension) -> Option<u128> {
        Some(u128::from(self.limits.of(dimension)?).saturating_add(self.granted.of(dimension)))
    }

    fn used_of(&self, dimension: Dimension) -> u128 {
        self.spent.of(dimension).saturating_add(self.reserved.of(dimension))
    }

    /// A clock that goes back has not moved.
    fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }
}
