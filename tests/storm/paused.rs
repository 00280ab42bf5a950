//! In one process, in paused time.

use std::{
    future::pending,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::{Instant, advance};
use tower::service_fn;
use tower_belay::testing::BodyScript;

use super::{plant::InFlight, *};

const TOTAL: Duration = Duration::from_secs(10);
const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A body whose request is in flight until it is dropped.
struct Counted(BodyScript, #[allow(dead_code, reason = "held, not read")] InFlight);

impl Body for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }
}

async fn answer(request: Request<String>, gauge: Gauge) -> Result<Response<Counted>, BoxError> {
    let class = request.headers()["x-class"].to_str().expect("a class");
    let (fate, in_flight) = gauge.take(class);
    let takes = Duration::from_millis(100 + 10 * (gauge.sent() as u64 % 40));
    sleep(takes).await;
    let (status, kind, body) = match fate {
        Fate::Busy => (503, "application/json", BodyScript::new().data("{}")),
        Fate::Reset => return Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
        Fate::Stall => return pending().await,
        Fate::Cut => (200, "text/event-stream", BodyScript::new().data(TEXT).pause(takes)),
        Fate::Good => (200, "text/event-stream", BodyScript::new().data(TEXT).pause(takes).data(STOP)),
    };
    let response = Response::builder().status(status).header("content-type", kind);
    Ok(response.body(Counted(body, in_flight)).expect("a response"))
}

fn stack(gauge: &Gauge, card: Option<TripCard>) -> Stack {
    let gauge = gauge.clone();
    let plant = service_fn(move |request| answer(request, gauge.clone()));
    Stack::around(plant, RetryPolicy::default(), TOTAL, card)
}

#[tokio::test(start_paused = true)]
async fn a_storm_is_weathered_by_retries_within_their_budget() {
    for seed in 0..4 {
        let gauge = Gauge::new(seed);
        let stack = stack(&gauge, None);
        let storm = stack.weathers(10, Duration::from_secs(2)).await;
        stack.holds(&storm, &gauge);
        assert_eq!((storm.calls(), gauge.in_flight(), storm.refused()), (2_000, 0, 0));
        let sent = gauge.sent();
        assert!(sent > 2_300, "seed {seed}: retries help as far as their budget goes, but there were {sent} attempts");
        assert!(storm.answered() >= 2_000 * 60 / 100, "seed {seed}: {} answered", storm.answered());
        storm.starves_nobody(0.6);
        // The queues were full for most of the time: this was about their limits.
        assert!((0..CLASSES.len()).all(|class| gauge.most(class) == LIMIT), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_ends_the_storm_and_lets_go_when_the_provider_has_healed() {
    for seed in 0..4 {
        let gauge = Gauge::new(seed);
        let stack = stack(&gauge, Some(TripCard::default()));
        let storm = stack.weathers(10, Duration::from_secs(2)).await;
        stack.holds(&storm, &gauge);
        assert_eq!((storm.calls(), gauge.in_flight()), (2_000, 0));
        assert!(gauge.sent() < 500, "seed {seed}: {} sent", gauge.sent());
        assert!(storm.refused() > 1_500, "seed {seed}: {} refused", storm.refused());

        gauge.heals();
        let start = Instant::now();
        while stack.breaker.unhealthy() > 0 {
            assert!(start.elapsed() < Duration::from_secs(2 * 3_600), "seed {seed}: {:?}", stack.breaker.all());
            advance(Duration::from_secs(30)).await;
            End::of(stack.model.clone().oneshot(ask(CLASSES[0])).await).await;
        }
        let after = stack.weathers(1, Duration::from_secs(2)).await;
        assert_eq!(after.answered(), CALLERS, "seed {seed}");
        assert_eq!((gauge.in_flight(), stack.bulkhead.all()), (0, vec![]));
    }
}
