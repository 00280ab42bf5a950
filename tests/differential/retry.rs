//! How often a retry sends, and how far apart.

use tokio::time::Instant;
use tower_belay::{RetryLayer, RetryPolicy, events::Event};
use tower_resilience::retry::{RetryBudgetBuilder, RetryLayer as TheirRetryLayer};

use super::*;

/// Fails every other call of the same request, so that each call succeeds at its second attempt.
#[derive(Clone, Default)]
struct Flaky(Arc<AtomicUsize>);

impl Service<Ask> for Flaky {
    type Response = Answer;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Ask) -> Self::Future {
        let fails = self.0.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        std::future::ready(if fails {
            Err(io::Error::from(io::ErrorKind::ConnectionRefused).into())
        } else {
            Ok(http::Response::new(Full::default()))
        })
    }
}

/// A budget is what all retries together may cost.
mod d7_a_retry_budget_bounds {
    use super::*;

    const CALLS: usize = 2_000;
    const BUDGET: usize = 100;

    /// How many retries as many calls cause as end well only at their second attempt.
    async fn retries<B: Body>(mut service: impl Guarded<B>, plant: &Flaky) -> usize {
        let mut calls = 0;
        while calls < CALLS {
            send(&mut service).await;
            calls += 1;
        }
        plant.0.load(Ordering::SeqCst) - calls
    }

    /// Every success puts a token back, and every retry that helps ends in one: the budget pays for itself.
    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let bucket = RetryBudgetBuilder::new().token_bucket().tokens_per_second(0.0).max_tokens(BUDGET);
        let layer = TheirRetryLayer::<Ask, Answer, BoxError>::builder().budget(bucket.build().expect("a budget"));
        let plant = Flaky::default();
        assert_eq!(retries(layer.build().layer(plant.clone()), &plant).await, CALLS, "their budget bounds now");
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let policy = RetryPolicy::default().budget_reserve(BUDGET as u32).budget_percent(0);
        let plant = Flaky::default();
        assert_eq!(retries(RetryLayer::new(policy).layer(plant.clone()), &plant).await, BUDGET);
    }
}

/// Callers that failed together must not come back together, and none of them after hours.
mod d8_waits_are_spread_and_bounded {
    use super::*;

    /// Keeps when each call came, and fails it.
    #[derive(Clone, Default)]
    struct Down(Arc<Mutex<Vec<Instant>>>);

    impl Service<Ask> for Down {
        type Response = Answer;
        type Error = BoxError;
        type Future = std::future::Ready<Result<Answer, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Ask) -> Self::Future {
            self.0.lock().expect("no test panics while it holds the times").push(Instant::now());
            std::future::ready(Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()))
        }
    }

    impl Down {
        fn came(&self) -> Vec<Instant> {
            self.0.lock().expect("no test panics while it holds the times").clone()
        }

        /// Fifty callers at once, two attempts each: at how many different instants they come the second time.
        async fn second_waves<B: Body>(&self, service: impl Guarded<B>) -> usize {
            futures_util::future::join_all((0..50).map(async |_| send(&mut service.clone()).await)).await;
            let came = self.came();
            let mut second = came[50..].to_vec();
            assert_eq!(second.len(), 50);
            second.dedup();
            second.len()
        }

        /// One caller with twenty attempts: its longest wait.
        async fn longest_wait<B: Body>(&self, mut service: impl Guarded<B>) -> Duration {
            send(&mut service).await;
            let came = self.came();
            assert_eq!(came.len(), 20);
            came.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
        }
    }

    fn theirs_with(attempts: usize, plant: &Down) -> impl Guarded<Full<Bytes>> + use<> {
        TheirRetryLayer::<Ask, Answer, BoxError>::builder().max_attempts(attempts).build().layer(plant.clone())
    }

    fn ours_with(attempts: u32, plant: &Down) -> impl Guarded<tower_belay::WatchedBody> + use<> {
        RetryLayer::new(RetryPolicy::default().max_attempts(attempts).budget_reserve(100)).layer(plant.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let plant = Down::default();
        assert_eq!(plant.second_waves(theirs_with(2, &plant)).await, 1, "their waits are spread now");
        let plant = Down::default();
        // Seven hours.
        assert!(plant.longest_wait(theirs_with(20, &plant)).await >= Duration::from_millis(100) * (1 << 18));
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let plant = Down::default();
        assert!(plant.second_waves(ours_with(2, &plant)).await >= 40);
        let plant = Down::default();
        assert!(plant.longest_wait(ours_with(20, &plant)).await <= Duration::from_secs(31));
    }
}

/// What a breaker refused was not sent: there is nothing to send again.
mod d12_a_refusal_is_not_retried {
    use super::*;

    /// How long a call takes that an open breaker refuses.
    async fn refused_after<B: Body>(mut service: impl Guarded<B>, plant: &Plant) -> Duration {
        let (before, start) = (plant.reached(), Instant::now());
        assert!(!send(&mut service).await);
        assert_eq!(plant.reached(), before, "it was not sent");
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let refusals = Arc::new(AtomicUsize::new(0));
        let counter = refusals.clone();
        let counts = move || {
            counter.fetch_add(1, Ordering::SeqCst);
        };
        let config = their_config().wait_duration_in_open(Duration::from_secs(60)).on_call_rejected(counts);
        let (mut breaker, _, plant) = their_breaker(config);
        trip(&mut breaker, &plant).await;
        refusals.store(0, Ordering::SeqCst);
        let service = TheirRetryLayer::<Ask, Answer, _>::builder().build().layer(breaker);
        assert_eq!(refused_after(service, &plant).await, Duration::from_millis(100 + 200), "they give up at once now");
        assert_eq!(refusals.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let refusals = Arc::new(AtomicUsize::new(0));
        let counter = refusals.clone();
        let layer = SemanticBreakerLayer::new(TripCard::default()).listener(move |event: &Event<'_>| {
            counter.fetch_add(matches!(event, Event::Refused(_)).into(), Ordering::SeqCst);
        });
        let plant = Plant::default();
        let mut breaker = layer.layer(plant.clone());
        trip(&mut breaker, &plant).await;
        refusals.store(0, Ordering::SeqCst);
        let service = RetryLayer::new(RetryPolicy::default()).layer(breaker);
        assert_eq!(refused_after(service, &plant).await, Duration::ZERO);
        assert_eq!(refusals.load(Ordering::SeqCst), 1);
    }
}
