//! What can be wrong with the order of layers.

use super::Part;

/// An order that makes a layer blind, and what that costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The stable, documented code.
    pub code: &'static str,
    /// What it costs.
    pub harm: &'static str,
    rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The first stands outside of the second.
    Outside(Part, Part),
    /// The same, where answers of models are read.
    OutsideOfReading(Part, Part),
    /// There are two of them.
    Twice(Part),
    /// Outside of it there is a retry, and inside nothing that reads answers: it looks at requests there.
    LooksAtRequests(Part),
    /// Something stands inside of it.
    NotInnermost(Part),
}

const fn mistake(code: &'static str, rule: Rule, harm: &'static str) -> Mistake {
    Mistake { code, harm, rule }
}

/// All that [`Coverage::mistakes`](super::Coverage::mistakes) knows.
pub const MISTAKES: &[Mistake] = &[
    mistake(
        "retry_outside_fallback",
        Rule::Outside(Part::Retry, Part::Fallback),
        "the first failed attempt gets the degraded answer, and no second one is made",
    ),
    mistake(
        "budget_outside_retry",
        Rule::Outside(Part::TokenBudget, Part::Retry),
        "of three attempts one is booked: three times as much is spent",
    ),
    mistake(
        "budget_inside_rate",
        Rule::Outside(Part::RateLimit, Part::TokenBudget),
        "what the budget refuses has waited for the rate and used some of it up",
    ),
    mistake(
        "budget_inside_bulkhead",
        Rule::Outside(Part::Bulkhead, Part::TokenBudget),
        "what the budget refuses has queued and kept others out, and nothing is reserved for what is queued",
    ),
    mistake(
        "budget_inside_breaker",
        Rule::Outside(Part::SemanticBreaker, Part::TokenBudget),
        "what the budget refuses has taken the place of a probe, or of one of the few calls to what recovers",
    ),
    mistake(
        "rate_outside_retry",
        Rule::Outside(Part::RateLimit, Part::Retry),
        "of three attempts one is counted: three times the rate is sent",
    ),
    mistake(
        "permit_held_through_backoff",
        Rule::Outside(Part::Bulkhead, Part::Retry),
        "a call that waits to be attempted again keeps others out",
    ),
    mistake(
        "retry_inside_breaker",
        Rule::Outside(Part::SemanticBreaker, Part::Retry),
        "three failed attempts count as one: three times as many are sent before it opens",
    ),
    mistake(
        "rate_inside_breaker",
        Rule::Outside(Part::SemanticBreaker, Part::RateLimit),
        "what waited for the rate when the breaker tripped is sent all the same",
    ),
    mistake(
        "queue_inside_breaker",
        Rule::Outside(Part::SemanticBreaker, Part::Bulkhead),
        "what was queued when the breaker tripped is sent all the same",
    ),
    mistake(
        "validator_outside_breaker",
        Rule::OutsideOfReading(Part::SemanticValidator, Part::SemanticBreaker),
        "the breaker takes answers that are not valid for good ones, and never opens",
    ),
    mistake(
        "validator_outside_retry",
        Rule::OutsideOfReading(Part::SemanticValidator, Part::Retry),
        "an answer that is not valid ends the call: it is never asked for again",
    ),
    mistake(
        "validator_inside_retry",
        Rule::LooksAtRequests(Part::SemanticValidator),
        "the same request is held to the same schema once an attempt",
    ),
    mistake(
        "timeout_outside_validator",
        Rule::OutsideOfReading(Part::Timeout, Part::SemanticValidator),
        "a stream that runs out of time is not told from one that is not valid",
    ),
    mistake(
        "timeout_outside_breaker",
        Rule::Outside(Part::Timeout, Part::SemanticBreaker),
        "the breaker sees calls given up and not timeouts: it opens late or never",
    ),
    mistake(
        "timeout_outside_retry",
        Rule::Outside(Part::Timeout, Part::Retry),
        "one slow attempt uses up the time of all, and nothing is attempted again",
    ),
    mistake(
        "timeout_outside_bulkhead",
        Rule::Outside(Part::Timeout, Part::Bulkhead),
        "the time in the queue counts as the other side's",
    ),
    mistake(
        "attempts_multiplied",
        Rule::Twice(Part::Retry),
        "three attempts of three are nine, wherever the inner one cannot see the outer",
    ),
    mistake(
        "identify_inside",
        Rule::Outside(Part::Retry, Part::Identify),
        "each layer outside makes up its own name of the call, and each attempt has another action id",
    ),
    mistake(
        "identify_inside_fallback",
        Rule::Outside(Part::Fallback, Part::Identify),
        "the fallback does not know the call by the name that the other layers use",
    ),
    mistake(
        "respond_inside",
        Rule::Outside(Part::Retry, Part::Respond),
        "refusals come to the retry as answers, and are attempted again",
    ),
    mistake(
        "provider_not_innermost",
        Rule::NotInnermost(Part::Provider),
        "layers inside see the head of an answer and not its end: a 200 that carries an error is a success to them",
    ),
];

impl Mistake {
    /// Whether a stack of these parts, from the outside in, makes it.
    pub(super) fn is_in(&self, parts: &[Part]) -> bool {
        let first = |part| parts.iter().position(|it| *it == part);
        let last = |part| parts.iter().rposition(|it| *it == part);
        let outside = |outer, inner| first(outer).zip(last(inner)).is_some_and(|(outer, inner)| outer < inner);
        let reads = first(Part::Provider).is_some();
        match self.rule {
            Rule::Outside(outer, inner) => outside(outer, inner),
            Rule::OutsideOfReading(outer, inner) => reads && outside(outer, inner),
            Rule::LooksAtRequests(part) => !reads && outside(Part::Retry, part),
            Rule::Twice(part) => first(part) != last(part),
            Rule::NotInnermost(part) => first(part).is_some_and(|at| at + 1 < parts.len()),
        }
    }
}
