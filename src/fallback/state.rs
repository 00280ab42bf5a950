//! Decides whether a call that came to nothing may be answered by something else: what came of it in, decision out.

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
    /// Its error stands.
    Pass,
}

pub(super) fn of_refusal(rejected: &Rejected, effect: Effect) -> Decision {
    if rejected.is_in_doubt() {
        return Decision::InDoubt;
    }
    match (rejected.advice(), rejected.code()) {
        (Advice::Stop, _) => Decision::Pass,
        // An earlier write of somebody's may have been applied, or this one.
        (_, Refusal::WritesOpen | Refusal::InDoubt) => Decision::InDoubt,
        (_, Refusal::AlreadyDone | Refusal::ActionConflict) => Decision::Pass,
        (Advice::Wait | Advice::UseAnother, _) => Decision::Fall,
        // A person was asked for: reading elsewhere is no decision of theirs.
        (Advice::AskHuman, _) if effect == Effect::ReadOnly => Decision::Fall,
        (Advice::AskHuman, _) => Decision::Pass,
    }
}

pub(super) fn of_verdict(verdict: &Verdict, effect: Effect) -> Decision {
    let reads = effect == Effect::ReadOnly;
    match verdict.class() {
        Class::Success => Decision::Pass,
        // The request itself is at fault, wherever it goes.
        Class::Failed if matches!(verdict.reason, Reason::InvalidRequest | Reason::Conflict) => Decision::Pass,
        Class::Failed | Class::RateLimited => Decision::Fall,
        // Another account may do. What was forbidden stays forbidden, asked of whomever.
        Class::Denied if reads && verdict.reason.impact(effect) == Impact::Credential => Decision::Fall,
        Class::Denied => Decision::Pass,
        Class::Unknown | Class::Malformed if reads => Decision::Fall,
        Class::Unknown | Class::Malformed => Decision::InDoubt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Scope};

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
    fn who_was_told_to_stop_stops() {
        for code in Refusal::ALL {
            let call = Call::to("crm").effect(Effect::ReadOnly);
            let decision = of_refusal(&Rejected::new("layer", *code, Scope::TARGET, &call), Effect::ReadOnly);
            assert_eq!(
                decision == Decision::Fall,
                code.advice() != Advice::Stop && decision == Decision::Fall,
                "{code}"
            );
            if code.advice() == Advice::Stop {
                assert_eq!(decision, Decision::Pass, "{code}");
            }
        }
    }
}
