//! The worked case the breaker was designed after, number by number: a ticket tool whose writes go unanswered.
//!
//! The same clumsy client drives the guarded tool and the bare one: whatever fails, it sends once more under the same
//! action id. What differs is what arrives at the tool.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tower::{BoxError, Service, ServiceBuilder, ServiceExt, timeout::Timeout, util::BoxCloneSyncService};
use tower_belay::{
    ActionId, Call, Effect, Error, Reason, Refusal, SemanticBreakerLayer, TripCard, Verdict, classify_fn,
    events::{Alert, AlertKind},
    semantic_breaker::{BreakerHandle, Circuit, Counts, State},
    testing::{Scripted, Step},
};

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
enum Request {
    Create {
        customer: &'static str,
        action: ActionId,
    },
    /// Was this write applied?
    LookUp(ActionId),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    Created,
    BreaksItsSchema,
    RejectedByProvider,
    Found,
}

/// What the tool does with the next request of each kind.
#[derive(Debug, Clone, Copy)]
enum Does {
    Answers(Answer),
    RefusesConnection,
    Hangs,
}

fn names(request: &Request) -> Call {
    let ticket = Call::to("ticket");
    match *request {
        Request::Create { customer, action } => {
            ticket.operation("create").actor(customer).action(action).effect(Effect::Consequential)
        }
        Request::LookUp(action) => ticket.operation("look_up").action(action).effect(Effect::ReadOnly),
    }
}

fn judge(answer: &Answer) -> Verdict {
    match answer {
        Answer::Created => Verdict::completed().with_receipt("ticket 4711"),
        Answer::BreaksItsSchema => Reason::SchemaViolation.into(),
        Answer::RejectedByProvider => Reason::Failed.into(),
        Answer::Found => Verdict::completed(),
    }
}

/// The ticket tool, and what was told about it.
struct Tool {
    service: BoxCloneSyncService<Request, Answer, BoxError>,
    plant: Scripted<Request, Answer>,
    does: Arc<Mutex<Does>>,
    alerts: Arc<Mutex<Vec<Alert>>>,
}

impl Tool {
    fn bare() -> Self {
        let does = Arc::new(Mutex::new(Does::Answers(Answer::Created)));
        let next = does.clone();
        let plant = Scripted::by(move |_: &Request| match *lock(&next) {
            Does::Answers(answer) => Step::answer(answer),
            Does::RefusesConnection => Step::fail(io::Error::from(io::ErrorKind::ConnectionRefused)),
            Does::Hangs => Step::stall(),
        });
        let service = BoxCloneSyncService::new(Timeout::new(plant.clone(), PATIENCE));
        Self { service, plant, does, alerts: Arc::default() }
    }

    fn guarded() -> (Self, BreakerHandle) {
        let mut tool = Self::bare();
        let alerts = tool.alerts.clone();
        let layer = SemanticBreakerLayer::new(TripCard::default())
            .alerts(move |alert: &Alert| lock(&alerts).push(alert.clone()))
            .classifier(classify_fn(names).judge(judge));
        let handle = layer.handle();
        let guarded = ServiceBuilder::new().layer(layer).service(tool.service);
        tool.service = BoxCloneSyncService::new(guarded.map_err(BoxError::from));
        (tool, handle)
    }

    async fn send(&mut self, does: Does, request: Request) -> Result<Answer, Error> {
        *lock(&self.does) = does;
        let answer = async { self.service.ready().await?.call(request).await };
        answer.await.map_err(Error::from_boxed)
    }

    /// One action; if it fails in whatever way, once more under the same id.
    async fn send_with_retry(&mut self, first: Does, second: Does, request: Request) -> Result<Answer, Error> {
        match self.send(first, request).await {
            Ok(answer) => Ok(answer),
            Err(_) => self.send(second, request).await,
        }
    }

