//! Defects of liter-llm 2.4. It brings a hundred crates along, so these run only with `RUSTFLAGS="--cfg peers_llm"`.
//!
//! Not here yet is its hard budget of $0.10 that let $25 through: it waits for a budget of ours to stand beside.
//!
//! Their breaker reads `std::time::Instant` too: its cool-downs are a few real milliseconds.

use liter_llm::{
    LiterLlmError,
    tower::{
        CircuitLayer, CircuitService, ExponentialBackoffCircuit, LlmRequest, LlmResponse, ModelRateLimitLayer,
        RateLimitConfig,
    },
    types::{ChatCompletionRequest, ChatCompletionResponse},
};
use tokio::time::Instant;
use tower::service_fn;
use tower_belay::{BulkheadConfig, BulkheadLayer, Reason, Refusal, classify_fn, semantic_breaker::Circuit};

use super::*;

const FAILURES: u32 = 5;
const BASE: Duration = Duration::from_millis(1);

/// Counts the calls that reach it, and answers as the plant behind was told to.
#[derive(Clone, Default)]
struct Models(Plant);

impl Service<LlmRequest> for Models {
    type Response = LlmResponse;
    type Error = LiterLlmError;
    type Future = BoxFuture<'static, Result<LlmResponse, LiterLlmError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LiterLlmError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: LlmRequest) -> Self::Future {
        let answer = self.0.call(ask());
        Box::pin(async move {
            match answer.await {
                Ok(_) => Ok(LlmResponse::Chat(ChatCompletionResponse::default())),
                Err(_) => Err(LiterLlmError::Timeout),
            }
        })
    }
}

type TheirBreaker<S> = CircuitService<ExponentialBackoffCircuit, S>;

fn their_circuit<S>(inner: S) -> TheirBreaker<S> {
    CircuitLayer::new(Arc::new(ExponentialBackoffCircuit::new(FAILURES, BASE)), "provider").layer(inner)
}

fn to(model: &str) -> LlmRequest {
    LlmRequest::Chat(ChatCompletionRequest { model: model.to_owned(), ..ChatCompletionRequest::default() })
}

async fn their_trip(service: &mut TheirBreaker<Models>, plant: &Plant) {
    plant.turns(Mode::Bad);
    for _ in 0..FAILURES {
        assert!(service.call(to("a")).await.is_err());
    }
    plant.turns(Mode::Good);
}

/// What a layer of one's own refused was not sent, and says nothing of the provider.
mod own_refusals_open_no_breaker {
    use super::*;

    #[tokio::test]
    async fn theirs() {
        let models = Models::default();
        let limit = RateLimitConfig { rpm: Some(1), ..RateLimitConfig::default() };
        let mut service = their_circuit(ModelRateLimitLayer::new(limit).layer(models.clone()));
        assert!(service.call(to("a")).await.is_ok());
        for _ in 0..FAILURES {
            assert!(service.call(to("a")).await.is_err(), "its rate limit refuses");
        }
        assert!(service.call(to("b")).await.is_err(), "refusals no longer open the breaker of another model");
        assert_eq!(models.0.reached(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let names = || classify_fn(|model: &&'static str| Call::to("provider").agent(model).effect(Effect::ReadOnly));
        let breaker = SemanticBreakerLayer::new(TripCard::default()).classifier(names());
        let one = BulkheadLayer::new(BulkheadConfig::default().max_concurrent(1).max_queued(0)).classifier(names());
        let plant = service_fn(|model: &'static str| async move {
            if model == "a" {
                std::future::pending::<()>().await;
            }
            Ok::<_, BoxError>(Reason::Completed)
        });
        let mut service = breaker.layer(one.layer(plant));
        let held = service.ready().await.expect("ready").call("a");
        for _ in 0..20 {
            let refused = service.ready().await.expect("ready").call("a").await.expect_err("refused");
            assert_eq!(refused.rejected().map(|it| it.code()), Some(Refusal::BulkheadFull));
        }
        assert!(service.ready().await.expect("ready").call("b").await.is_ok());
        assert_eq!(breaker.handle().unhealthy(), 0);
        drop(held);
    }
}

/// A call that was made before the trip and is sent after it, and then dropped: the probe's slot must come free.
mod a_probe_slot_comes_free {
    use super::*;

    #[tokio::test]
    async fn theirs() {
        let models = Models::default();
        let mut service = their_circuit(models.clone());
        let made_before = service.clone().call(to("a"));
        their_trip(&mut service, &models.0).await;
        std::thread::sleep(20 * BASE);

        let _gate = models.0.holds();
        let mut late = made_before;
        assert!(poll_once(&mut Pin::new(&mut late)).await.is_pending());
        drop(late);

        models.0.turns(Mode::Good);
        let before = models.0.reached();
        for _ in 0..100 {
            std::thread::sleep(BASE);
            assert!(service.call(to("a")).await.is_err(), "the slot of a dropped probe comes free now");
        }
        assert_eq!(models.0.reached(), before, "wedged for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (mut service, handle, plant) = our_breaker();
        let _gate = plant.holds();
        let made_before = service.ready().await.expect("ready").call(ask());
        trip(&mut service, &plant).await;
        tokio::time::advance(OUR_COOL_DOWN).await;

        let mut late = Box::pin(made_before);
        assert!(poll_once(&mut late.as_mut()).await.is_pending());
        drop(late);

        plant.turns(Mode::Good);
        assert_eq!(reaching(4, &mut service, &plant).await, 4);
        assert_eq!(our_state(&handle), State::Recovering);
    }
}

/// Whoever has recovered begins anew.
mod a_cool_down_starts_anew_after_recovery {
    use super::*;

    const OUTAGES: u32 = 6;

    #[tokio::test]
    async fn theirs() {
        let models = Models::default();
        let mut service = their_circuit(models.clone());
        let mut last = Duration::ZERO;
        for _ in 0..OUTAGES {
            their_trip(&mut service, &models.0).await;
            let start = Instant::now();
            while service.call(to("a")).await.is_err() {
                std::thread::sleep(BASE);
            }
            last = start.elapsed();
            assert!(service.call(to("a")).await.is_ok(), "recovered");
        }
        assert!(last >= BASE * 2_u32.pow(OUTAGES), "it starts anew now: {last:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (mut service, handle, plant) = our_breaker();
        let asked = Call::to("provider.test").effect(Effect::ReadOnly);
        for _ in 0..OUTAGES {
            trip(&mut service, &plant).await;
            let health = handle.snapshots(&asked).into_iter().find(|it| it.circuit == Circuit::Health);
            let until = health.and_then(|it| it.until).expect("it is open");
            assert_eq!(until - Instant::now(), OUR_COOL_DOWN);
            plant.turns(Mode::Good);
            tokio::time::advance(OUR_COOL_DOWN).await;
            assert_eq!(reaching(4, &mut service, &plant).await, 4);
            tokio::time::advance(Duration::from_secs(15 * 60)).await;
            assert_eq!((reaching(1, &mut service, &plant).await, our_state(&handle)), (1, State::Closed));
        }
    }
}
