//! Retry, bulkhead and breaker in one stack, keyed, around a tool in process; and what it costs to change a request.

use std::hint::black_box;

use bytes::Bytes;
use http::Request;
use tower::{Layer, Service};
use tower_belay::{
    BulkheadConfig, BulkheadLayer, Effect, Reason, SemanticBreakerLayer, TripCard,
    amend::{Amend, Amendment},
    classify::{Classifier, classify_fn},
    retry::{RetryLayer, RetryPolicy},
    wire::LlmAmend,
};

use crate::breakers::{Budget, OverTool, Tool, ToolAsk, kept};
use crate::harness::{Caller, Cost, Effort, Subject, measure, shown};

const EFFORT: Effort = Effort { rounds: 201, iterations: 2_000 };
const AMEND_EFFORT: Effort = Effort { rounds: 21, iterations: 200 };

/// Above `stack3_bare`: allocations and instructions a call.
const BUDGETS: &[Budget] = &[("stack3", 0.0, 1_200.0), ("stack3_write", 0.0, 1_400.0)];

pub(crate) fn subjects() -> Vec<Box<dyn Subject>> {
    vec![
        OverTool::boxed("stack3_bare", Effect::ReadOnly, Tool),
        OverTool::boxed("stack3", Effect::ReadOnly, stack()),
        OverTool::boxed("stack3_write", Effect::Sensitive, stack()),
        OverTool::boxed("stack3_retry", Effect::ReadOnly, retry(Tool)),
        OverTool::boxed("stack3_bulkhead", Effect::ReadOnly, bulkhead(Tool)),
        OverTool::boxed("stack3_tower_resilience", Effect::ReadOnly, tower_resilience()),
    ]
}

pub(crate) fn amending() -> Vec<Box<dyn Subject>> {
    vec![Box::new(Amending)]
}

/// Prints the lines, and says whether the [`BUDGETS`] were kept.
pub(crate) fn report() -> bool {
    let subjects = subjects();
    println!("\nretry(bulkhead(breaker)), one hot key, a request of two words; every figure but the first is above it");
    println!("{:<30} {:>8} {:>10} {:>7} {:>13}", "", "ns", "contended", "allocs", "instructions");
    let mut costs: Vec<(String, Cost)> = Vec::new();
    for (i, (subject, (own, above))) in subjects.iter().zip(measure(&subjects, EFFORT, true)).enumerate() {
        let Cost { nanos, contended, allocations, instructions } = if i == 0 { own } else { above };
        let (contended, instructions) = (shown(contended, 1), shown(instructions, 0));
        println!("{:<30} {nanos:>8.1} {contended:>10} {allocations:>7.1} {instructions:>13}", subject.name());
        costs.push((subject.name().to_owned(), above));
    }
    let cost = |name: &str| costs.iter().find(|(known, _)| known == name).map(|(_, cost)| *cost);
    let (ours, theirs) = (cost("stack3"), cost("stack3_tower_resilience"));
    println!(
        "stack3: ours={} tower_resilience={} ratio={} allocs={} instructions={} contended={} \
         tower_resilience_allocs={} tower_resilience_instructions={} tower_resilience_contended={}",
        shown(ours.map(|c| c.nanos), 1),
        shown(theirs.map(|c| c.nanos), 1),
        shown(ours.zip(theirs).map(|(ours, theirs)| ours.nanos / theirs.nanos), 2),
        shown(ours.map(|c| c.allocations), 0),
        shown(ours.and_then(|c| c.instructions), 0),
        shown(ours.and_then(|c| c.contended), 1),
        shown(theirs.map(|c| c.allocations), 0),
        shown(theirs.and_then(|c| c.instructions), 0),
        shown(theirs.and_then(|c| c.contended), 1),
    );
    let amend = measure(&amending(), AMEND_EFFORT, false)[0].0;
    println!("amend: ns={:.0} allocs={:.0}", amend.nanos, amend.allocations);

    kept(BUDGETS, cost)
}

// ===== ours =====

/// Every layer asks the same closures: what the call is, and what came of it.
fn named() -> impl Classifier<ToolAsk, u64, Response = u64> + Clone + Send + Sync {
    let judge = |answer: &u64| if *answer == u64::MAX { Reason::EmptyAnswer } else { Reason::Completed };
    classify_fn(|ask: &ToolAsk| ask.0.clone()).replay_clones().judge(judge)
}

fn retry<S>(inner: S) -> impl Service<ToolAsk, Response = u64> + Clone + Send + Sync + use<S>
where
    S: Service<ToolAsk, Response = u64, Future: Send, Error: Into<tower::BoxError>> + Clone + Send + Sync + 'static,
{
    RetryLayer::new(RetryPolicy::default()).classifier(named()).layer(inner)
}

fn bulkhead(inner: Tool) -> impl Service<ToolAsk, Response = u64> + Clone + Send + Sync {
    BulkheadLayer::new(BulkheadConfig::default()).classifier(named()).layer(inner)
}

fn stack() -> impl Service<ToolAsk, Response = u64> + Clone + Send + Sync {
    let breaker = SemanticBreakerLayer::new(TripCard::default()).classifier(named()).layer(Tool);
    retry(BulkheadLayer::new(BulkheadConfig::default()).classifier(named()).layer(breaker))
}

/// Changes a request for a model after an answer that was not good enough.
struct Amending;

impl Subject for Amending {
    fn name(&self) -> &str {
        "amend"
    }

    fn caller(&self) -> Caller {
        let text = "Say it again, in other words, and keep to the facts. ".repeat(19);
        let message = |role: &str| format!(r#"{{"role":"{role}","content":"{text}"}}"#);
        let messages = [message("system"), message("user"), message("assistant"), message("user")].join(",");
        let body = format!(r#"{{"model":"m","max_tokens":100,"messages":[{messages}]}}"#);
        let request =
            Request::post("https://api.openai.com/v1/chat/completions").body(Bytes::from(body)).expect("a request");
        let (amend, warn) = (LlmAmend::new(), Amendment::Warn("The last answer did not match its schema.".to_owned()));
        Box::new(move |times| {
            for _ in 0..times {
                assert!(black_box(amend.amend(black_box(&request), &warn)).is_some(), "it can be changed");
            }
        })
    }
}

// ===== the peer =====

/// Its three layers by their defaults, around one service: it has no keys.
fn tower_resilience() -> impl Service<ToolAsk, Response = u64> + Clone + Send + Sync {
    use tower_resilience::{
        bulkhead::{BulkheadLayer, BulkheadServiceError},
        circuitbreaker::{CircuitBreakerError, CircuitBreakerLayer},
        retry::RetryLayer,
    };
    type PeerError = CircuitBreakerError<BulkheadServiceError<std::convert::Infallible>>;

    let bulkhead = BulkheadLayer::builder().build().expect("the defaults are valid");
    let (breaker, _) = CircuitBreakerLayer::builder().build_with_handle().expect("the defaults are valid");
    let retry = RetryLayer::<ToolAsk, u64, PeerError>::builder().build();
    retry.layer(breaker.layer(bulkhead.layer(Tool)))
}
