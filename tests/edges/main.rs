//! One breaker around every kind of client and server. Sockets run in real time, everything else in paused time.
//!
//! Each edge passes what is well, trips after the defined number of failures, then refuses without sending, and shares
//! its state with every service made from its layer.

mod axum;
mod closure;
mod hyper;
mod middleware;
mod proxy;
mod reqwest;
mod target;
mod together;
mod tonic;

use std::error::Error as StdError;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use tower_belay::{Error, Failure, Reason, Refusal, SemanticBreakerLayer, TripCard};

pub(crate) use self::target::Target;

/// How many failures open a circuit by the default card.
const FAILURES: usize = 5;

type BoxError = Box<dyn StdError + Send + Sync>;

/// What a caller sees of a call.
#[derive(Debug, PartialEq)]
enum Seen {
    /// An answer, read to its end.
    Whole(u16),
    /// An answer that broke off, or none.
    Failed(Reason),
    Refused(Refusal),
}

impl Seen {
    fn of(error: impl Into<BoxError>) -> Self {
        let error = Error::from_boxed(error.into());
        match (error.rejected(), error.failure()) {
            (Some(rejected), _) => Self::Refused(rejected.code()),
            (None, failure) => Self::Failed(failure.map_or(Reason::Unclassified, Failure::reason)),
        }
    }

    /// What comes of reading an answer to its end.
    async fn whole<B>(answer: Result<Response<B>, Error>) -> Self
    where
        B: Body<Error: Into<BoxError>>,
    {
        match answer {
            Err(error) => Self::of(error),
            Ok(answer) => {
                let status = answer.status().as_u16();
                answer.into_body().collect().await.map_or_else(Self::of, |_| Self::Whole(status))
            }
        }
    }
}

fn breaker() -> SemanticBreakerLayer {
    SemanticBreakerLayer::new(TripCard::default())
}

fn get<B: From<Bytes>>(uri: &str) -> Request<B> {
    Request::get(uri).body(Bytes::new().into()).expect("a request")
}

/// What must hold at every edge that asks an HTTP target with `GET`.
async fn holds(ask: impl AsyncFn(String) -> Seen) {
    for (path, seen) in [("/fail", Seen::Whole(500)), ("/cut", Seen::Failed(Reason::Cut))] {
        // Another target is another key of the same layer.
        let target = Target::listen().await;
        for _ in 1..FAILURES {
            assert_eq!(ask(target.url(path)).await, seen);
            assert_eq!(ask(target.url("/ok")).await, Seen::Whole(200));
        }
        assert_eq!(ask(target.url(path)).await, seen);
        let sent = target.hits();
        assert_eq!(sent, 2 * FAILURES - 1);
        assert_eq!(ask(target.url("/ok")).await, Seen::Refused(Refusal::Open));
        assert_eq!(target.hits(), sent);
    }
}
