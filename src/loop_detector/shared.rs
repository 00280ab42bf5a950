//! What all services of one loop detector share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    LoopPolicy, RunState,
    canonical::Canonical,
    found::Found,
    mask,
    observe::{Asked, Got},
    sketch::{Sketch, name},
    state::{Decision, Outcome, OutcomeKind, Run, Step, Ticket},
};
use crate::{
    call::{Call, Effect, KeyRef, Name, Scope},
    config_error::ConfigError,
    error::{Error, Refusal, Rejected},
    events::{Event, Listener, Looping},
    keyed::{At, Claim, Keep, Kept, Keyed, Limits},
    lock::lock,
    teller::Teller,
};

/// The layer's name in refusals and metrics.
const LAYER: &str = "loop_detector";

/// The caps of the map. A run that is not called for an hour may be forgotten when there is no room for another; one
/// for which there is none is not watched.
const LIMITS: Limits = Limits { per_tenant: 4_096, total: 16_384, idle: Duration::from_secs(3_600), shares: false };

pub(super) struct Shared {
    runs: Keyed<Run>,
    rules: Mutex<Arc<Rules>>,
    invalid: Mutex<Option<ConfigError>>,
    refuses_all: AtomicBool,
    dry_run: AtomicBool,
    told_of_no_run: AtomicBool,
    teller: Teller,
}

/// A policy, made ready.
struct Rules {
    policy: LoopPolicy,
    tools: HashMap<String, (Canonical, Option<crate::tool::Pollable>)>,
    plain: Canonical,
}

impl Kept for Run {
    type Rules = ();

    fn keep(&self, _: Instant, (): &()) -> Keep {
        if self.is_over() { Keep::No } else { Keep::WhileUsed }
    }
}

/// A call that was let through, until its result is there. Dropping it settles nothing: nobody knows the result.
pub(super) struct Pending {
    call: Call,
    step: Step,
    ticket: Ticket,
}

impl Rules {
    fn new(policy: LoopPolicy) -> Arc<Self> {
        let rules = |(name, rules): (&String, &super::ToolRules)| {
            let canonical = Canonical::without(rules.volatile.iter().map(String::as_str));
            (name.clone(), (canonical, rules.pollable))
        };
        Arc::new(Self { tools: policy.tools.iter().map(rules).collect(), policy, plain: Canonical::default() })
    }

    fn step(&self, call: &Call, asked: Asked<'_>) -> Step {
        let (canonical, pollable) = match self.tools.get(asked.tool) {
            Some((canonical, pollable)) => (canonical, *pollable),
            None => (&self.plain, None),
        };
        let tool = name(asked.tool);
        let is_write = call.effect_kind() > Effect::ReadOnly;
        Step {
            tool,
            key: canonical.digest(asked.arguments) ^ tool.rotate_left(32),
            // Writes are not compared.
            words: if is_write { Sketch::default() } else { Sketch::of_ends(asked.arguments) },
            is_write,
            turn: call.turn(),
            step: call.step(),
            pollable,
        }
    }
}

/// What a result says, without its text.
fn outcome(got: Got<'_>) -> Outcome {
    let kind = match got.is_error {
        false => OutcomeKind::Good,
        true if mask::is_transient(got.text) => OutcomeKind::Transient,
        true => OutcomeKind::Failed,
    };
    Outcome {
        // An error is never the same as a result of the same text.
        digest: mask::result(got.text) ^ u64::from(got.is_error),
        shape: if got.is_error { mask::shape(got.text) } else { None },
        words: Sketch::of(got.text),
        kind,
    }
}

impl Shared {
    pub(super) fn new(policy: LoopPolicy) -> Self {
        let invalid = policy.validate().err();
        if let Some(error) = &invalid {
            tracing::error!(%error, "the loop detector refuses every call: its policy is invalid");
        }
        Self {
            runs: Keyed::new(LIMITS),
            refuses_all: AtomicBool::new(invalid.is_some()),
            invalid: Mutex::new(invalid),
            rules: Mutex::new(Rules::new(policy)),
            dry_run: AtomicBool::new(false),
            told_of_no_run: AtomicBool::new(false),
            teller: Teller::new(LAYER),
        }
    }

    // === calls ===

    /// Whether every call is refused, whatever it is.
    pub(super) fn refuses_all(&self) -> bool {
        self.refuses_all.load(Ordering::Acquire) && !self.dry_run.load(Ordering::Acquire)
    }

