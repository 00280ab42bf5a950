//! A service that follows a script: [`Scripted`].

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower::BoxError;
use tower_service::Service;

use crate::lock::lock;

/// What the other side does with one request.
#[derive(Debug)]
pub struct Step<Res> {
    delay: Option<Duration>,
    outcome: Outcome<Res>,
}

#[derive(Debug)]
enum Outcome<Res> {
    Answer(Res),
    Fail(BoxError),
    Stall,
}

impl<Res> Step<Res> {
    /// Answers.
    pub const fn answer(response: Res) -> Self {
        Self { delay: None, outcome: Outcome::Answer(response) }
    }

    /// Fails.
    pub fn fail(error: impl Into<BoxError>) -> Self {
        Self { delay: None, outcome: Outcome::Fail(error.into()) }
    }

    /// Never answers.
    pub const fn stall() -> Self {
        Self { delay: None, outcome: Outcome::Stall }
    }

    /// Takes this long before it answers or fails.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }
}

/// A service that does as its script says, and keeps what it was sent. Clones share both.
pub struct Scripted<Req, Res> {
    shared: Arc<Shared<Req, Res>>,
}

struct Shared<Req, Res> {
    script: Mutex<Script<Req, Res>>,
    requests: Mutex<Vec<Req>>,
    calls: AtomicUsize,
    unanswered: Arc<AtomicUsize>,
}

enum Script<Req, Res> {
    Steps(VecDeque<Step<Res>>),
    By(Box<ByRequest<Req, Res>>),
}

type ByRequest<Req, Res> = dyn FnMut(&Req) -> Step<Res> + Send;

// === impl Scripted ===

impl<Req, Res> Scripted<Req, Res> {
    /// Takes one step a request, in order.
    pub fn new(steps: impl IntoIterator<Item = Step<Res>>) -> Self {
        Self::made_of(Script::Steps(steps.into_iter().collect()))
    }

    /// Asks `script` what to do with each request.
    pub fn by(script: impl FnMut(&Req) -> Step<Res> + Send + 'static) -> Self {
        Self::made_of(Script::By(Box::new(script)))
    }

    fn made_of(script: Script<Req, Res>) -> Self {
        let shared = Shared {
            script: Mutex::new(script),
            requests: Mutex::new(Vec::new()),
            calls: AtomicUsize::new(0),
            unanswered: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// How many requests were sent so far.
    pub fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// How many of them have no answer and no error: they wait, or their caller went away.
    pub fn unanswered(&self) -> usize {
        self.shared.unanswered.load(Ordering::SeqCst)
    }

    /// The requests since this was last asked.
    pub fn take_requests(&self) -> Vec<Req> {
        mem::take(&mut *lock(&self.shared.requests))
    }
}

impl<Req, Res> Clone for Scripted<Req, Res> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<Req, Res> fmt::Debug for Scripted<Req, Res> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("calls", &self.calls()).field("unanswered", &self.unanswered()).finish()
    }
}

impl<Req, Res> Service<Req> for Scripted<Req, Res> {
    type Response = Res;
    type Error = BoxError;
    type Future = ScriptedFuture<Res>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.shared.calls.fetch_add(1, Ordering::SeqCst);
        let step = match &mut *lock(&self.shared.script) {
            Script::Steps(steps) => steps.pop_front(),
            Script::By(script) => Some(script(&request)),
        };
        let step = step.expect("the script has a step for every request that is sent");
        lock(&self.shared.requests).push(request);
        self.shared.unanswered.fetch_add(1, Ordering::SeqCst);
        ScriptedFuture {
            delay: step.delay.map(sleep),
            outcome: Some(step.outcome),
            unanswered: self.shared.unanswered.clone(),
        }
    }
}

pin_project! {
    /// The answer to come of a [`Scripted`] service.
    pub struct ScriptedFuture<Res> {
        #[pin]
        delay: Option<Sleep>,
        outcome: Option<Outcome<Res>>,
        unanswered: Arc<AtomicUsize>,
    }
}

impl<Res> Future for ScriptedFuture<Res> {
    type Output = Result<Res, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(delay) = this.delay.as_pin_mut() {
            ready!(delay.poll(cx));
        }
        let output = match this.outcome.take() {
            Some(Outcome::Answer(response)) => Ok(response),
            Some(Outcome::Fail(error)) => Err(error),
            Some(Outcome::Stall) => {
                *this.outcome = Some(Outcome::Stall);
                return Poll::Pending;
            }
            None => panic!("polled after it was ready"),
        };
        this.unanswered.fetch_sub(1, Ordering::SeqCst);
        Poll::Ready(output)
    }
}

impl<Res> fmt::Debug for ScriptedFuture<Res> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedFuture").finish_non_exhaustive()
    }
}
