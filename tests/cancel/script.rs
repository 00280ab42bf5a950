//! The inner service and its bodies, one poll at a time. No waker is kept: whoever polls decides when.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame};
use tower::BoxError;
use tower_belay::{Call, Effect, Error, Refusal, Rejected, Scope};

/// What one call does: `head_polls` times nothing, its head, then frames with their own waits, then its end.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) effect: Effect,
    pub(super) head_polls: usize,
    pub(super) head: Answer,
    pub(super) frames: Vec<usize>,
    pub(super) end_polls: usize,
    pub(super) end: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    Ok,
    ServerError,
    Refused,
    Reset,
    /// A refusal of a layer further in.
    NotSent,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Ending {
    Clean,
    Broken,
    Never,
}

pub(super) struct Scripted {
    pub(super) left: usize,
    pub(super) script: Script,
}

impl Future for Scripted {
    type Output = Result<Response<ScriptedBody>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left > 0 {
            self.left -= 1;
            return Poll::Pending;
        }
        let status = match self.script.head {
            Answer::Ok => StatusCode::OK,
            Answer::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
            Answer::Refused => return Poll::Ready(Err(io::Error::from(io::ErrorKind::ConnectionRefused).into())),
            Answer::Reset => return Poll::Ready(Err(io::Error::from(io::ErrorKind::ConnectionReset).into())),
            Answer::NotSent => {
                let refusal = Rejected::new("bulkhead", Refusal::Gated, Scope::AGENT, &Call::new());
                return Poll::Ready(Err(Error::from(refusal).into()));
            }
        };
        let mut waits = self.script.frames.clone();
        waits.push(self.script.end_polls);
        waits.reverse();
        let mut response = Response::new(ScriptedBody { waits, end: self.script.end });
        *response.status_mut() = status;
        Poll::Ready(Ok(response))
    }
}

/// The waits that are still to come, the next one last; after the last wait comes the end.
pub(super) struct ScriptedBody {
    pub(super) waits: Vec<usize>,
    pub(super) end: Ending,
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let last = self.waits.len() == 1;
        match self.waits.last_mut() {
            Some(left @ 1..) => {
                *left -= 1;
                return Poll::Pending;
            }
            Some(_) if !last => {
                self.waits.pop();
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"text")))));
            }
            _ => {}
        }
        match self.end {
            Ending::Clean => Poll::Ready(None),
            Ending::Broken => Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()))),
            Ending::Never => Poll::Pending,
        }
    }
}
