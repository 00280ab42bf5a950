//! Decides whether a request is sent, and as what.

use tokio::time::Instant;

use super::{
    account::{Account, Claim, Path, Reservation},
    config::Budget,
    estimate::Estimate,
    need::{Ask, Denied, Need, Pricing},
    price::Unpriced,
    refuse::rejected,
    service::{Counts, Local},
    shared::signal,
    signal::SignalKind,
    state::Rules,
};
use crate::{
    amend::{Amend, Amendment, FinishUp},
    call::{Call, Name},
    error::Rejected,
};

impl<C, A, E> Local<C, A, E> {
    /// Reserves what `request` needs; the request may come out changed.
    pub(super) fn admit<Req>(
        &self,
        request: Req,
        call: &Call,
        path: &Path,
        budget: &Budget,
    ) -> Result<(Req, Reservation), Box<Rejected>>
    where
        A: Amend<Req>,
        E: Estimate<Req>,
    {
        let now = Instant::now();
        if self.dry_run && self.till.0.is_invalid() {
            self.till.0.teller.would_refuse(&self.till.0.misconfigured(call));
        }
        let rules = &Rules::of(budget);
        let need = self.need(&request, call, budget);
        let ask = match self.counts {
            Counts::Tokens => Ask::Work,
            Counts::Steps => Ask::Whole,
        };
        let (denied, account) = match path.reserve(&self.till, Claim { ask, need, now, rules }) {
            Ok(reservation) => return Ok((request, reservation)),
            Err(denied) => denied,
        };
        if denied == Denied::Finish {
            self.till.0.soft_stop(account, &path.run);
        }
        if self.dry_run {
            let would = match denied {
                Denied::Finish => self.whole(path, need, now, rules).map(Reservation::release).err(),
                denied => Some((denied, account)),
            };
            let would = would.and_then(|(denied, account)| rejected(denied, account, call, now));
            would.iter().for_each(|rejected| self.till.0.teller.would_refuse(rejected));
            return Ok((request, path.reserve_anyway(&self.till, need, now)));
        }
        let sent = match denied {
            Denied::Finish => self.finish(request, path, Claim { ask: Ask::Final, need, now, rules }, account),
            denied => Err((denied, account)),
        };
        sent.map_err(|(denied, account)| {
            Box::new(rejected(denied, account, call, now).expect("only work is put off, and this is no work any more"))
        })
    }

    /// Asks for the final answer. A request that cannot be changed is sent as it is, with the signal.
    fn finish<'a, Req>(
        &self,
        mut request: Req,
        path: &'a Path,
        claim: Claim<'_>,
        account: &'a Account,
    ) -> Result<(Req, Reservation), (Denied, &'a Account)>
    where
        A: Amend<Req>,
        E: Estimate<Req>,
    {
        let Claim { need, now, rules, .. } = claim;
        let last = path.reserve(&self.till, Claim { need: need.made_last(), ..claim });
        let left = last.as_ref().map_or(0, |reservation| reservation.need.output);
        match (self.amend.amend(&request, &finish_up(left)), last) {
            (Some(amended), Ok(reservation)) => {
                metrics::counter!("belay_budget_finals_total").increment(1);
                return Ok((amended, reservation));
            }
            // It could be the last one, and there is no room for that.
            (Some(_), Err(denied)) => return Err(denied),
            (None, Ok(reservation)) => reservation.release(),
            (None, Err(_)) => {}
        }
        let reservation = self.whole(path, need, now, rules)?;
        self.estimate.tell(&mut request, signal(SignalKind::SoftStop, account));
        Ok((request, reservation))
    }

    fn whole<'a>(
        &self,
        path: &'a Path,
        need: Need,
        now: Instant,
        rules: &Rules,
    ) -> Result<Reservation, (Denied, &'a Account)> {
        path.reserve(&self.till, Claim { ask: Ask::Whole, need, now, rules })
    }

    fn need<Req>(&self, request: &Req, call: &Call, budget: &Budget) -> Need
    where
        E: Estimate<Req>,
    {
        if self.counts == Counts::Steps {
            return Need::STEP;
        }
        let rules = &budget.estimate;
        let input = call.estimated_tokens().or_else(|| self.estimate.input(request, rules));
        let price = call.name(Name::Operation).and_then(|model| budget.prices.get(model));
        Need {
            input: input.unwrap_or(rules.input_tokens),
            output: self.estimate.max_output(request).unwrap_or(rules.output_tokens),
            steps: 0,
            pricing: match (price, budget.unpriced) {
                (Some(price), _) => Pricing::Known(price),
                (None, Unpriced::Refuse) => Pricing::Unknown,
                (None, Unpriced::Allow) => Pricing::Free,
            },
        }
    }
}

fn finish_up(left: u64) -> Amendment {
    let text = format!(
        "What this run may spend is nearly spent: about {left} tokens are left for your answer, and no more tools can be \
         called. Summarise now what was done and found and what is left undone, and end with that."
    );
    Amendment::FinishUp(FinishUp::new(text, left))
}
