//! The recommended order of layers, and what each wrong one costs, in numbers. `coverage` names every one of them.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use http::{Request, Response};
use tokio::time::{Instant, sleep};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn, util::BoxCloneSyncService};
use tower_belay::{
    Budget, BulkheadConfig, BulkheadLayer, Call, Effect, Error, ProviderConfig, ProviderLayer, Reason, RetryLayer,
    RetryPolicy, SemanticBreakerLayer, TimeoutConfig, TimeoutLayer, TokenBudgetLayer, TripCard, WatchedBody,
    classify::{ClassifyHttp, RequestHead},
    classify_fn, classify_http,
    coverage::{Coverage, Guard, MISTAKES, Probe},
    stack::{LlmStack, LlmStackConfig},
    token_budget::Limits,
};

type Model = BoxCloneSyncService<Request<String>, Response<WatchedBody>, Error>;

/// What the model does with every request.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// A 503 after this long.
    Fails(Duration),
    /// A 503 to the first request.
    FailsFirst,
    /// A 200 with nothing in it.
    AnswersNothing,
    Hangs,
}

/// A model, and how many requests came to it.
#[derive(Debug, Clone)]
struct Server {
    does: Does,
    sent: Arc<AtomicU32>,
}

impl Server {
    fn that(does: Does) -> Self {
        Self { does, sent: Arc::default() }
    }

    fn sent(&self) -> u32 {
        self.sent.load(Ordering::SeqCst)
    }

    async fn answer(self) -> Result<Response<WatchedBody>, Infallible> {
        let before = self.sent.fetch_add(1, Ordering::SeqCst);
        let status = match self.does {
            Does::Fails(after) => {
                sleep(after).await;
                503
            }
            Does::FailsFirst if before == 0 => 503,
            Does::FailsFirst | Does::AnswersNothing => 200,
            Does::Hangs => std::future::pending().await,
        };
        let said = if matches!(self.does, Does::FailsFirst) { "Hi" } else { "" };
        let body = format!(r#"{{"choices":[{{"index":0,"message":{{"content":"{said}"}},"finish_reason":"stop"}}]}}"#);
        Ok(Response::builder().status(status).body(WatchedBody::from(body)).expect("a response"))
    }

    /// The server behind `layers`, and the codes of the mistakes in their order.
    fn behind<L>(&self, layers: &L) -> (Model, Vec<&'static str>)
    where
        L: Layer<Client> + Layer<Probe>,
        <L as Layer<Probe>>::Service: Guard,
        <L as Layer<Client>>::Service:
            Service<Request<String>, Response = Response<WatchedBody>, Error = Error> + Clone + Send + Sync + 'static,
        <<L as Layer<Client>>::Service as Service<Request<String>>>::Future: Send + 'static,
    {
        let server = self.clone();
        let client = Client::new(service_fn(move |_: Request<String>| server.clone().answer()));
        let mistakes = Coverage::of(layers).mistakes().into_iter().map(|mistake| mistake.code).collect();
        (BoxCloneSyncService::new(layers.layer(client)), mistakes)
    }
}

type Client = BoxCloneSyncService<Request<String>, Response<WatchedBody>, Infallible>;
type Named = ClassifyHttp<fn(&RequestHead<'_>, Call) -> Call>;

fn named() -> Named {
    classify_http(|_, call| call.effect(Effect::ReadOnly).agent("worker"))
}

fn ask() -> Request<String> {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#;
    Request::post("https://api.openai.com/v1/chat/completions").body(body.to_owned()).expect("a request")
}

/// One call after the other, each given up after a minute.
async fn in_turn(model: &Model, calls: usize) {
    for _ in 0..calls {
        let _ = tokio::time::timeout(Duration::from_secs(60), model.clone().oneshot(ask())).await;
    }
}

async fn at_once(model: &Model, calls: usize) {
    join_all((0..calls).map(|_| model.clone().oneshot(ask()))).await;
}

fn retry() -> RetryLayer<Named> {
    RetryLayer::new(RetryPolicy::default().budget_reserve(1_000)).classifier(named())
}

fn bulkhead(places: u32) -> BulkheadLayer<Named> {
    let config = BulkheadConfig::default().max_concurrent(places).max_queued(1_000).max_wait(Duration::from_secs(600));
    BulkheadLayer::new(config).classifier(named())
}

/// A budget for so many calls at a time: each may use 19 tokens of input, and 1,024 of output.
fn budget(calls: u64) -> TokenBudgetLayer<Named> {
    TokenBudgetLayer::new(Budget::default().tenant(Limits::default().tokens(calls * 1_043))).classifier(named())
}

fn breaker() -> SemanticBreakerLayer<Named> {
    SemanticBreakerLayer::new(TripCard::default()).classifier(named())
}

fn timeout() -> TimeoutLayer<Named> {
    TimeoutLayer::new(TimeoutConfig::default().total(Duration::from_secs(5))).classifier(named())
}

fn provider() -> ProviderLayer<Named> {
    ProviderLayer::new(ProviderConfig::default()).classifier(named())
}

const NONE: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn the_recommended_order_sends_five_of_a_hundred_whatever_goes_wrong() {
    for does in [Does::Fails(Duration::ZERO), Does::AnswersNothing, Does::Hangs] {
        let stack = ServiceBuilder::new().layer(bulkhead(5)).layer(breaker()).layer(timeout()).layer(provider());
        let server = Server::that(does);
        let (model, mistakes) = server.behind(&stack);
        in_turn(&model, 100).await;
        assert_eq!((server.sent(), mistakes), (5, NONE.to_vec()), "{does:?}");
    }
    let whole = LlmStack::new(LlmStackConfig::default()).classifier(named());
    assert_eq!(Server::that(Does::Hangs).behind(&whole).1, NONE);
}

#[tokio::test(start_paused = true)]
async fn a_queue_inside_the_breaker_sends_the_45_that_waited_when_it_tripped() {
    let server = Server::that(Does::Fails(Duration::from_secs(1)));
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(bulkhead(5)).layer(breaker()).layer(provider()));
    at_once(&model, 50).await;
    assert_eq!((server.sent(), mistakes), (5, NONE.to_vec()));

    let server = Server::that(Does::Fails(Duration::from_secs(1)));
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(breaker()).layer(bulkhead(5)).layer(provider()));
    at_once(&model, 50).await;
    assert_eq!((server.sent(), mistakes), (5 + 45, vec!["queue_inside_breaker"]));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_the_breaker_sends_a_hundred_calls_to_what_hangs() {
    let server = Server::that(Does::Hangs);
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(timeout()).layer(breaker()).layer(provider()));
    in_turn(&model, 100).await;
    assert_eq!((server.sent(), mistakes), (100, vec!["timeout_outside_breaker"]));
}

#[tokio::test(start_paused = true)]
async fn a_retry_inside_the_breaker_sends_fifteen_before_it_opens() {
    let fails = Does::Fails(Duration::ZERO);
    let server = Server::that(fails);
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(retry()).layer(breaker()).layer(provider()));
    in_turn(&model, 100).await;
    assert_eq!((server.sent(), mistakes), (5, NONE.to_vec()));

