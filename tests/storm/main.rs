//! A storm: two hundred callers of four agent classes, and a provider that fails three calls of ten, stalls one of twenty
//! and cuts one of twenty. Whatever becomes of a call, nothing is sent without bound, nobody starves, nothing leaks.

mod paused;
mod plant;
mod sockets;

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::{task::JoinSet, time::sleep};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, util::BoxCloneSyncService};
use tower_belay::{
    BulkheadConfig, BulkheadLayer, Call, Error, Failure, IdentifyLayer, ProviderConfig, ProviderLayer, Reason, Refusal,
    RetryLayer, RetryPolicy, SemanticBreakerLayer, TimeoutConfig, TimeoutLayer, TripCard, WatchedBody,
    bulkhead::BulkheadHandle, classify_http, semantic_breaker::BreakerHandle,
};

use self::plant::{Fate, Gauge, draw};

const CLASSES: [&str; 4] = ["coder", "critic", "planner", "researcher"];
const CALLERS: usize = 200;
/// How many calls of a class run at a time.
const LIMIT: u32 = 8;
const RESERVE: u32 = 10;

type Model = BoxCloneSyncService<Request<String>, Response<WatchedBody>, Error>;

/// The recommended layers around some provider, and what is known of them from outside.
struct Stack {
    model: Model,
    retry: RetryLayer,
    bulkhead: BulkheadHandle,
    breaker: BreakerHandle,
}

impl Stack {
    /// Without a card there is no breaker.
    fn around<S, B>(plant: S, policy: RetryPolicy, total: Duration, card: Option<TripCard>) -> Self
    where
        S: Service<Request<String>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let read = ServiceBuilder::new()
            .layer(TimeoutLayer::new(TimeoutConfig::default().total(total)))
            .layer(ProviderLayer::new(ProviderConfig::default()))
            .service(plant);
        let layer = SemanticBreakerLayer::new(card.clone().unwrap_or_default());
        let breaker = layer.handle();
        let guarded = match card {
            Some(_) => Model::new(layer.layer(read)),
            None => Model::new(read),
        };
        let limits = BulkheadConfig::default().max_concurrent(LIMIT).max_queued(CALLERS as u32);
        let layer = BulkheadLayer::new(limits.max_wait(Duration::from_secs(3_600)));
        let bulkhead = layer.handle();
        let retry = RetryLayer::new(policy.budget_reserve(RESERVE).budget_percent(20));
        let by_class = classify_http(|head, call| match head.headers.get("x-class").and_then(|it| it.to_str().ok()) {
            Some(class) => call.agent(class),
            None => call,
        });
        let model = ServiceBuilder::new()
            .layer(IdentifyLayer::new().classifier(by_class))
            .layer(retry.clone())
            .layer(layer)
            .service(guarded);
        Self { model: Model::new(model), retry, bulkhead, breaker }
    }

    /// Every caller makes so many calls, one after another, and thinks in between.
    async fn weathers(&self, calls: usize, thinks: Duration) -> Storm {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (model, class) = (self.model.clone(), caller % CLASSES.len());
            callers.spawn(async move {
                let mut ends = Vec::with_capacity(calls);
                for n in 0..calls {
                    sleep(thinks.mul_f64(draw(caller as u64, n as u64))).await;
                    ends.push(End::of(model.clone().oneshot(ask(CLASSES[class])).await).await);
                }
                (class, ends)
            });
        }
        let mut storm = Storm::default();
        while let Some(done) = callers.join_next().await {
            let (class, ends) = done.expect("no caller panics");
            storm.ends[class].extend(ends);
        }
        storm
    }

    /// What holds after every storm, over a provider that counted what came to it.
    fn holds(&self, storm: &Storm, gauge: &Gauge) {
        let (calls, sent) = (storm.calls(), gauge.sent());
        let earned = RESERVE as usize + calls / 5;
        assert!(sent <= calls + earned, "{sent} attempts at {calls} calls");
        let left = self.retry.budget_left();
        let retries = sent.saturating_sub(calls);
        assert!(left <= RESERVE && retries + left as usize <= earned, "{left} left after {retries} retries");
        for (at, class) in CLASSES.iter().enumerate() {
            assert!(gauge.most(at) <= LIMIT, "{} at a time of {class}", gauge.most(at));
        }
        // Permits are back, and so are the places in the queues.
        assert_eq!(self.bulkhead.all(), []);
        for class in CLASSES {
            let occupancy = self.bulkhead.occupancy(&Call::new().agent(class));
            assert_eq!((occupancy.in_flight, occupancy.queued), (0, 0), "{class}");
        }
    }
}

fn ask(class: &str) -> Request<String> {
    let body = r#"{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"Hi"}]}"#;
    let request = Request::post("http://127.0.0.1/v1/chat/completions").header("content-type", "application/json");
    request.header("x-class", class).body(body.to_owned()).expect("a request")
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Answered,
    Failed(Reason),
    Refused(Refusal),
}

impl End {
    async fn of(answer: Result<Response<WatchedBody>, Error>) -> Self {
        match answer {
            Err(error) => Self::by(&error),
            Ok(answer) => {
                let mut body = answer.into_body();
                while let Some(frame) = body.frame().await {
                    if let Err(error) = frame {
                        return Self::by(&error);
                    }
                }
                match body.verdict().expect("the answer is over").reason {
                    Reason::Completed => Self::Answered,
                    reason => Self::Failed(reason),
                }
            }
        }
    }

    fn by(error: &Error) -> Self {
        match (error.rejected(), error.failure().map(Failure::reason)) {
            (Some(rejected), _) => Self::Refused(rejected.code()),
            (None, Some(reason)) => Self::Failed(reason),
            // Without a breaker nobody judged it; it still has a name.
            (None, None) => Self::Failed(tower_belay::classify::error_verdict(&Call::new(), error).reason),
        }
    }
}

/// How all calls ended, class by class.
#[derive(Debug, Default)]
struct Storm {
    ends: [Vec<End>; CLASSES.len()],
}

impl Storm {
    fn calls(&self) -> usize {
        self.ends.iter().map(Vec::len).sum()
    }

    fn count(&self, is: impl Fn(&End) -> bool) -> usize {
        self.ends.iter().flatten().filter(|end| is(end)).count()
    }

    fn answered(&self) -> usize {
        self.count(|end| *end == End::Answered)
    }

    fn refused(&self) -> usize {
        self.count(|end| matches!(end, End::Refused(_)))
    }

    /// Every class had at least `share` of its calls answered.
    fn starves_nobody(&self, share: f64) {
        for (class, ends) in CLASSES.iter().zip(&self.ends) {
            let answered = ends.iter().filter(|end| **end == End::Answered).count();
            assert!(answered as f64 >= share * ends.len() as f64, "{class}: {answered} of {}", ends.len());
        }
    }
}
