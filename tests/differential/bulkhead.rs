//! How long a permit is held.

use tower_belay::{BulkheadConfig, BulkheadLayer, testing::BodyScript};
use tower_resilience::bulkhead::BulkheadLayer as TheirBulkheadLayer;

use super::*;

/// An answer is over with its body, and a model's body is all of the work.
mod d11_a_permit_is_held_to_the_end_of_the_answer {
    use super::*;

    type Streamed = http::Response<BodyScript>;

    /// Ten calls, whose heads come at once and whose bodies take a minute, through a bulkhead of one: how many of them are
    /// on their way at a time.
    async fn at_a_time<S, B: Body>(bulkhead: impl FnOnce(Streams) -> S) -> usize
    where
        S: Service<Ask, Response = http::Response<B>> + Clone,
    {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let service = bulkhead(Streams { now: now.clone(), most: most.clone() });
        let read = async |mut service: S| {
            let ready = service.ready().await.ok().expect("ready");
            let answer = ready.call(ask()).await.ok().expect("it waits for its turn");
            assert!(answer.into_body().collect().await.is_ok());
            now.fetch_sub(1, Ordering::SeqCst);
        };
        futures_util::future::join_all((0..10).map(|_| read(service.clone()))).await;
        most.load(Ordering::SeqCst)
    }

    #[derive(Clone)]
    struct Streams {
        now: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
    }

    impl Service<Ask> for Streams {
        type Response = Streamed;
        type Error = BoxError;
        type Future = std::future::Ready<Result<Streamed, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Ask) -> Self::Future {
            self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let body = BodyScript::new().data("a").pause(Duration::from_secs(60)).data("b");
            std::future::ready(Ok(http::Response::new(body)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let layer = TheirBulkheadLayer::builder().max_concurrent_calls(1).build().expect("a valid configuration");
        assert_eq!(at_a_time(|plant| layer.layer(plant)).await, 10, "their permits are held through the body now");
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let patient = BulkheadConfig::default().max_concurrent(1).max_queued(10).max_wait(Duration::from_secs(3_600));
        assert_eq!(at_a_time(|plant| BulkheadLayer::new(patient).layer(plant)).await, 1);
    }
}
