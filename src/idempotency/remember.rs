//! How an answer is kept, to be given again: [`Remember`].

use std::fmt;

use http::Response;

use crate::body::WatchedBody;

/// Keeps answers of one kind.
pub trait Remember<Res> {
    /// A copy of `answer`; `None` where it cannot be copied, and a repeated write is then refused instead.
    fn copy(&self, answer: &Res) -> Option<Res>;
}

/// Keeps answers that can be cloned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clones;

impl<Res: Clone> Remember<Res> for Clones {
    fn copy(&self, answer: &Res) -> Option<Res> {
        Some(answer.clone())
    }
}

/// Keeps HTTP answers whose body lies in memory, up to a size.
#[derive(Clone, Copy)]
pub struct HttpAnswers {
    max_bytes: u64,
}

impl HttpAnswers {
    /// Keeps those of at most `max_bytes`.
    pub const fn up_to(max_bytes: u64) -> Self {
        Self { max_bytes }
    }
}

impl Remember<Response<WatchedBody>> for HttpAnswers {
    fn copy(&self, answer: &Response<WatchedBody>) -> Option<Response<WatchedBody>> {
        let body = answer.body().copied(self.max_bytes)?;
        let mut copy = Response::builder().status(answer.status()).version(answer.version()).body(body).ok()?;
        *copy.headers_mut() = answer.headers().clone();
        Some(copy)
    }
}

impl fmt::Debug for HttpAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpAnswers").field("max_bytes", &self.max_bytes).finish()
    }
}
