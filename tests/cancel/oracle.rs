//! A caller that polls and drops, and what its call should come to, told from the script and the clock alone.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::Response;
use http_body::Body;
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tower_belay::{Effect, Error, WatchedBody};

use super::{
    Rig,
    script::{Answer, Script},
};

pub(super) enum Caller {
    Calling(Pin<Box<dyn Future<Output = Result<Response<WatchedBody>, Error>> + Send>>),
    Reading(Pin<Box<WatchedBody>>),
    Gone,
}

/// What a call comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Comes {
    Nothing,
    Success,
    /// Certainly not applied.
    Failure,
    /// May have been applied: a failure of a read, an unknown write of a write.
    Unknown,
}

/// One call: polled or dropped by a schedule, and followed by the oracle.
pub(super) struct Traced {
    pub(super) caller: Caller,
    pub(super) script: Script,
    pub(super) waiting: Option<Instant>,
    /// What it came to, once that is certain.
    pub(super) came_to: Option<Comes>,
}

impl Traced {
    pub(super) async fn begin(rig: &Rig, script: &Script) -> Self {
        let mut service = rig.service.clone();
        let calling = service.ready().await.expect("it is ready").call(script.clone());
        Self { caller: Caller::Calling(calling), script: script.clone(), waiting: None, came_to: None }
    }

    /// Polls it once; whether there is more to poll.
    pub(super) fn poll(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match &mut self.caller {
            Caller::Calling(calling) => match calling.as_mut().poll(&mut cx) {
                Poll::Pending => self.waits(),
                Poll::Ready(answer) => {
                    self.waiting = None;
                    self.came_to = match self.script.head {
                        Answer::Ok => None,
                        Answer::ServerError if self.script.effect == Effect::ReadOnly => Some(Comes::Failure),
                        Answer::ServerError | Answer::Reset => Some(Comes::Unknown),
                        Answer::Refused => Some(Comes::Failure),
                        Answer::NotSent => Some(Comes::Nothing),
                    };
                    self.caller = match answer {
                        Ok(response) => Caller::Reading(Box::pin(response.into_body())),
                        Err(_) => Caller::Gone,
                    };
                }
            },
            Caller::Reading(body) => match body.as_mut().poll_frame(&mut cx) {
                Poll::Pending => self.waits(),
                Poll::Ready(Some(Ok(_))) => self.waiting = None,
                Poll::Ready(end) => {
                    let came_to = if end.is_none() { Comes::Success } else { Comes::Unknown };
                    self.came_to.get_or_insert(came_to);
                    // It stays undropped, and is dropped later than its end.
                    self.waiting = None;
                    return false;
                }
            },
            Caller::Gone => return false,
        }
        !matches!(self.caller, Caller::Gone)
    }

    fn waits(&mut self) {
        self.waiting.get_or_insert_with(Instant::now);
    }

    pub(super) fn drop_it(&mut self) -> Comes {
        self.caller = Caller::Gone;
        let hung = self.waiting.take().is_some_and(|since| since.elapsed() >= Duration::from_secs(60));
        *self.came_to.get_or_insert(if hung { Comes::Unknown } else { Comes::Nothing })
    }
}

/// The counts that these calls should have left.
pub(super) fn expected(came_to: &[(Effect, Comes)]) -> (u32, u32, u32) {
    let count = |effect, comes| came_to.iter().filter(|it| **it == (effect, comes)).count() as u32;
    let (read, write) = (Effect::ReadOnly, Effect::Consequential);
    (
        count(read, Comes::Failure) + count(read, Comes::Unknown),
        count(write, Comes::Unknown),
        count(write, Comes::Failure),
    )
}
