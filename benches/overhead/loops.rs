//! What the loop detector costs a call whose arguments are a kilobyte of JSON.
#![allow(clippy::disallowed_types)] // The real clock is what a benchmark reads.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use tower::{Layer, Service, service_fn};
use tower_belay::{Call, Effect, LoopDetectorLayer, LoopPolicy, ToolCall, ToolOutput};

use crate::alloc;

const CALLS: usize = 20_000;

/// Prints the cost of a call above the bare service, each call with arguments of its own.
pub(crate) fn report() {
    let call = Call::to("search").tenant("acme").run("run 7").effect(Effect::ReadOnly);
    let requests: Vec<ToolCall> = (0..256).map(|n| request(n).with_call(call.clone())).collect();
    let bare = || service_fn(answer);
    let mut watched = LoopDetectorLayer::new(LoopPolicy::default()).layer(bare());
    let mut rounds: Vec<(f64, f64)> = (0..15)
        .map(|_| {
            let (bare_nanos, bare_allocations) = time(&mut bare(), &requests);
            let (nanos, allocations) = time(&mut watched, &requests);
            (nanos - bare_nanos, allocations - bare_allocations)
        })
        .collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (nanos, allocations) = rounds[rounds.len() / 2];
    println!("loops: per_call_ns={nanos:.0} allocs={allocations:.2}");
}

fn answer(request: ToolCall) -> Ready<Result<ToolOutput, Infallible>> {
    ready(Ok(ToolOutput::new(request.id)))
}

/// Another line of a file each time, and a kilobyte.
fn request(n: usize) -> ToolCall {
    let lines: Vec<String> =
        (0..14).map(|at| format!("    let value_{at} = read(\\\"input {at} of {n}\\\")?;\\n")).collect();
    let arguments = format!(
        r#"{{"path":"src/module_{n}.rs","edits":[{{"at":{n},"insert":"{}"}}],"options":{{"check":true,"retries":2,"ratio":0.75}}}}"#,
        lines.concat()
    );
    ToolCall::new(format!("call_{n}"), "edit", arguments)
}

fn time<S>(service: &mut S, requests: &[ToolCall]) -> (f64, f64)
where
    S: Service<ToolCall, Response = ToolOutput>,
{
    // Made before the clock runs: copying a request is not what is measured.
    let copies: Vec<ToolCall> = requests.iter().cycle().take(CALLS).cloned().collect();
    let mut cx = Context::from_waker(Waker::noop());
    let (before, begun) = (alloc::count(), Instant::now());
    for request in copies {
        let _ = service.poll_ready(&mut cx);
        let answered = pin!(service.call(request)).poll(&mut cx);
        assert!(matches!(black_box(answered), Poll::Ready(Ok(_))));
    }
    let nanos = begun.elapsed().as_nanos() as f64 / CALLS as f64;
    (nanos, (alloc::count() - before) as f64 / CALLS as f64)
}
