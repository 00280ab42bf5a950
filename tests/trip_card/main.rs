//! The trip card, row by row, through the real layer: what opens, what stays open to others, and how it recovers.
//!
//! A request says which [`Call`] it is, what will come of it and after how long; the [`Rig`] sends it, and knows by the
//! inner service's own count whether it was sent.

mod config;
mod health;
mod hostile;
mod limits;
mod operators;
mod probes;
mod recovery;
mod writes;

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::task::JoinHandle;
use tower::{BoxError, Layer, Service, ServiceExt, util::BoxCloneSyncService};
use tower_belay::{
    Call, Effect, Error, Reason, Refusal, SemanticBreakerLayer, TripCard, Verdict,
    classify::{ClassifyFn, Judge, classify_fn},
    events::{Alert, AlertKind, Event},
    semantic_breaker::{BreakerHandle, Circuit, Signal, Snapshot, State},
    testing::{Scripted, Step},
};

/// A call, and what comes of it if it is sent.
#[derive(Debug, Clone)]
struct Request {
    call: Call,
    verdict: Verdict,
    after: Duration,
}

type Breaker = SemanticBreakerLayer<ClassifyFn<Request, fn(&Request) -> Call, Judge<Verdict, fn(&Verdict) -> Verdict>>>;

/// A breaker by some card, the target behind it, and what was told.
struct Rig {
    layer: Breaker,
    service: BoxCloneSyncService<Request, Verdict, Error>,
    target: Scripted<Request, Verdict>,
    handle: BreakerHandle,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    alerts: Vec<Alert>,
    would_refuse: Vec<Refusal>,
    refused: usize,
    transitions: Vec<(Circuit, State, State)>,
}

impl Rig {
    fn new(card: TripCard) -> Self {
        Self::made_by(card, |layer| layer)
    }

    fn made_by(card: TripCard, finish: impl FnOnce(Breaker) -> Breaker) -> Self {
        let told = Arc::<Mutex<Told>>::default();
        let (hears, sees) = (told.clone(), told.clone());
        let layer = SemanticBreakerLayer::new(card)
            .alerts(move |alert: &Alert| lock(&hears).alerts.push(alert.clone()))
            .listener(move |event: &Event<'_>| {
                let mut told = lock(&sees);
                match event {
                    Event::Transition(it) => told.transitions.push((it.circuit, it.from, it.to)),
                    Event::Refused(_) => told.refused += 1,
                    Event::WouldRefuse(it) => told.would_refuse.push(it.code()),
                    _ => {}
                }
            })
            .classifier(
                classify_fn((|request| request.call.clone()) as fn(&Request) -> Call)
                    .judge(Verdict::clone as fn(&Verdict) -> Verdict),
            );
        let layer = finish(layer);
        let target = Scripted::by(|it: &Request| match it.after {
            Duration::ZERO => Step::answer(it.verdict.clone()),
            after => Step::answer(it.verdict.clone()).after(after),
        });
        let service = BoxCloneSyncService::new(layer.layer(target.clone()));
        Self { handle: layer.handle(), layer, service, target, told }
    }

    /// Sends one call; the refusal if it was not sent.
    async fn send(&self, call: &Call, comes_of_it: impl Into<Verdict>) -> Result<(), Refusal> {
        self.send_for(call, comes_of_it, Duration::ZERO).await
    }

    async fn send_for(&self, call: &Call, verdict: impl Into<Verdict>, after: Duration) -> Result<(), Refusal> {
        let before = self.target.calls();
        let request = Request { call: call.clone(), verdict: verdict.into(), after };
        let answer = self.service.clone().oneshot(request).await;
        let sent = self.target.calls() - before;
        match answer {
            Ok(_) => assert_eq!(sent, 1),
            Err(error) => {
                assert_eq!(sent, 0, "a refused call is not sent");
                return Err(error.rejected().expect("the target itself never fails").code());
            }
        }
        Ok(())
    }

    /// Begins a call that stays on its way for `after`.
    async fn begin(&self, call: &Call, verdict: impl Into<Verdict>, after: Duration) -> JoinHandle<()> {
        let request = Request { call: call.clone(), verdict: verdict.into(), after };
        let (service, before) = (self.service.clone(), self.target.calls());
        let begun = tokio::spawn(async move { drop(service.oneshot(request).await) });
        tokio::task::yield_now().await;
        assert_eq!(self.target.calls(), before + 1, "it is sent");
        begun
    }

    /// The same verdict `times` in a row, each of them sent.
    async fn sends(&self, times: usize, call: &Call, verdict: impl Into<Verdict>) {
        let verdict = verdict.into();
        for _ in 0..times {
            assert_eq!(self.send(call, verdict.clone()).await, Ok(()));
        }
    }

    /// A good call is sent.
    async fn passes(&self, call: &Call) {
        assert_eq!(self.send(call, good()).await, Ok(()), "{call:?}");
    }

    async fn refused(&self, call: &Call) -> Refusal {
        self.send(call, good()).await.expect_err("a refusal")
    }

    /// How many of a hundred good calls are sent now.
    async fn of_a_hundred(&self, call: &Call) -> usize {
        let before = self.target.calls();
        for _ in 0..100 {
            let _ = self.send(call, good()).await;
        }
        self.target.calls() - before
    }

    fn circuit(&self, call: &Call, circuit: Circuit) -> Option<Snapshot> {
        self.handle.snapshots(call).into_iter().find(|it| it.circuit == circuit)
    }

    fn state(&self, call: &Call, circuit: Circuit) -> State {
        self.circuit(call, circuit).map_or(State::Closed, |it| it.state)
    }

    fn cause(&self, call: &Call, circuit: Circuit) -> Option<Signal> {
        self.circuit(call, circuit).and_then(|it| it.cause)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        lock(&self.told)
    }

    /// The kinds of alerts since this was last asked.
    fn alerts(&self) -> Vec<AlertKind> {
        mem::take(&mut self.told().alerts).iter().map(|it| it.kind).collect()
    }

    /// From open to closed, as every circuit recovers: ten minutes, four good probes, a ramp of fifteen minutes.
    async fn recovers(&self, call: &Call) {
        pass(10 * MINUTE - Duration::from_nanos(1)).await;
        assert!(self.send(call, good()).await.is_err(), "open to the end of its cool-down");
        pass(Duration::from_nanos(1)).await;
        self.sends(4, call, good()).await;
        assert_eq!(self.handle.state(call), State::Recovering);
        for share in [10, 40, 70] {
            assert_eq!(self.of_a_hundred(call).await, share);
            pass(5 * MINUTE).await;
        }
        assert_eq!(self.of_a_hundred(call).await, 100);
        assert_eq!(self.handle.state(call), State::Closed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds a lock")
}

const MINUTE: Duration = Duration::from_secs(60);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}

/// A success that every circuit takes for one: writes need a receipt.
fn good() -> Verdict {
    Verdict::completed().with_receipt("done")
}

fn read(target: &str) -> Call {
    Call::to(target).operation("look_up").tenant("acme").actor("ada").credential("key-1").effect(Effect::ReadOnly)
}

fn write(target: &str) -> Call {
    read(target).operation("refund").effect(Effect::Consequential)
}