    let server = Server::that(fails);
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(breaker()).layer(retry()).layer(provider()));
    in_turn(&model, 100).await;
    assert_eq!((server.sent(), mistakes), (15, vec!["retry_inside_breaker"]));
}

#[tokio::test(start_paused = true)]
async fn a_provider_outside_the_breaker_hides_a_hundred_answers_that_cannot_be_used() {
    let server = Server::that(Does::AnswersNothing);
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(provider()).layer(breaker()));
    in_turn(&model, 100).await;
    assert_eq!((server.sent(), mistakes), (100, vec!["provider_not_innermost"]));
}

#[tokio::test(start_paused = true)]
async fn a_permit_held_through_a_backoff_keeps_the_next_call_waiting() {
    /// How long a call takes beside one whose first attempt fails.
    async fn took<L>(stack: &L) -> (Duration, Vec<&'static str>)
    where
        L: Layer<Client> + Layer<Probe>,
        <L as Layer<Probe>>::Service: Guard,
        <L as Layer<Client>>::Service:
            Service<Request<String>, Response = Response<WatchedBody>, Error = Error> + Clone + Send + Sync + 'static,
        <<L as Layer<Client>>::Service as Service<Request<String>>>::Future: Send + 'static,
    {
        let (model, mistakes) = Server::that(Does::FailsFirst).behind(stack);
        let began = Instant::now();
        let second = async {
            let _ = model.clone().oneshot(ask()).await;
            began.elapsed()
        };
        (tokio::join!(model.clone().oneshot(ask()), second).1, mistakes)
    }
    let (good, none) = took(&ServiceBuilder::new().layer(retry()).layer(bulkhead(1)).layer(provider())).await;
    let (bad, mistakes) = took(&ServiceBuilder::new().layer(bulkhead(1)).layer(retry()).layer(provider())).await;
    assert_eq!((none, mistakes), (NONE.to_vec(), vec!["permit_held_through_backoff"]));
    // A backoff is between half a second and one.
    assert_eq!(good, Duration::ZERO);
    assert!(bad >= Duration::from_millis(500), "{bad:?}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_retries_leaves_no_time_for_a_second_attempt() {
    let server = Server::that(Does::Hangs);
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(retry()).layer(timeout()).layer(provider()));
    let _ = model.oneshot(ask()).await;
    assert_eq!((server.sent(), mistakes), (3, NONE.to_vec()));

    let server = Server::that(Does::Hangs);
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(timeout()).layer(retry()).layer(provider()));
    let _ = model.oneshot(ask()).await;
    assert_eq!((server.sent(), mistakes), (1, vec!["timeout_outside_retry"]));
}

