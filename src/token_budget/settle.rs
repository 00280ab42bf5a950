//! What a call cost, by its verdict.

use super::{
    amount::Amount,
    need::{Need, Pricing, Settlement},
};
use crate::{
    error::Error,
    reason::{Class, Reason},
    verdict::{Usage, Verdict},
};

/// When a verdict was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Before anything of an answer came.
    AtHead,
    /// At the end of what came of it.
    AtEnd,
}

/// What came of a call by its verdict.
///
/// Stated usage is exact where the answer came to its end. Where it did not, the input is what was stated, and of the
/// output nobody knows more than what was reserved for it. What was not stated is what was reserved.
pub(super) fn by_verdict(verdict: &Verdict, when: When, need: &Need) -> Settlement {
    if verdict.reason == Reason::ConnectFailed {
        return Settlement::NotSent;
    }
    let reserved = need.amount();
    let Some(usage) = verdict.usage() else {
        return match () {
            // Tools state no tokens, and use none of ours.
            () if need.steps > 0 => Settlement::Exact(reserved),
            () if when == When::AtHead && was_turned_away(verdict.reason) => Settlement::NotSent,
            () => Settlement::AtLeast(reserved),
        };
    };
    let is_whole = verdict.class() != Class::Unknown && !was_turned_away(verdict.reason);
    match (usage.input_total(), usage.output_total()) {
        (Some(input), Some(output)) if is_whole => Settlement::Exact(amount(need, &usage, input, output)),
        (input, output) => {
            let output = match output {
                Some(output) if is_whole => output,
                output => output.unwrap_or(0).max(need.output),
            };
            Settlement::AtLeast(amount(need, &usage, input.unwrap_or(need.input), output))
        }
    }
}

/// What came of a call by the error that it ended in.
pub(super) fn by_error(error: &Error, judge: impl FnOnce(&Error) -> Verdict, need: &Need) -> Settlement {
    match error.rejected() {
        // Of an attempt further in that was sent, nobody here has heard.
        Some(rejected) if rejected.last_verdict().is_some() => Settlement::AtLeast(need.amount()),
        Some(_) => Settlement::NotSent,
        None => by_verdict(&judge(error), When::AtHead, need),
    }
}

fn amount(need: &Need, usage: &Usage, input: u64, output: u64) -> Amount {
    let mut amount = Amount::tokens(input, output).steps(need.steps);
    if let Pricing::Known(price) = need.pricing {
        amount.nano_dollars = price.of(&amount, usage);
    }
    // Some totals have tokens that neither part has.
    amount.tokens = amount.tokens.max(usage.total_tokens.unwrap_or(0));
    amount
}

/// Whether the other side did not begin to answer: then nobody is billed.
fn was_turned_away(reason: Reason) -> bool {
    use Reason as R;
    reason.class() == Class::RateLimited
        || matches!(
            reason,
            R::Overloaded
                | R::ServerError
                | R::WarmingUp
                | R::Conflict
                | R::InvalidRequest
                | R::NotFound
                | R::ContextOverflow
                | R::Unauthenticated
                | R::QuotaExhausted
                | R::NotEntitled
                | R::PermissionDenied
                | R::CrossTenant
                | R::PolicyDenied
        )
}
