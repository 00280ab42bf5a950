//! Calls and bodies dropped at every await point: each is settled once, as an oracle says, and nothing leaks.
//!
//! The inner service and its bodies do as their script says, one poll at a time, and no time passes but what a schedule
//! lets pass. The oracle knows the script and how long the caller waited, and nothing of the breaker.

mod oracle;
mod script;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Response;
use proptest::prelude::*;
use tokio::time::advance;
use tower::{Layer, service_fn, util::BoxCloneSyncService};
use tower_belay::{
    Auto, Call, Effect, Error, SemanticBreakerLayer, TripCard, WatchedBody,
    classify::{Classify, ClassifyError, ClassifyResponse, Completion, End, Head},
    semantic_breaker::{BreakerHandle, Circuit, Failures, State, UnknownWrites},
};

use self::{
    oracle::{Comes, Traced, expected},
    script::{Answer, Ending, Script, Scripted, ScriptedBody},
};

// ===== the breaker =====

/// `Auto` for answers, which also counts how often each body owed and gave the news of its end.
#[derive(Debug, Clone, Default)]
struct Counting {
    owed: Arc<AtomicUsize>,
    told: Arc<AtomicUsize>,
}

impl Classify<Script> for Counting {
    fn classify(&self, script: &Script) -> Call {
        call(script.effect)
    }
}

impl ClassifyError for Counting {
    fn error(&self, call: &Call, error: &(dyn std::error::Error + 'static)) -> tower_belay::Verdict {
        Auto.error(call, error)
    }
}

impl ClassifyResponse<Response<ScriptedBody>> for Counting {
    type Response = Response<WatchedBody>;

    fn head(&self, call: &Call, response: &Response<ScriptedBody>) -> Head {
        Auto.head(call, response)
    }

    fn watch(&self, call: &Call, response: Response<ScriptedBody>, completion: Completion) -> Response<WatchedBody> {
        if completion.is_none() {
            return Auto.watch(call, response, completion);
        }
        self.owed.fetch_add(1, Ordering::SeqCst);
        let (told, mut completion) = (self.told.clone(), Some(completion));
        let counted = Completion::new(move |end: End<'_>| {
            told.fetch_add(1, Ordering::SeqCst);
            match (completion.take(), end) {
                (Some(completion), End::Over(verdict)) => completion.over(verdict),
                (Some(completion), End::Abandoned { waited, .. }) => completion.abandoned(waited),
                _ => {}
            }
        });
        Auto.watch(call, response, counted)
    }
}

struct Rig {
    service: BoxCloneSyncService<Script, Response<WatchedBody>, Error>,
    handle: BreakerHandle,
    counting: Counting,
}

impl Rig {
    fn new(card: TripCard) -> Self {
        let counting = Counting::default();
        let layer = SemanticBreakerLayer::new(card).classifier(counting.clone());
        let inner = service_fn(|script: Script| Scripted { left: script.head_polls, script });
        Self { handle: layer.handle(), service: BoxCloneSyncService::new(layer.layer(inner)), counting }
    }

    /// A breaker that counts and never opens.
    fn counting() -> Self {
        let mut writes = UnknownWrites::default();
        writes.count = 256;
        writes.within = Duration::from_secs(1_000_000);
        Self::new(TripCard::default().failures(Failures::count(1_024, 1_024)).unknown_writes(writes))
    }

    /// Failures of reads, unknown writes, and failures of writes.
    fn counts(&self) -> (u32, u32, u32) {
        let of = |effect, circuit| {
            let snapshots = self.handle.snapshots(&call(effect));
            snapshots.into_iter().find(|it| it.circuit == circuit).map(|it| it.counts).unwrap_or_default()
        };
        let health = |effect| of(effect, Circuit::Health).failures;
        let unknown = of(Effect::Consequential, Circuit::Writes).unknown_writes;
        (health(Effect::ReadOnly), unknown, health(Effect::Consequential))
    }

    fn news(&self) -> (usize, usize) {
        (self.counting.owed.load(Ordering::SeqCst), self.counting.told.load(Ordering::SeqCst))
    }
}

fn call(effect: Effect) -> Call {
    let operation = if effect == Effect::ReadOnly { "look_up" } else { "refund" };
    Call::to("crm").operation(operation).effect(effect)
}

// ===== schedules =====

fn scripts() -> impl Strategy<Value = Script> {
    let effect = prop_oneof![Just(Effect::ReadOnly), Just(Effect::Consequential)];
    let head = prop_oneof![
        6 => Just(Answer::Ok),
        1 => Just(Answer::ServerError),
        1 => Just(Answer::Refused),
        1 => Just(Answer::Reset),
        1 => Just(Answer::NotSent),
    ];
    let end = prop_oneof![Just(Ending::Clean), Just(Ending::Broken), Just(Ending::Never)];
    (effect, 0..4_usize, head, prop::collection::vec(0..3_usize, 0..4), 0..3_usize, end).prop_map(
        |(effect, head_polls, head, frames, end_polls, end)| Script {
            effect,
            head_polls,
            head,
            frames,
            end_polls,
            end,
        },
    )
}

/// How long a poll takes.
fn gaps() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), Just(7), Just(19), Just(59), Just(60), Just(90)].prop_map(Duration::from_secs)
}

fn paused<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test)
}

/// More polls than any script takes, but for one that never ends.
const POLLS: usize = 24;

