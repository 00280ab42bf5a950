//! What went wrong with budgets elsewhere, and does not here. Each test is named for the number of its report.
#![cfg(feature = "wire")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_belay::{
    Budget, BudgetHandle, Call, Effect, ProviderConfig, ProviderLayer, Refusal, RetryLayer, RetryPolicy,
    TokenBudgetLayer, WatchedBody,
    classify::{ClassifyHttp, RequestHead},
    classify_http,
    testing::BodyScript,
    token_budget::{Amount, Balance, Dimension, Limits, Price, PriceTable},
    wire::LlmAmend,
};

type Named = ClassifyHttp<fn(&RequestHead<'_>, Call) -> Call>;

fn named() -> Named {
    classify_http(|_, call| call.run("7").tenant("acme").effect(Effect::ReadOnly))
}

fn run() -> Call {
    Call::new().run("7").tenant("acme")
}

/// Ten tokens of input, and at most a hundred of output.
fn ask() -> Request<String> {
    let body = r#"{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}"#;
    Request::post("https://api.openai.com/v1/chat/completions").body(body.to_owned()).expect("a request")
}

fn tokens(limit: u64) -> Budget {
    Budget::default().run(Limits::default().tokens(limit))
}

fn balance(handle: &BudgetHandle) -> Balance {
    handle.run(&run()).expect("an account")
}

fn answer(output: u64) -> Response<WatchedBody> {
    let body = format!(
        r#"{{"choices":[{{"index":0,"message":{{"content":"Hi"}},"finish_reason":"stop"}}],
        "usage":{{"prompt_tokens":10,"completion_tokens":{output},"total_tokens":{}}}}}"#,
        10 + output
    );
    Response::new(WatchedBody::from(body))
}

fn provider() -> ProviderLayer<Named> {
    ProviderLayer::new(ProviderConfig::default()).classifier(named())
}

/// BerriAI/litellm#34732: calls at the same time all saw the same room, and all were let through.
#[tokio::test(start_paused = true)]
async fn reported_36_calls_at_the_same_time_cannot_spend_the_same_room() {
    let budget = TokenBudgetLayer::new(tokens(1_000)).classifier(named());
    let handle = budget.handle();
    let model = ServiceBuilder::new().layer(budget).layer(provider()).service(service_fn(|_: Request<String>| async {
        sleep(Duration::from_secs(1)).await;
        Ok::<_, BoxError>(answer(100))
    }));
    let answers = join_all((0..100).map(|_| model.clone().oneshot(ask()))).await;
    let sent = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
    let balance = balance(&handle);
    assert_eq!(balance.spent, Amount::tokens(10 * sent, 100 * sent));
    assert!(balance.spent.tokens <= 1_000 && sent >= 7, "{balance:?}");
    assert_eq!(balance.reserved, Amount::default());
}

/// BerriAI/litellm#30522: a cancelled call kept its reservation for ever.
#[tokio::test(start_paused = true)]
async fn reported_37_a_cancelled_call_is_booked_and_holds_nothing() {
    let layer = TokenBudgetLayer::new(Budget::off()).classifier(named());
    let handle = layer.handle();
    let model =
        layer.layer(service_fn(|_: Request<String>| std::future::pending::<Result<Response<String>, BoxError>>()));
    for _ in 0..10 {
        assert!(timeout(Duration::from_secs(1), model.clone().oneshot(ask())).await.is_err());
    }
    let balance = balance(&handle);
    assert_eq!((balance.reserved, balance.spent.output_tokens), (Amount::default(), 1_000));
    assert_eq!(balance.uncertain, balance.spent, "it may have been answered, and nobody knows with how much");
}

/// mozilla-ai/otari#128: an error before the first byte left its reservation behind.
#[tokio::test(start_paused = true)]
async fn reported_38_an_error_before_the_first_byte_gives_back_what_was_reserved() {
    let refused = || Err(BoxError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)));
    let status = |status| Ok(Response::builder().status(status).body(WatchedBody::empty()).expect("a response"));
    let script = [refused(), status(429), status(400), status(503)];
    for outcome in script {
        let layer = TokenBudgetLayer::new(tokens(1_000)).classifier(named());
        let handle = layer.handle();
        let outcome = Arc::new(Mutex::new(Some(outcome)));
        let model =
            ServiceBuilder::new().layer(layer).layer(provider()).service(service_fn(move |_: Request<String>| {
                let outcome = outcome.lock().expect("no panic").take().expect("one call");
                async { outcome }
            }));
        let _ = model.oneshot(ask()).await;
        assert_eq!((balance(&handle).reserved, balance(&handle).spent), (Amount::default(), Amount::default()));
    }
}

/// BerriAI/litellm#35568: of a stream that broke off, everything was given back.
#[tokio::test(start_paused = true)]
async fn reported_39_a_stream_that_breaks_off_is_not_free() {
    for reader_leaves in [true, false] {
        let layer = TokenBudgetLayer::new(tokens(1_000)).classifier(named());
        let handle = layer.handle();
        let model =
            ServiceBuilder::new().layer(layer).layer(provider()).service(service_fn(|_: Request<String>| async {
                let event = r#"data: {"choices":[{"index":0,"delta":{"content":"A long answer"}}]}"#;
                let stream = BodyScript::new().data(format!("{event}\n\n")).data(format!("{event}\n\n")).fail("reset");
                let response = Response::builder().header("content-type", "text/event-stream").body(stream);
                Ok::<_, BoxError>(response.expect("a response"))
            }));
        let mut body = model.oneshot(ask()).await.expect("a head").into_body();
        if reader_leaves {
            assert!(body.frame().await.is_some());
            drop(body);
        } else {
            assert!(body.collect().await.is_err(), "it was cut");
        }
        let balance = balance(&handle);
        assert_eq!((balance.spent.output_tokens, balance.reserved), (100, Amount::default()));
        assert_eq!(balance.uncertain, balance.spent);
    }
}

