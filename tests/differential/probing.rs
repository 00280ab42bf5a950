//! How a breaker closes again.

use super::*;

/// Probes may be as far apart as the traffic is.
mod d3_half_open_does_not_wedge_when_probes_are_far_apart {
    use super::*;

    /// Trips, then sends `probes` good probes, `gap` apart; how many of the next 1,000 calls reach the plant.
    async fn reaching_after_slow_probes<B: Body>(
        probes: usize,
        gap: Duration,
        mut service: impl Guarded<B>,
        plant: &Plant,
        pass: impl AsyncFn(Duration),
    ) -> usize {
        trip(&mut service, plant).await;
        plant.turns(Mode::Good);
        for _ in 0..probes {
            pass(gap).await;
            assert_eq!(reaching(1, &mut service, plant).await, 1, "a probe is let through");
        }
        pass(gap).await;
        reaching(1_000, &mut service, plant).await
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let window = Duration::from_millis(5);
        let (service, handle, plant) = their_breaker(
            their_config()
                .sliding_window_type(SlidingWindowType::TimeBased)
                .sliding_window_duration(window)
                .permitted_calls_in_half_open(2),
        );
        assert_eq!(reaching_after_slow_probes(2, 4 * window, service, &plant, both_clocks).await, 0);
        assert_eq!(handle.state(), CircuitState::HalfOpen);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, handle, plant) = our_breaker();
        let reached = reaching_after_slow_probes(4, OUR_COOL_DOWN, service, &plant, tokio::time::advance).await;
        // Ten of the ramp's fifteen minutes have passed: 0.1 + 0.9 * 10 / 15 of the calls.
        assert_eq!(reached, 700);
        assert_eq!(our_state(&handle), State::Recovering);
    }
}

/// A probe that never ends must not keep all others out.
mod d4_a_hung_probe_frees_its_slot {
    use super::*;

    /// Trips, hangs the probe, waits `patience`; how many of the next 1,000 calls reach the recovered plant.
    async fn reaching_beside_a_hung_probe<B: Body>(
        cool_down: Duration,
        patience: Duration,
        mut service: impl Guarded<B>,
        plant: &Plant,
        pass: impl AsyncFn(Duration),
    ) -> usize {
        trip(&mut service, plant).await;
        pass(cool_down).await;
        let _gate = plant.holds();
        let before = plant.reached();
        let mut other = service.clone();
        let mut probe = pin!(send(&mut other));
        assert!(poll_once(&mut probe).await.is_pending());
        assert_eq!(plant.reached() - before, 1, "the probe is let through");

        plant.turns(Mode::Good);
        pass(patience).await;
        reaching(1_000, &mut service, plant).await
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let (service, handle, plant) = their_breaker(their_config());
        // A day for tokio's clock, fifteen cool-downs for the real one: nothing in their half-open state looks at either.
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(reaching_beside_a_hung_probe(COOL_DOWN, day, service, &plant, both_clocks).await, 0);
        assert_eq!(handle.state(), CircuitState::HalfOpen);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, handle, plant) = our_breaker();
        let pass = tokio::time::advance;
        let reached = reaching_beside_a_hung_probe(OUR_COOL_DOWN, OUR_LEASE, service, &plant, pass).await;
        // Four good probes, and a tenth of the 996 calls behind them.
        assert_eq!(reached, 4 + 99);
        assert_eq!(our_state(&handle), State::Recovering);
    }
}

/// A result belongs to the state that admitted the call.
mod d6_a_call_admitted_before_the_trip_does_not_close {
    use super::*;

    /// A call is on its way when the breaker trips, and ends well while the probe is still out; how many of the next ten
    /// calls reach the plant, which is still down.
    async fn reaching_after_a_late_success<B: Body>(
        cool_down: Duration,
        mut service: impl Guarded<B>,
        plant: &Plant,
        pass: impl AsyncFn(Duration),
    ) -> usize {
        let early_gate = plant.holds();
        let mut other = service.clone();
        let mut early = pin!(send(&mut other));
        assert!(poll_once(&mut early).await.is_pending());

        trip(&mut service, plant).await;
        pass(cool_down).await;
        let _probe_gate = plant.holds();
        let before = plant.reached();
        let mut third = service.clone();
        let mut probe = pin!(send(&mut third));
        assert!(poll_once(&mut probe).await.is_pending());
        assert_eq!(plant.reached() - before, 1, "the probe is let through");

        early_gate.notify_one();
        assert!(early.await);
        plant.turns(Mode::Bad);
        reaching(10, &mut service, plant).await
    }

    #[tokio::test(start_paused = true)]
    async fn theirs() {
        let (service, _, plant) = their_breaker(their_config());
        // The late success closes it, so it takes another three failures to open.
        assert_eq!(reaching_after_a_late_success(COOL_DOWN, service, &plant, both_clocks).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn ours() {
        let (service, handle, plant) = our_breaker();
        assert_eq!(reaching_after_a_late_success(OUR_COOL_DOWN, service, &plant, tokio::time::advance).await, 0);
        assert_eq!(our_state(&handle), State::HalfOpen);
    }
}