    pub(super) fn admit(&self, call: Call, asked: Option<Asked<'_>>) -> Result<Option<Pending>, Error> {
        if self.refuses_all.load(Ordering::Acquire) {
            return self.refuse_all(&call).map(|()| None);
        }
        let rules = self.rules();
        let (true, Some(asked)) = (rules.policy.enabled, asked) else { return Ok(None) };
        let may_end = self.may_end(&call);
        let (now, step) = (Instant::now(), rules.step(&call, asked));
        let at = At { now, rules: &() };
        let made = self.runs.make(&call, Scope::RUN, Claim::Call, &at, Run::default, |run| {
            let decision = run.admit(&step, now, &rules.policy, may_end);
            (decision, run.ticket())
        });
        let Some((decision, ticket)) = made else {
            metrics::counter!("belay_loops_unwatched_total").increment(1);
            return Ok(None);
        };
        let rejected = match decision {
            Decision::Pass => return Ok(Some(Pending { call, step, ticket })),
            Decision::Pace(at) => Rejected::new(LAYER, Refusal::PollTooSoon, Scope::RUN, &call).with_retry_at(at),
            Decision::Refuse(found) => Rejected::new(LAYER, Refusal::Repeated, Scope::RUN, &call).with_source(found),
            Decision::End(found) => {
                Rejected::new(LAYER, Refusal::LoopEnded, Scope::RUN, &call).with_source(found.ending())
            }
        };
        if self.dry_run.load(Ordering::Acquire) {
            self.teller.would_refuse(&rejected);
            return Ok(Some(Pending { call, step, ticket }));
        }
        Err(self.teller.refuse(rejected))
    }

    /// The result of a call. What is found goes to the model.
    pub(super) fn settle(&self, pending: &Pending, got: Got<'_>) -> Option<String> {
        let (rules, now, outcome) = (self.rules(), Instant::now(), outcome(got));
        let Pending { call, step, ticket } = pending;
        let may_end = call.name(Name::Run).is_some();
        let at = At { now, rules: &() };
        // A run that was closed in between is not begun again by what comes late.
        let settled = self
            .runs
            .look(call, Scope::RUN, &at, |run| Some(run.settle(step, *ticket, &outcome, now, &rules.policy, may_end)));
        let found = settled.flatten()?;
        self.tell(call, &found);
        (!self.dry_run.load(Ordering::Acquire)).then(|| found.text())
    }

    fn tell(&self, call: &Call, found: &Found) {
        let rule = found.rule.code();
        tracing::debug!(layer = LAYER, rule, times = found.times, end = found.is_end, "a run repeats itself");
        metrics::counter!("belay_loops_total", "rule" => rule).increment(1);
        self.teller.hear_with(|listener| {
            let key = KeyRef::new(call, Scope::RUN).to_owned().to_string();
            listener.on_event(&Event::Looping(&Looping { key, found: *found }));
        });
    }

    #[cold]
    fn refuse_all(&self, call: &Call) -> Result<(), Error> {
        let Some(invalid) = lock(&self.invalid).clone() else { return Ok(()) };
        let rejected = Rejected::new(LAYER, Refusal::Misconfigured, Scope::RUN, call).with_source(invalid);
        if self.dry_run.load(Ordering::Acquire) {
            self.teller.would_refuse(&rejected);
            return Ok(());
        }
        Err(self.teller.refuse(rejected))
    }

    /// Calls that name no run share one state, which ends nothing: nobody knows how many runs that would end.
    fn may_end(&self, call: &Call) -> bool {
        let has_run = call.name(Name::Run).is_some();
        if !has_run && !self.told_of_no_run.swap(true, Ordering::Relaxed) {
            tracing::warn!(layer = LAYER, "calls name no run: they are warned and refused together, and never ended");
        }
        has_run
    }

    // === steering ===

    fn rules(&self) -> Arc<Rules> {
        lock(&self.rules).clone()
    }

    pub(super) fn policy(&self) -> LoopPolicy {
        self.rules().policy.clone()
    }

    pub(super) fn update(&self, policy: LoopPolicy) -> Result<(), ConfigError> {
        policy.validate()?;
        let mut rules = lock(&self.rules);
        *rules = Rules::new(policy);
        *lock(&self.invalid) = None;
        self.refuses_all.store(false, Ordering::Release);
        Ok(())
    }

    pub(super) fn set_dry_run(&self) {
        self.dry_run.store(true, Ordering::Release);
    }

    pub(super) fn listen(&self, listener: impl Listener) {
        self.teller.listen(listener);
    }

    pub(super) fn state(&self, call: &Call) -> Option<RunState> {
        let at = At { now: Instant::now(), rules: &() };
        self.runs.look(call, Scope::RUN, &at, |run| {
            let (steps, warnings, refusals) = run.counts();
            Some(RunState { steps, warnings, refusals, ended: run.ended().map(Found::ending) })
        })
    }

    pub(super) fn user_spoke(&self, call: &Call) {
        let at = At { now: Instant::now(), rules: &() };
        self.runs.look(call, Scope::RUN, &at, |run| {
            run.user_spoke();
            Some(())
        });
    }

    pub(super) fn close(&self, call: &Call) {
        let at = At { now: Instant::now(), rules: &() };
        self.runs.look(call, Scope::RUN, &at, |run| {
            run.close();
            Some(())
        });
    }
}
