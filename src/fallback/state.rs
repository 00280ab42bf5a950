//! Decides whether a call that came to nothing may be answered by something else: what came of it in, decision out.

use super::{FallbackConfig, FallbackOn};
use crate::{
    call::Effect,
    error::{Advice, Refusal, Rejected},
    reason::{Class, Impact, Reason},
    verdict::Verdict,
};

/// What may be done for a call that came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Something else may be tried in its place.
    Fall,
    /// It may have been applied: it can be answered for, and must not be sent again.
    InDoubt,
    /// It was not sent, and must not be sent elsewhere: it can be answered for.
    Explain,
    /// Its error stands.
    Pass,
}

pub(super) fn of_refusal(config: &FallbackConfig, rejected: &Rejected, effect: Effect) -> Decision {
    let (on, decision) = match (rejected.advice(), rejected.code()) {
        _ if rejected.is_in_doubt() => (FallbackOn::InDoubt, Decision::InDoubt),
        (_, Refusal::InDoubt) => (FallbackOn::InDoubt, Decision::InDoubt),
        (Advice::Stop, _) | (_, Refusal::AlreadyDone | Refusal::ActionConflict) => return Decision::Pass,
        (Advice::Wait, _) => (FallbackOn::Wait, Decision::Fall),
        (Advice::UseAnother, _) => (FallbackOn::UseAnother, Decision::Fall),
        // A person was asked for: reading elsewhere is no decision of theirs.
        (Advice::AskHuman, _) if effect == Effect::ReadOnly => (FallbackOn::AskHuman, Decision::Fall),
        // Earlier writes may have been applied. This one was not: nobody shall say that it is in doubt.
        (Advice::AskHuman, Refusal::WritesOpen) => (FallbackOn::AskHuman, Decision::Explain),
        (Advice::AskHuman, _) => return Decision::Pass,
    };
    if config.on.contains(&on) { decision } else { Decision::Pass }
}

pub(super) fn of_verdict(config: &FallbackConfig, verdict: &Verdict, effect: Effect) -> Decision {
    let reads = effect == Effect::ReadOnly;
    let (on, decision) = match verdict.class() {
        Class::Success => return Decision::Pass,
        // The request itself is at fault, wherever it goes.
        Class::Failed if matches!(verdict.reason, Reason::InvalidRequest | Reason::Conflict) => return Decision::Pass,
        Class::Failed => (FallbackOn::Failed, Decision::Fall),
        Class::RateLimited => (FallbackOn::RateLimited, Decision::Fall),
        // Another account may do. What was forbidden stays forbidden, asked of whomever.
        Class::Denied if reads && verdict.reason.impact(effect) == Impact::Credential => {
            (FallbackOn::Credential, Decision::Fall)
        }
        Class::Denied => return Decision::Pass,
        Class::Unknown if reads => (FallbackOn::Unanswered, Decision::Fall),
        Class::Malformed if reads => (FallbackOn::Malformed, Decision::Fall),
        Class::Unknown | Class::Malformed => (FallbackOn::InDoubt, Decision::InDoubt),
    };
    if config.on.contains(&on) { decision } else { Decision::Pass }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Scope};

    fn of_verdict(verdict: &Verdict, effect: Effect) -> Decision {
        super::of_verdict(&FallbackConfig::default(), verdict, effect)
    }

    fn of_refusal(rejected: &Rejected, effect: Effect) -> Decision {
        super::of_refusal(&FallbackConfig::default(), rejected, effect)
    }

    #[test]
    fn what_was_forbidden_is_asked_of_nobody_else() {
        for reason in Reason::ALL.iter().filter(|reason| reason.class() == Class::Denied) {
            let decision = of_verdict(&Verdict::new(*reason), Effect::ReadOnly);
            let is_account = reason.impact(Effect::ReadOnly) == Impact::Credential;
            assert_eq!(decision, if is_account { Decision::Fall } else { Decision::Pass }, "{reason}");
            assert_eq!(of_verdict(&Verdict::new(*reason), Effect::Sensitive), Decision::Pass, "{reason}");
        }
    }

    #[test]
    fn a_write_that_may_have_been_applied_goes_nowhere_else() {
        for reason in Reason::ALL.iter().filter(|it| matches!(it.class(), Class::Unknown | Class::Malformed)) {
            assert_eq!(of_verdict(&Verdict::new(*reason), Effect::Reversible), Decision::InDoubt, "{reason}");
            assert_eq!(of_verdict(&Verdict::new(*reason), Effect::ReadOnly), Decision::Fall, "{reason}");
        }
        let after = |last| {
            let call = Call::to("crm").effect(Effect::Sensitive);
            Rejected::new("retry", Refusal::Open, Scope::TARGET, &call).with_last(Verdict::new(last))
        };
        assert_eq!(of_refusal(&after(Reason::Timeout), Effect::Sensitive), Decision::InDoubt);
        assert_eq!(of_refusal(&after(Reason::ConnectFailed), Effect::Sensitive), Decision::Fall);
    }

    #[test]
    fn who_was_told_to_stop_stops_and_nothing_falls_that_is_switched_off() {
        for (code, effect) in Refusal::ALL.iter().flat_map(|code| [(code, Effect::ReadOnly), (code, Effect::Sensitive)])
        {
            let rejected = Rejected::new("layer", *code, Scope::TARGET, &Call::to("crm").effect(effect));
            if code.advice() == Advice::Stop {
                assert_eq!(of_refusal(&rejected, effect), Decision::Pass, "{code}");
            }
            assert_eq!(super::of_refusal(&FallbackConfig::off(), &rejected, effect), Decision::Pass, "{code}");
        }
        for reason in Reason::ALL {
            let decision = super::of_verdict(&FallbackConfig::off(), &Verdict::new(*reason), Effect::ReadOnly);
            assert_eq!(decision, Decision::Pass, "{reason}");
        }
    }

    #[test]
    fn a_write_that_is_stopped_was_not_sent_and_goes_nowhere_else() {
        let stopped = Rejected::new("semantic_breaker", Refusal::WritesOpen, Scope::TARGET, &Call::to("crm"));
        assert_eq!(of_refusal(&stopped, Effect::Sensitive), Decision::Explain);
    }
}