/// Polls a call `polls` times, `gap` apart, and drops it; what it came to.
async fn dropped_after(polls: usize, gap: Duration, rig: &Rig, script: &Script) -> Comes {
    let mut traced = Traced::begin(rig, script).await;
    for _ in 0..polls {
        if !traced.poll() {
            break;
        }
        advance(gap).await;
    }
    advance(gap).await;
    traced.drop_it()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_call_dropped_at_any_await_point_is_settled_once(script in scripts(), gap in gaps()) {
        paused(async {
            let rig = Rig::counting();
            let mut came_to = Vec::new();
            for polls in 0..POLLS {
                came_to.push((script.effect, dropped_after(polls, gap, &rig, &script).await));
                prop_assert_eq!(rig.counts(), expected(&came_to), "dropped after {} polls", polls);
                let (owed, told) = rig.news();
                prop_assert_eq!(owed, told, "each body tells its end once");
            }
            Ok(())
        })?;
    }

    #[test]
    fn calls_dropped_in_any_order_are_settled_once_each(
        scripts in prop::collection::vec(scripts(), 1..8),
        schedule in prop::collection::vec((0..8_usize, 0..6_u8, gaps()), 0..120),
    ) {
        paused(async {
            let rig = Rig::counting();
            let mut calls = Vec::new();
            for script in &scripts {
                calls.push(Traced::begin(&rig, script).await);
            }
            for (which, action, gap) in schedule {
                let index = which % calls.len();
                match action {
                    0 => { calls[index].drop_it(); }
                    1 => advance(gap).await,
                    _ => { calls[index].poll(); }
                }
            }
            let came_to: Vec<_> = calls.iter_mut().map(|it| (it.script.effect, it.drop_it())).collect();
            prop_assert_eq!(rig.counts(), expected(&came_to));
            let (owed, told) = rig.news();
            prop_assert_eq!(owed, told);
            Ok(())
        })?;
    }

    #[test]
    fn a_probe_dropped_at_any_await_point_frees_its_slot_or_is_judged(script in scripts(), gap in gaps()) {
        let script = Script { effect: Effect::ReadOnly, ..script };
        let failing = Script { head_polls: 0, head: Answer::Refused, ..script.clone() };
        let good = Script { head_polls: 0, head: Answer::Ok, frames: vec![], end_polls: 0, end: Ending::Clean, ..script };
        for polls in 0..POLLS {
            paused(async {
                let hour = Duration::from_secs(3_600);
                let rig = Rig::new(TripCard::default().probe_lease(hour).cool_down(hour).max_cool_down(24 * hour));
                for _ in 0..5 {
                    dropped_after(1, Duration::ZERO, &rig, &failing).await;
                }
                advance(hour).await;

                let came_to = dropped_after(polls, gap, &rig, &script).await;
                let snapshots = rig.handle.snapshots(&call(Effect::ReadOnly));
                let (state, successes) = (snapshots[0].state, snapshots[0].counts.probe_successes);
                let before = match came_to {
                    Comes::Nothing => (State::HalfOpen, 0),
                    Comes::Success => (State::HalfOpen, 1),
                    Comes::Failure | Comes::Unknown => (State::Open, 0),
                };
                prop_assert_eq!((state, successes), before, "dropped after {} polls", polls);
                if state == State::HalfOpen {
                    prop_assert_eq!(dropped_after(POLLS, Duration::ZERO, &rig, &good).await, Comes::Success);
                    let snapshots = rig.handle.snapshots(&call(Effect::ReadOnly));
                    prop_assert_eq!(snapshots[0].counts.probe_successes, successes + 1, "the slot is free");
                }
                Ok(())
            })?;
        }
    }
}

// ===== the edges, by hand =====

const HANGS: Script = Script {
    effect: Effect::ReadOnly,
    head_polls: usize::MAX,
    head: Answer::Ok,
    frames: vec![],
    end_polls: 0,
    end: Ending::Never,
};

/// Polls once and waits; the counts after it is dropped.
async fn dropped_when(waited: Duration, script: Script) -> (u32, u32, u32) {
    let rig = Rig::counting();
    let polls = if script.head_polls == 0 { 2 } else { 1 };
    let mut traced = Traced::begin(&rig, &script).await;
    for _ in 0..polls {
        traced.poll();
    }
    advance(waited).await;
    drop(traced);
    rig.counts()
}

#[tokio::test(start_paused = true)]
async fn sixty_seconds_without_an_answer_are_a_failure_and_less_is_nothing() {
    let (short, long) = (Duration::from_millis(59_999), Duration::from_secs(60));
    let write = Script { effect: Effect::Consequential, ..HANGS };
    for script in [HANGS, Script { head_polls: 0, ..HANGS }] {
        assert_eq!(dropped_when(short, script.clone()).await, (0, 0, 0));
        assert_eq!(dropped_when(long, script).await, (1, 0, 0));
    }
    for script in [write.clone(), Script { head_polls: 0, ..write }] {
        assert_eq!(dropped_when(short, script.clone()).await, (0, 0, 0));
        assert_eq!(dropped_when(long, script).await, (0, 1, 0), "a write that may have been applied");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_poll_says_nothing_however_long_it_takes() {
    let rig = Rig::counting();
    let mut traced = Traced::begin(&rig, &Script { head_polls: 0, frames: vec![0], ..HANGS }).await;
    for _ in 0..2 {
        assert!(traced.poll());
        advance(Duration::from_secs(86_400)).await;
    }
    drop(traced);
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_polled_says_nothing() {
    let rig = Rig::counting();
    let traced = Traced::begin(&rig, &HANGS).await;
    advance(Duration::from_secs(86_400)).await;
    drop(traced);
    assert_eq!(rig.counts(), (0, 0, 0));
}
