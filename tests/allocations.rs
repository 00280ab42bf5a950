//! What reading an answer allocates: per answer, and nothing per event.
#![cfg(feature = "wire")]

#[path = "../benches/overhead/alloc.rs"]
mod alloc;

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use tower_belay::{
    WatchedBody,
    provider::{IncludeUsage, Provider, ProviderConfig, ProviderLayer},
};
use tower_layer::Layer;
use tower_service::Service;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// The same frames to everyone, without an allocation.
#[derive(Clone)]
struct Recorded {
    kind: &'static str,
    frames: &'static [&'static str],
    /// How many times the frame in the middle comes.
    times: usize,
}

struct Frames {
    recorded: Recorded,
    at: usize,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Recorded { frames, times, .. } = self.recorded;
        let at = match self.at {
            0 => 0,
            at if at <= times => 1,
            at => at - times + 1,
        };
        self.at += 1;
        Poll::Ready(frames.get(at).map(|frame| Ok(Frame::data(Bytes::from_static(frame.as_bytes())))))
    }
}

impl Service<Request<Bytes>> for Recorded {
    type Response = Response<Frames>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        let mut response = Response::new(Frames { recorded: self.clone(), at: 0 });
        response.headers_mut().insert("content-type", http::HeaderValue::from_static(self.kind));
        std::future::ready(Ok(response))
    }
}

fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("everything is at hand"),
    }
}

/// Reads an answer to its end and counts what that allocates, beside what the bare client does.
fn count(recorded: &Recorded, path: &str, hide: bool) -> u64 {
    let asks = if hide { IncludeUsage::Always } else { IncludeUsage::Never };
    let mut provider: Provider<Recorded> =
        ProviderLayer::new(ProviderConfig::default().include_usage(asks)).layer(recorded.clone());
    let request = || {
        let mut request = Request::post(format!("http://127.0.0.1{path}"))
            .body(Bytes::from_static(b"{\"model\":\"m\",\"stream\":true}"))
            .expect("a request");
        // Already named, as by `IdentifyLayer`.
        request.extensions_mut().insert(tower_belay::Call::to("p").operation("m"));
        request
    };
    let asked = request();
    let before = alloc::count();
    drop(ready(recorded.clone().call(asked)));
    let bare = alloc::count() - before;

    let asked = request();
    let before = alloc::count();
    let response = ready(provider.call(asked)).expect("an answer");
    drain(response);
    (alloc::count() - before).saturating_sub(bare)
}

fn drain(response: Response<WatchedBody>) {
    let mut response = response;
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(frame)) = Pin::new(response.body_mut()).poll_frame(&mut cx) {
        drop(frame.expect("no error"));
    }
    assert!(response.body().verdict().is_some_and(|verdict| verdict.is_success()));
}

const CHAT: [&str; 5] = [
    "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi \\u00e9\"}}],\"usage\":null}\n\n",
    "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n",
    "data: [DONE]\n\n",
];
const RESPONSES: [&str; 3] = [
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"m\",\"status\":\"in_progress\"}}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hi\"}\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"m\",\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\"}]}],\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\n\n",
];
const MESSAGES: [&str; 4] = [
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":4}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
];
const JSON: [&str; 1] = [
    "{\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}",
];

#[test]
fn an_event_costs_no_allocation() {
    let streams = [
        ("/v1/chat/completions", &CHAT[..], false),
        ("/v1/chat/completions", &CHAT[..], true),
        ("/v1/responses", &RESPONSES[..], false),
        ("/v1/messages", &MESSAGES[..], false),
    ];
    for (path, frames, hide) in streams {
        let of = |times| count(&Recorded { kind: "text/event-stream", frames, times }, path, hide);
        of(1);
        let (few, many) = (of(10), of(1_010));
        println!("{path} hide={hide}: {few} allocations with 10 deltas, {many} with 1010");
        assert!(few <= 24, "{path} {hide}: {few}");
        assert_eq!(few, many, "{path} {hide}");
    }
}

#[test]
fn a_json_answer_costs_a_few() {
    let recorded = Recorded { kind: "application/json", frames: &JSON, times: 0 };
    count(&recorded, "/v1/chat/completions", false);
    let allocations = count(&recorded, "/v1/chat/completions", false);
    println!("a JSON answer: {allocations} allocations");
    assert!(allocations <= 16, "{allocations}");
}

#[test]
fn a_free_permit_costs_no_allocation() {
    use tower_belay::{BulkheadConfig, BulkheadLayer, Call, classify_fn};

    let call = Call::to("llm").agent("researcher");
    let inner = tower::service_fn(|n: u32| std::future::ready(Ok::<_, Infallible>(n)));
    let mut service =
        BulkheadLayer::new(BulkheadConfig::default()).classifier(classify_fn(move |_: &u32| call.clone())).layer(inner);
    let mut ask = |n| {
        assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(ready(service.call(n)).expect("an answer"), n);
    };
    ask(0);
    let before = alloc::count();
    (1..100).for_each(ask);
    assert_eq!(alloc::count() - before, 0);
}

#[test]
fn a_call_within_its_rate_costs_no_allocation_and_neither_does_one_without() {
    use tower_belay::{Call, RateLimitConfig, RateLimitLayer, classify_fn};

    let rate = RateLimitConfig::default().requests_per_minute(100_000).tokens_per_minute(10_000_000);
    for config in [rate, RateLimitConfig::off()] {
        let inner = tower::service_fn(|n: u32| std::future::ready(Ok::<_, Infallible>(n)));
        let call = Call::to("llm").operation("m").estimate(10);
        let mut limited = RateLimitLayer::new(config).classifier(classify_fn(move |_: &u32| call.clone())).layer(inner);
        let mut ask = || {
            ready(std::future::poll_fn(|cx| limited.poll_ready(cx))).expect("ready");
            ready(limited.call(7)).expect("an answer")
        };
        ask();
        let before = alloc::count();
        (0..100).for_each(|_| assert_eq!(ask(), 7));
        assert_eq!(alloc::count() - before, 0);
    }
}

#[test]
fn a_reservation_costs_no_allocation_once_its_run_is_known() {
    use tower_belay::{
        Budget, Call, TokenBudgetLayer, classify_fn,
        token_budget::{Estimated, Limits, Price, PriceTable, estimate_fn},
    };

    let runs = ["1", "2"].map(|run| Call::to("llm").operation("m").tenant("t").agent("a").run(run));
    let all = Limits::default().tokens(u64::MAX).nano_dollars(u64::MAX).wall_time(std::time::Duration::from_secs(600));
    let prices = PriceTable::default().model("m", Price::new(1_000, 2_000));
    let mut service = TokenBudgetLayer::new(Budget::default().run(all).agent(all).tenant(all).prices(prices))
        .classifier(classify_fn(move |run: &usize| runs[*run].clone()))
        .estimate(estimate_fn(|_: &usize| Estimated::new(10, 20)))
        .layer(tower::service_fn(|run: usize| std::future::ready(Ok::<_, Infallible>(run))));
    let mut call = |run| {
        assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
        ready(service.call(run)).expect("an answer")
    };
    assert_eq!((call(0), call(1)), (0, 1));
    let before = alloc::count();
    for n in 0..1_000 {
        call(n % 2);
        call(0);
    }
    assert_eq!(alloc::count() - before, 0);
}