#[tokio::test(start_paused = true)]
async fn retries_that_cannot_see_each_other_multiply_to_nine() {
    let server = Server::that(Does::Fails(Duration::ZERO));
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(retry()).layer(retry()).layer(provider()));
    let _ = model.oneshot(ask()).await;
    // Between two of ours the outer one is seen; it is a mistake all the same.
    assert_eq!((server.sent(), mistakes), (3, vec!["attempts_multiplied"]));

    // A request that cannot carry its call hides one from the other.
    let sent = Arc::new(AtomicU32::new(0));
    let counted = sent.clone();
    let blind = || {
        let named = classify_fn(|_: &u8| Call::to("crm").effect(Effect::ReadOnly)).replay_clones();
        RetryLayer::new(RetryPolicy::default()).classifier(named.judge(|reason: &Reason| *reason))
    };
    let nested = ServiceBuilder::new().layer(blind()).layer(blind()).service(service_fn(move |_: u8| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok::<_, Infallible>(Reason::Overloaded))
    }));
    let _ = nested.oneshot(0).await;
    assert_eq!(sent.load(Ordering::SeqCst), 9);
}

#[tokio::test(start_paused = true)]
async fn a_budget_outside_retries_books_one_attempt_of_three() {
    let booked = |budget: &TokenBudgetLayer<Named>| budget.handle().tenant(&Call::new()).map(|it| it.spent.tokens);
    let server = Server::that(Does::Hangs);
    let inside = budget(100);
    let stack = ServiceBuilder::new().layer(retry()).layer(inside.clone()).layer(timeout()).layer(provider());
    let (model, mistakes) = server.behind(&stack);
    let _ = model.oneshot(ask()).await;
    assert_eq!((server.sent(), booked(&inside), mistakes), (3, Some(3 * 1_043), NONE.to_vec()));

    let server = Server::that(Does::Hangs);
    let outside = budget(100);
    let stack = ServiceBuilder::new().layer(outside.clone()).layer(retry()).layer(timeout()).layer(provider());
    let (model, mistakes) = server.behind(&stack);
    let _ = model.oneshot(ask()).await;
    assert_eq!((server.sent(), booked(&outside), mistakes), (3, Some(1_043), vec!["budget_outside_retry"]));
}

#[tokio::test(start_paused = true)]
async fn a_budget_inside_the_bulkhead_lets_what_it_will_refuse_queue() {
    /// How long it takes until the last of twenty calls has its answer or its refusal.
    async fn took(model: &Model) -> Duration {
        let began = Instant::now();
        at_once(model, 20).await;
        began.elapsed()
    }
    let slow = Does::Fails(Duration::from_secs(1));
    let server = Server::that(slow);
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(budget(2)).layer(bulkhead(1)).layer(provider()));
    assert_eq!((took(&model).await, server.sent(), mistakes), (Duration::from_secs(2), 2, NONE.to_vec()));

    let server = Server::that(slow);
    let (model, mistakes) = server.behind(&ServiceBuilder::new().layer(bulkhead(1)).layer(budget(2)).layer(provider()));
    let expected = (Duration::from_secs(20), 20, vec!["budget_inside_bulkhead"]);
    assert_eq!((took(&model).await, server.sent(), mistakes), expected);
}

#[test]
fn every_mistake_has_a_code_of_its_own_and_says_what_it_costs() {
    for (at, mistake) in MISTAKES.iter().enumerate() {
        assert!(!mistake.harm.is_empty() && MISTAKES[at + 1..].iter().all(|other| other.code != mistake.code));
    }
}