    /// Forty more customers, each with one automatic retry, while the tool hangs; how many writes arrive at it.
    async fn writes_of_forty_customers(&mut self) -> (usize, Vec<Error>) {
        self.plant.take_requests();
        let mut errors = Vec::new();
        for customer in 0..40 {
            let action = ActionId::from_key(1_000 + customer);
            let request = Request::Create { customer: "another", action };
            errors.push(self.send_with_retry(Does::Hangs, Does::Hangs, request).await.expect_err("the tool hangs"));
        }
        (self.plant.take_requests().iter().filter(|it| matches!(it, Request::Create { .. })).count(), errors)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds a lock")
}

fn creating() -> Call {
    Call::to("ticket").operation("create").effect(Effect::Consequential)
}

fn counts(handle: &BreakerHandle, call: &Call, circuit: Circuit) -> Counts {
    let snapshots = handle.snapshots(call);
    snapshots.iter().find(|it| it.circuit == circuit).map_or_else(Counts::default, |it| it.counts)
}

fn create(customer: &'static str, id: u128) -> Request {
    Request::Create { customer, action: ActionId::from_key(id) }
}

/// Attempts 1 to 18: sixteen tickets, one answer that breaks its schema, one rejection.
async fn eighteen_attempts(tool: &mut Tool, handle: &BreakerHandle) {
    for id in 1..=16 {
        let sent = tool.send(Does::Answers(Answer::Created), create("first", id)).await;
        assert_eq!(sent.expect("a ticket"), Answer::Created);
    }
    for (id, answer) in [(17, Answer::BreaksItsSchema), (18, Answer::RejectedByProvider)] {
        assert_eq!(tool.send(Does::Answers(answer), create("first", id)).await.expect("an answer"), answer);
    }
    let health = counts(handle, &creating(), Circuit::Health);
    assert_eq!((health.failures, health.malformed), (1, 1));
    assert_eq!((handle.state(&creating()), tool.plant.calls()), (State::Closed, 18));
}

/// Attempt 19 is not submitted; its retry under the same action id is, and is never answered.
async fn attempt_nineteen(tool: &mut Tool, handle: &BreakerHandle) {
    let error = tool.send_with_retry(Does::RefusesConnection, Does::Hangs, create("first", 19)).await;
    let reason = error.expect_err("no answer").failure().map(|failure| failure.reason());
    assert_eq!((reason, tool.plant.calls()), (Some(Reason::Timeout), 20));
    assert_eq!(counts(handle, &creating(), Circuit::Health).failures, 2, "the rejection and the connection");
    assert_eq!(counts(handle, &creating(), Circuit::Writes).unknown_writes, 1, "two attempts at one action");
    assert_eq!(handle.state(&creating()), State::Closed, "one unknown write opens nothing");
}

#[tokio::test(start_paused = true)]
async fn the_ticket_case_comes_out_exactly() {
    let (mut tool, handle) = Tool::guarded();
    eighteen_attempts(&mut tool, &handle).await;
    attempt_nineteen(&mut tool, &handle).await;

    // The look-up of attempt 19 times out as well: it is a read of its own, and no attempt at the write.
    let before = handle.snapshots(&creating());
    assert!(tool.send(Does::Hangs, Request::LookUp(ActionId::from_key(19))).await.is_err());
    assert_eq!(handle.snapshots(&creating()), before, "a look-up is not an attempt");
    assert_eq!(handle.state(&creating()), State::Closed);
    assert!(lock(&tool.alerts).is_empty());

    // A second customer's write goes unknown: writes stop at once, and somebody is told what to look up.
    assert!(tool.send(Does::Hangs, create("second", 20)).await.is_err());
    assert_eq!(handle.state(&creating()), State::Open);
    assert_eq!(*lock(&tool.alerts), [Alert::new(AlertKind::Reconcile, "target=ticket")]);
    let pending = [ActionId::from_key(19), ActionId::from_key(20)];
    assert_eq!(handle.pending_writes(&creating()), pending);

    let (writes, errors) = tool.writes_of_forty_customers().await;
    assert_eq!(writes, 0, "not one of the next forty is sent");
    assert!(errors.iter().all(|it| it.rejected().is_some_and(|it| it.code() == Refusal::WritesOpen)));

    // Reads are how the two are found, so they pass; and what was found lets writes go on.
    for action in pending {
        let found = tool.send(Does::Answers(Answer::Found), Request::LookUp(action)).await;
        assert_eq!(found.expect("reads pass"), Answer::Found);
        handle.reconciled(&creating(), action);
    }
    assert_eq!((handle.pending_writes(&creating()), handle.state(&creating())), (vec![], State::Closed));
    let sent = tool.send(Does::Answers(Answer::Created), create("third", 21)).await;
    assert_eq!(sent.expect("writes go on"), Answer::Created);
}

#[tokio::test(start_paused = true)]
async fn without_the_breaker_forty_customers_send_eighty_writes() {
    assert_eq!(Tool::bare().writes_of_forty_customers().await.0, 80);
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_never_worded_as_done() {
    let (mut tool, handle) = Tool::guarded();
    for id in 1..=2 {
        assert!(tool.send(Does::Hangs, create("first", id)).await.is_err());
    }
    assert_eq!(handle.state(&creating()), State::Open);
    let error = tool.send(Does::Hangs, create("first", 3)).await.expect_err("writes are stopped");
    let refusal = error.rejected().expect("a refusal");
    let text = refusal.model_text();
    assert!(text.starts_with("The call was not sent."), "{text}");
    assert!(text.len() <= 500 && refusal.retry_at().is_some());
    for claim in ["created", "done", "succe", "complete", "applied", "was carried out", "ticket"] {
        assert!(!text.to_lowercase().contains(claim), "{claim:?} in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_at_one_action_are_one_unknown_write() {
    let (mut tool, handle) = Tool::guarded();
    for _ in 0..3 {
        assert!(tool.send_with_retry(Does::Hangs, Does::Hangs, create("first", 1)).await.is_err());
    }
    assert_eq!((tool.plant.calls(), handle.state(&creating())), (6, State::Closed));
    assert_eq!(handle.pending_writes(&creating()), [ActionId::from_key(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_third_unknown_write_after_one_finding_stops_writes_again() {
    let (mut tool, handle) = Tool::guarded();
    for id in 1..=2 {
        assert!(tool.send(Does::Hangs, create("first", id)).await.is_err());
    }
    handle.reconciled(&creating(), ActionId::from_key(1));
    assert_eq!(handle.state(&creating()), State::Closed, "one unknown write is below the threshold");
    assert!(tool.send(Does::Hangs, create("second", 3)).await.is_err());
    assert_eq!(handle.state(&creating()), State::Open);
    let pending = [ActionId::from_key(2), ActionId::from_key(3)];
    assert_eq!(handle.pending_writes(&creating()), pending);
}
