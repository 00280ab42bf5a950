use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::time::advance;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_test::mock;

use super::*;
use crate::{
    amend::{Amendment, FinishUp, amend_fn},
    body::WatchedBody,
    call::{Call, Effect, Scope},
    classify::{Auto, ClassifyFn, Judge, classify_fn, classify_http},
    error::{Error, Failure, Refusal, Rejected},
    events::Event,
    reason::Reason,
    testing::{BodyScript, Scripted, Step},
    verdict::{Usage, Verdict},
};

mod calls;
mod runs;
mod soft;

/// A request: whose it is, what it may use, and what it does use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ask {
    run: &'static str,
    agent: &'static str,
    tenant: &'static str,
    max: u64,
    uses: Option<u64>,
    has_tools: bool,
}

const ASK: Ask = Ask { run: "r", agent: "a", tenant: "t", max: 100, uses: Some(50), has_tools: true };

fn of(ask: &Ask) -> Call {
    Call::to("llm").operation("m").run(ask.run).agent(ask.agent).tenant(ask.tenant).effect(Effect::ReadOnly)
}

fn run() -> Call {
    of(&ASK)
}

fn used(output: u64) -> Usage {
    Usage { input_tokens: Some(0), output_tokens: Some(output), output_includes_reasoning: true, ..Usage::default() }
}

type ByAsk = ClassifyFn<Ask, fn(&Ask) -> Call, Judge<Ask, fn(&Ask) -> Verdict>>;
type Measured = EstimateFn<fn(&Ask) -> Estimated>;

fn by_ask() -> ByAsk {
    let names: fn(&Ask) -> Call = of;
    let judge: fn(&Ask) -> Verdict = |ask| Verdict::completed().with_usage(ask.uses.map(used));
    classify_fn(names).judge(judge)
}

fn layer(budget: Budget) -> TokenBudgetLayer<ByAsk, crate::amend::NoAmend, Measured> {
    layer_of(&BudgetHandle::new(budget))
}

fn layer_of(handle: &BudgetHandle) -> TokenBudgetLayer<ByAsk, crate::amend::NoAmend, Measured> {
    let measured: fn(&Ask) -> Estimated = |ask| Estimated::new(0, ask.max);
    TokenBudgetLayer::with_handle(handle).classifier(by_ask()).estimate(estimate_fn(measured))
}

fn tokens(limit: u64) -> Budget {
    Budget::default().run(Limits::default().tokens(limit)).least_answer(64)
}

/// Answers with what it was asked.
fn echo() -> Scripted<Ask, Ask> {
    Scripted::by(|ask: &Ask| Step::answer(*ask))
}

fn code<T>(answer: Result<T, Error>) -> Option<Refusal> {
    answer.err().and_then(|error| error.rejected().map(Rejected::code))
}

fn spent(handle: &BudgetHandle) -> u64 {
    handle.run(&run()).map_or(0, |run| run.spent.tokens)
}

fn reserved(handle: &BudgetHandle) -> u64 {
    handle.run(&run()).map_or(0, |run| run.reserved.tokens)
}