/// BerriAI/litellm#37992: a budget of 0 was taken for none.
#[tokio::test]
async fn reported_40_a_budget_of_nothing_lets_nothing_through() {
    for (limits, passes) in
        [(Limits::default(), true), (Limits::default().tokens(0), false), (Limits::default().nano_dollars(0), false)]
    {
        let prices = PriceTable::default().model("m", Price::new(0, 0));
        let layer = TokenBudgetLayer::new(Budget::default().tenant(limits).prices(prices)).classifier(named());
        let model = layer.layer(service_fn(|_: Request<String>| async { Ok::<_, BoxError>(answer(1)) }));
        assert_eq!(model.oneshot(ask()).await.is_ok(), passes, "{limits:?}");
    }
    let zero: Budget = toml::from_str("[run]\ntokens = 0").expect("a budget");
    assert_eq!((zero.run.tokens, zero.run.steps), (Some(0), None));
}

/// langchain-ai/langchainjs#10159: usage that a stream states cumulatively was added up.
#[tokio::test]
async fn reported_41_of_cumulative_usage_the_last_counts() {
    let layer = TokenBudgetLayer::new(Budget::off()).classifier(named());
    let handle = layer.handle();
    let model = ServiceBuilder::new().layer(layer).layer(provider()).service(service_fn(|_: Request<String>| async {
        let chunk = |output: u64, finish: &str| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}},\"finish_reason\":{finish}}}],\
                 \"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{output},\"total_tokens\":{}}}}}\n\n",
                10 + output
            )
        };
        let stream = BodyScript::new().data(chunk(5, "null")).data(chunk(20, "null")).data(chunk(30, "\"stop\""));
        let response = Response::builder().header("content-type", "text/event-stream");
        Ok::<_, BoxError>(response.body(stream.data("data: [DONE]\n\n")).expect("a response"))
    }));
    let body = model.oneshot(ask()).await.expect("a head").into_body();
    body.collect().await.expect("a whole answer");
    let balance = balance(&handle);
    assert_eq!((balance.spent, balance.uncertain), (Amount::tokens(10, 30), Amount::default()));
}

/// garrytan/gbrain#2149: a model without a price passed every cap on money.
#[tokio::test]
async fn reported_42_a_model_without_a_price_is_refused_where_money_is_limited() {
    let budget = Budget::default()
        .tenant(Limits::default().nano_dollars(1_000_000))
        .prices(PriceTable::default().model("another", Price::new(1, 1)));
    let model = TokenBudgetLayer::new(budget)
        .classifier(named())
        .layer(service_fn(|_: Request<String>| async { Ok::<_, BoxError>(answer(1)) }));
    let refused = model.oneshot(ask()).await.expect_err("nobody knows what it costs");
    assert_eq!(refused.rejected().map(|rejected| rejected.code()), Some(Refusal::Unpriced));
}

/// pydantic/pydantic-ai-harness#588: a child did not know of its parent's limit.
#[tokio::test]
async fn reported_43_a_child_spends_its_parents_budget() {
    let handle = BudgetHandle::new(tokens(400));
    let child = |_: &RequestHead<'_>, call: Call| call.run("7.1").tenant("acme").effect(Effect::ReadOnly);
    handle.sub(&run(), &run().run("7.1"), Limits::default()).expect("a new run");
    let model = ServiceBuilder::new()
        .layer(TokenBudgetLayer::with_handle(&handle).classifier(classify_http(child)))
        .layer(ProviderLayer::new(ProviderConfig::default()).classifier(classify_http(child)))
        .service(service_fn(|_: Request<String>| async { Ok::<_, BoxError>(answer(100)) }));
    let mut sent = 0;
    while model.clone().oneshot(ask()).await.is_ok() {
        sent += 1;
        assert!(sent < 10, "the child has no limit of its own");
    }
    let balance = balance(&handle);
    assert_eq!(balance.spent, Amount::tokens(10 * sent, 100 * sent));
    assert!(balance.remaining(Dimension::Tokens).is_some_and(|left| left >= 0));
}

/// OpenHands/software-agent-sdk#2406: a run was cut off without a word; its work was lost.
#[tokio::test]
async fn reported_45_a_run_is_asked_for_its_results_before_it_is_stopped() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = bodies.clone();
    let budget = TokenBudgetLayer::new(tokens(1_000)).classifier(named()).amend(LlmAmend::new());
    let model = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()).classifier(named()))
        .layer(budget)
        .layer(provider())
        .service(service_fn(move |request: Request<String>| {
            seen.lock().expect("no panic").push(request.into_body());
            async { Ok::<_, BoxError>(answer(100)) }
        }));
    let work = || {
        let tools =
            r#"{"model":"m","max_tokens":100,"tools":[{"type":"function","function":{"name":"f"}}],"messages":[]}"#;
        ask().map(|_| tools.to_owned())
    };
    let mut refused = None;
    for _ in 0..12 {
        if let Err(error) = model.clone().oneshot(work()).await {
            refused = Some(error);
            break;
        }
    }
    let bodies = bodies.lock().expect("no panic");
    let (last, before) = bodies.split_last().expect("some were sent");
    assert!(before.iter().any(|body| body.contains("tools")));
    assert!(!last.contains("\"tools\"") && last.contains("Summarise now"), "{last}");
    let refused = refused.expect("it ends");
    let rejected = refused.rejected().expect("a refusal");
    assert_eq!(rejected.code(), Refusal::BudgetSpent);
    assert!(rejected.model_text().ends_with("Stop, and report this."), "{}", rejected.model_text());
}
