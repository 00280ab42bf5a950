//! Who shares a breaker, and at what price.

use super::*;

/// axum applies a layer anew for every connection it accepts: the state must live in the layer.
mod d2_axum_connections_share_one_breaker {
    use super::*;
    use axum::Router;
    use axum::error_handling::HandleErrorLayer;
    use axum::http::StatusCode;
    use axum::response::Response;
    use axum::routing::get;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};
    use tower_resilience::circuitbreaker::FailureClassifier;

    const CONNECTIONS: usize = 8;
    const REQUESTS: usize = 10;

    /// Ten requests over each of eight connections to a handler that always answers 500; how many reach the handler.
    async fn reaching_the_handler(guard: impl FnOnce(Router) -> Router) -> usize {
        let reached = Arc::new(AtomicUsize::new(0));
        let counter = reached.clone();
        let handler = move || {
            counter.fetch_add(1, Ordering::SeqCst);
            std::future::ready(StatusCode::INTERNAL_SERVER_ERROR)
        };
        let app = guard(Router::new().route("/v1/models", get(handler)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = tokio::spawn(async move { axum::serve(listener, app).await });

        for _ in 0..CONNECTIONS {
            let mut socket = BufReader::new(TcpStream::connect(address).await.expect("the server listens"));
            for _ in 0..REQUESTS {
                socket.write_all(b"GET /v1/models HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("the server reads");
                skip_answer(&mut socket).await;
            }
        }
        server.abort();
        reached.load(Ordering::SeqCst)
    }

    async fn skip_answer(socket: &mut BufReader<TcpStream>) {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            assert_ne!(socket.read_line(&mut line).await.expect("the server answers"), 0, "the server hung up");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        socket.read_exact(&mut vec![0; length]).await.expect("the whole body");
    }

    async fn refused<E>(_: E) -> StatusCode {
        StatusCode::SERVICE_UNAVAILABLE
    }

    /// Theirs counts errors alone unless told to look at answers; `classify_response` takes a closure, but the layer it
    /// makes is not `Clone`, which axum asks for.
    #[derive(Clone)]
    struct ServerErrors;

    impl<E> FailureClassifier<Response, E> for ServerErrors {
        fn classify(&self, result: &Result<Response, E>) -> bool {
            result.as_ref().is_ok_and(|answer| answer.status().is_server_error())
        }
    }

    #[tokio::test]
    async fn theirs() {
        let layer = their_config()
            .wait_duration_in_open(Duration::from_secs(60))
            .failure_classifier_type(ServerErrors)
            .build()
            .expect("a valid configuration");
        let guard = |app: Router| app.layer((HandleErrorLayer::new(refused), layer));
        // Three failures open each connection's own breaker.
        assert_eq!(reaching_the_handler(guard).await, 3 * CONNECTIONS);
    }

    /// Their way round it: state is shared only when a handle was asked for.
    #[tokio::test]
    async fn theirs_with_a_handle() {
        let (layer, _handle) = their_config()
            .wait_duration_in_open(Duration::from_secs(60))
            .failure_classifier_type(ServerErrors)
            .build_with_handle()
            .expect("a valid configuration");
        let guard = |app: Router| app.layer((HandleErrorLayer::new(refused), layer));
        assert_eq!(reaching_the_handler(guard).await, 3);
    }

    /// Whatever the number of connections; and no handle needs to be asked for.
    #[tokio::test]
    async fn ours() {
        let layer = SemanticBreakerLayer::new(TripCard::default());
        let guard = |app: Router| app.layer((HandleErrorLayer::new(refused), layer));
        assert_eq!(reaching_the_handler(guard).await, 5);
    }
}

/// A ready service behind a closed breaker answers at the first poll, whatever else goes on.
mod d10_no_async_lock_on_the_call_path {
    use super::*;

    /// Of `calls` calls to a ready plant made by one task, how many had to wait to be woken.
    async fn waiting<B: Body>(calls: usize, mut service: impl Guarded<B>) -> usize {
        let mut waited = 0;
        for _ in 0..calls {
            let mut call = pin!(send(&mut service));
            if poll_once(&mut call).await.is_pending() {
                waited += 1;
                call.await;
            }
        }
        waited
    }

    /// tokio lets a task take 128 of its resources before it must yield; two async locks a call spend that on 64 calls.
    #[tokio::test]
    async fn theirs_alone() {
        let (service, _, plant) = their_breaker(CircuitBreakerLayer::builder());
        assert_eq!(waiting(1_000, plant).await, 0, "the plant itself never waits");
        assert_eq!(waiting(1_000, service).await, 1_000 * 2 / 128);
    }

    /// A second call, made while the breaker is deciding about a first: here its listener makes it, elsewhere another thread.
    #[tokio::test]
    async fn theirs_contended() {
        let second: Arc<Mutex<Option<CircuitBreaker<Plant, _>>>> = Arc::default();
        let waited = Arc::new(AtomicUsize::new(0));
        let (slot, counter) = (second.clone(), waited.clone());
        let (mut service, _, plant) = their_breaker(CircuitBreakerLayer::builder().on_call_permitted(move |_| {
            let Some(mut service) = slot.lock().expect("no test panics while it holds the slot").take() else { return };
            let mut call = pin!(send(&mut service));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            counter.fetch_add(call.as_mut().poll(&mut cx).is_pending().into(), Ordering::SeqCst);
        }));
        *second.lock().expect("no test panics while it holds the slot") = Some(service.clone());
        assert!(send(&mut service).await);
        assert_eq!(waited.load(Ordering::SeqCst), 1, "the second call is not even admitted");
        assert_eq!(plant.reached(), 1);
    }

    #[tokio::test]
    async fn ours_alone() {
        let (service, _, plant) = our_breaker();
        assert_eq!(waiting(1_000, plant).await, 0);
        assert_eq!(waiting(1_000, service).await, 0);
    }

    /// A second call, made from within the listener that hears of a refusal.
    #[tokio::test(start_paused = true)]
    async fn ours_contended() {
        let second: Arc<Mutex<Option<SemanticBreaker<Plant>>>> = Arc::default();
        let answered = Arc::new(AtomicUsize::new(0));
        let (slot, counter) = (second.clone(), answered.clone());
        let layer =
            SemanticBreakerLayer::new(TripCard::default()).listener(move |_: &tower_belay::events::Event<'_>| {
                let Some(mut service) = slot.lock().expect("no test panics while it holds the slot").take() else {
                    return;
                };
                let mut call = pin!(send(&mut service));
                let mut cx = Context::from_waker(std::task::Waker::noop());
                counter.fetch_add(call.as_mut().poll(&mut cx).is_ready().into(), Ordering::SeqCst);
            });
        let plant = Plant::default();
        let mut service = layer.layer(plant.clone());
        *second.lock().expect("no test panics while it holds the slot") = Some(service.clone());
        assert_eq!(trip(&mut service, &plant).await, 5);
        assert_eq!(answered.load(Ordering::SeqCst), 1, "the second call is answered at its first poll");
    }
}
