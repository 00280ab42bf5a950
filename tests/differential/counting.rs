//! What a breaker counts, and what it says of it.

use super::*;

/// A count-based window must forget what left it.
mod d1_count_window_slides {
    use super::*;

    const HEALTHY: usize = 20_000;

    /// How many calls in a row must fail, after `healthy` good ones, before one is refused.
    async fn failures_to_open<B: Body>(healthy: usize, mut service: impl Guarded<B>, plant: &Plant) -> usize {
        assert_eq!(reaching(healthy, &mut service, plant).await, healthy);
        trip(&mut service, plant).await
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        // All defaults: a window of 100 calls, open at a failure rate of one half.
        let (service, _, plant) = their_breaker(CircuitBreakerLayer::builder());
        assert_eq!(failures_to_open(HEALTHY, service, &plant).await, HEALTHY);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, _, plant) = our_breaker();
        assert_eq!(failures_to_open(HEALTHY, service, &plant).await, 5);
    }
}

/// A caller with a timeout of its own drops the call: that is how most hangs are seen.
mod d5_dropped_calls_are_counted_when_they_hung {
    use super::*;

    /// 200 calls to a plant that hangs, each dropped after `patience`; how many reach it.
    async fn reaching_a_hung_plant<B: Body>(patience: Duration, mut service: impl Guarded<B>, plant: &Plant) -> usize {
        let _gate = plant.holds();
        for _ in 0..200 {
            let _ = tokio::time::timeout(patience, send(&mut service)).await;
        }
        plant.reached()
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let (service, handle, plant) = their_breaker(their_config());
        assert_eq!(reaching_a_hung_plant(Duration::from_secs(90), service, &plant).await, 200);
        assert_eq!(handle.state(), CircuitState::Closed);
        assert_eq!(handle.metrics().await.total_calls, 0, "not one of them was seen");
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, handle, plant) = our_breaker();
        assert_eq!(reaching_a_hung_plant(Duration::from_secs(90), service, &plant).await, 5);
        assert_eq!(our_state(&handle), State::Open);
    }

    /// A caller that went away at once says nothing about the plant.
    #[tokio::test(start_paused = true)]
    async fn ours_with_impatient_callers() {
        let (service, handle, plant) = our_breaker();
        assert_eq!(reaching_a_hung_plant(Duration::from_secs(59), service, &plant).await, 200);
        assert_eq!(our_state(&handle), State::Closed);
    }
}

/// Whoever charts the state must see one.
#[cfg(not(peers_lean))]
mod d9_gauge_reads_one_state {
    use super::*;
    use metrics_util::MetricKind;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    /// The states that the gauge `name` says hold, after `story` was lived through.
    fn states_at_once<F: Future<Output = ()>>(name: &str, story: impl FnOnce() -> F) -> Vec<String> {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        metrics::with_local_recorder(&recorder, || runtime.block_on(story()));

        let mut states = Vec::new();
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let held = matches!(value, DebugValue::Gauge(value) if value.into_inner() > 0.0);
            if key.kind() == MetricKind::Gauge && key.key().name() == name && held {
                states.extend(key.key().labels().filter(|l| l.key() == "state").map(|l| l.value().to_owned()));
            }
        }
        states.sort();
        states
    }

    /// Trips, then a good probe: for a breaker that needs but one, this is closed again.
    async fn trip_and_recover<B: Body>(
        cool_down: Duration,
        mut service: impl Guarded<B>,
        plant: &Plant,
        pass: impl AsyncFn(Duration),
    ) {
        trip(&mut service, plant).await;
        pass(cool_down).await;
        plant.turns(Mode::Good);
        assert_eq!(reaching(1, &mut service, plant).await, 1);
    }

    #[test]
    fn theirs() {
        let states = states_at_once("circuitbreaker_state", || async {
            let (service, handle, plant) = their_breaker(their_config());
            trip_and_recover(COOL_DOWN, service, &plant, both_clocks).await;
            assert_eq!(handle.state(), CircuitState::Closed);
        });
        assert_eq!(states, ["Closed", "HalfOpen", "Open"]);
    }

    #[test]
    fn ours() {
        let states = states_at_once("belay_breaker_circuits", || async {
            let (service, handle, plant) = our_breaker();
            trip_and_recover(OUR_COOL_DOWN, service, &plant, tokio::time::advance).await;
            assert_eq!(our_state(&handle), State::HalfOpen, "it needs four good probes");
        });
        assert_eq!(states, ["half_open"]);
    }
}
