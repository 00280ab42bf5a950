use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use http_body_util::BodyExt;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn, util::BoxCloneSyncService};

use super::*;
use crate::{
    body::WatchedBody,
    call::{Call, Effect},
    classify::{Auto, RequestHead, classify_http},
    error::{Error, Failure, Refusal, Rejected},
    lock::lock,
    provider::{Delivery, ProviderConfig, ProviderLayer},
    reason::{Class, Reason},
    retry::{RetryLayer, RetryPolicy},
    semantic_breaker::{Quality, SemanticBreakerLayer, TripCard},
    testing::BodyScript,
    verdict::{Usage, Verdict},
    violation::{Violation, Violations},
    wire::LlmAmend,
};

type Model = BoxCloneSyncService<Request<String>, Response<WatchedBody>, Error>;

type Server = BoxCloneSyncService<Request<String>, Response<WatchedBody>, Infallible>;

const CHAT: &str = "https://api.example/v1/chat/completions";

fn ask() -> Request<String> {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#;
    Request::post(CHAT).body(body.to_owned()).expect("a request")
}

fn says(text: &str) -> String {
    let usage = r#"{"prompt_tokens":3,"completion_tokens":4}"#;
    let text = serde_json::Value::from(text);
    format!(r#"{{"choices":[{{"index":0,"message":{{"content":{text}}},"finish_reason":"stop"}}],"usage":{usage}}}"#)
}

fn streams(text: &str) -> String {
    let mut stream = String::new();
    for piece in text.split_inclusive(' ') {
        let piece = serde_json::Value::from(piece);
        stream.push_str(&format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{piece}}}}}]}}\n\n"));
    }
    stream + "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
}

/// A model that answers with `body`, behind a validator.
fn model(validator: impl Validate, delivery: Delivery, body: impl Into<WatchedBody>) -> Model {
    let body = Mutex::new(Some(body.into()));
    let inner = service_fn(move |_: Request<String>| {
        let body = lock(&body).take().expect("asked once");
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let inner = Arc::new(Mutex::new(inner));
    let inner = service_fn(move |request| lock(&inner).call(request));
    let stack = ServiceBuilder::new()
        .layer(SemanticValidatorLayer::new(validator))
        .layer(ProviderLayer::new(ProviderConfig::default().delivery(delivery)))
        .service(inner);
    BoxCloneSyncService::new(stack)
}

async fn read(model: Model) -> Result<(String, Option<Verdict>), Error> {
    let mut body = model.oneshot(ask()).await?.into_body();
    let mut text = String::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            text.push_str(std::str::from_utf8(&data).expect("text"));
        }
    }
    Ok((text, body.verdict()))
}

fn reason(result: Result<(String, Option<Verdict>), Error>) -> Option<Reason> {
    result.err().and_then(|error| error.failure().map(Failure::reason))
}

#[tokio::test(start_paused = true)]
async fn a_valid_answer_passes_as_it_came_and_an_invalid_one_is_not_handed_on() {
    for (delivery, form) in
        [(Delivery::Live, says as fn(&str) -> String), (Delivery::Whole, says), (Delivery::Whole, streams)]
    {
        let (good, bad) = (form("[1, 2]"), form("one and two"));
        assert_eq!(read(model(JsonText, delivery, good.clone())).await.expect("valid").0, good);
        let failed = model(JsonText, delivery, bad).oneshot(ask()).await.expect_err("not handed on");
        let failure = failed.failure().expect("judged");
        assert_eq!((failure.reason(), failure.verdict.class()), (Reason::SchemaViolation, Class::Malformed));
        assert!(failure.verdict.note().is_some_and(|note| note.contains("JSON") && !note.contains("one and two")));
        assert!(failed.find::<Violations>().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn the_tokens_of_an_invalid_answer_are_not_lost() {
    let failed = model(JsonText, Delivery::Live, says("prose")).oneshot(ask()).await.expect_err("prose");
    let usage = failed.failure().and_then(|failure| failure.verdict.usage());
    assert_eq!(usage.and_then(|usage: Usage| usage.output_tokens), Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_live_stream_is_an_error_at_its_end_wherever_it_is_split() {
    let (good, bad) = (streams("[1, 2]"), streams("one and two"));
    for at in 1..bad.len() {
        let split = |text: &str| {
            let (first, rest) = text.as_bytes().split_at(at.min(text.len()));
            let script = BodyScript::new().data(first.to_vec()).pause(Duration::from_millis(1)).data(rest.to_vec());
            WatchedBody::new(script)
        };
        let answer = match model(JsonText, Delivery::Live, split(&bad)).oneshot(ask()).await {
            Ok(answer) => answer,
            // All of it had come before it was handed on.
            Err(error) => {
                assert_eq!(error.failure().map(Failure::reason), Some(Reason::SchemaViolation), "split at {at}");
                assert!(bad[..at].contains("DONE") || !bad[..at].contains("two"), "split at {at}");
                continue;
            }
        };
        let mut body = answer.into_body();
        let (mut text, mut ended) = (Vec::new(), None);
        while let Some(frame) = body.frame().await {
            assert!(ended.is_none(), "nothing comes behind the error");
            match frame {
                Ok(frame) => text.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Err(error) => ended = error.failure().map(Failure::reason),
            }
        }
        assert_eq!((ended, text == bad.as_bytes()), (Some(Reason::SchemaViolation), true), "split at {at}");
        assert_eq!(body.verdict().map(|verdict| verdict.reason), Some(Reason::SchemaViolation));
        assert_eq!(read(model(JsonText, Delivery::Live, split(&good))).await.expect("valid").0, good);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_trusts_the_end_of_the_stream_still_hears_of_the_error() {
    let (first, rest) = ("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"}}]}\n\n", streams("and two"));
    let stream = WatchedBody::new(BodyScript::new().data(first).pause(Duration::from_secs(1)).data(rest));
    let mut body = model(JsonText, Delivery::Live, stream).oneshot(ask()).await.expect("under way").into_body();
    while !http_body::Body::is_end_stream(&body) {
        match body.frame().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return assert!(error.failure().is_some()),
            None => break,
        }
    }
    panic!("the end was clean");
}

#[tokio::test(start_paused = true)]
async fn of_two_layers_around_a_live_stream_both_look_at_it() {
    for (outer_passes, inner_passes) in [(true, true), (true, false), (false, true)] {
        let says = |passes: bool| {
            validate_fn(move |_: &Answered<'_>| match passes {
                true => Ok(()),
                false => Err(Violations::new(Reason::SchemaViolation, vec![Violation::new("", "test", "No")])),
            })
        };
        let inner = service_fn(|_: Request<String>| {
            let (first, rest) = (
                streams("one ").split_once("data: {\"choices\":[{\"index\":0,\"delta\":{},").map(|it| it.0.to_owned()),
                streams("two"),
            );
            let script = BodyScript::new().data(first.expect("a piece")).pause(Duration::from_secs(1)).data(rest);
            std::future::ready(Ok::<_, Infallible>(Response::new(WatchedBody::new(script))))
        });
        let stack = ServiceBuilder::new()
            .layer(SemanticValidatorLayer::new(says(outer_passes)))
            .layer(SemanticValidatorLayer::new(says(inner_passes)))
            .layer(ProviderLayer::new(ProviderConfig::default()))
            .service(inner);
        let read = read(BoxCloneSyncService::new(stack)).await;
        assert_eq!(read.is_ok(), outer_passes && inner_passes, "{outer_passes} {inner_passes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_or_cut_is_not_looked_at() {
    let looks = Arc::new(Mutex::new(0));
    let counted = looks.clone();
    let counts = validate_fn(move |_: &Answered<'_>| {
        *lock(&counted) += 1;
        Ok(())
    });
    let counts = Arc::new(counts);
    let half = streams("one and two").split_at(70).0.to_owned();
    let stream = || WatchedBody::new(BodyScript::new().data(half.clone()).pause(Duration::from_secs(1)));
    let mut body = model(counts.clone(), Delivery::Live, stream()).oneshot(ask()).await.expect("under way").into_body();
    assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
    drop(body);
    drop(model(counts.clone(), Delivery::Live, says("x")).oneshot(ask()));
    assert_eq!(reason(read(model(counts, Delivery::Live, stream())).await), Some(Reason::Cut));
    assert_eq!(*lock(&looks), 0);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_fails_where_a_model_was_asked_and_only_there() {
    let encoded = |uri: &str| {
        let inner = service_fn(|_: Request<String>| {
            let response = Response::builder().header("content-encoding", "br").body(WatchedBody::from("?".to_owned()));
            std::future::ready(Ok::<_, Infallible>(response.expect("a response")))
        });
        let stack = ServiceBuilder::new()
            .layer(SemanticValidatorLayer::new(JsonText))
            .layer(ProviderLayer::new(ProviderConfig::default()))
            .service(inner);
        let request = Request::post(uri).body(String::new()).expect("a request");
        async move {
            let body = stack.oneshot(request).await?.into_body();
            body.collect().await.map(|collected| collected.to_bytes().len())
        }
    };
    let failed = encoded(CHAT).await.expect_err("it cannot be vouched for");
    assert_eq!(failed.failure().map(Failure::reason), Some(Reason::Unparsable));
    assert_eq!(encoded("https://api.example/v1/files").await.ok(), Some(1));

    // Nobody reads answers: the layer stands alone.
    let alone = SemanticValidatorLayer::new(JsonText).layer(service_fn(|_: Request<String>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(WatchedBody::judged("[]".into(), Verdict::completed()))))
    }));
    assert!(alone.oneshot(ask()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_error_status_keeps_its_verdict() {
    let inner = service_fn(|_: Request<String>| {
        let response = Response::builder().status(503).body(WatchedBody::from("down".to_owned()));
        std::future::ready(Ok::<_, Infallible>(response.expect("a response")))
    });
    let stack = ServiceBuilder::new()
        .layer(SemanticValidatorLayer::new(JsonText))
        .layer(ProviderLayer::new(ProviderConfig::default()))
        .service(inner);
    let answer = stack.oneshot(ask()).await.expect("an answer");
    assert_eq!(answer.body().verdict().map(|verdict| verdict.class()), Some(Class::Failed));
}

/// A model that answers with each of `bodies` in turn, and what it was asked.
fn in_turn(bodies: &[String]) -> (Server, Arc<Mutex<Vec<String>>>) {
    let (asked, bodies) = (Arc::new(Mutex::new(Vec::new())), Arc::new(bodies.to_vec()));
    let seen = asked.clone();
    let service = service_fn(move |request: Request<String>| {
        let mut seen = lock(&seen);
        let body = bodies[seen.len().min(bodies.len() - 1)].clone();
        seen.push(request.into_body());
        std::future::ready(Ok::<_, Infallible>(Response::new(WatchedBody::from(body))))
    });
    (BoxCloneSyncService::new(service), asked)
}

fn read_only()
-> impl crate::classify::Classifier<Request<String>, Response<WatchedBody>, Response = Response<WatchedBody>>
+ Clone
+ Send
+ Sync
+ 'static {
    classify_http(|_: &RequestHead<'_>, call: Call| call.effect(Effect::ReadOnly))
}

#[tokio::test(start_paused = true)]
async fn a_retry_feeds_back_what_was_wrong_and_its_answer_is_looked_at_again() {
    let (server, asked) = in_turn(&[says("prose"), says("still prose"), says("{}")]);
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()).classifier(read_only()).amend(LlmAmend::new()))
        .layer(SemanticValidatorLayer::new(JsonText))
        .layer(ProviderLayer::new(ProviderConfig::default()).classifier(Auto))
        .service(server);
    assert!(stack.oneshot(ask()).await.is_ok());
    let asked = lock(&asked);
    assert_eq!(asked.len(), 3);
    assert!(asked[1].contains("The answer must be one JSON value and nothing around it."), "{}", asked[1]);
    assert!(!asked[1].contains("prose"), "what the model wrote is not fed back");
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_as_degraded_after_five_invalid_answers_and_sends_no_more() {
    let (server, asked) = in_turn(&[says("prose")]);
    let stack = ServiceBuilder::new()
        .layer(SemanticBreakerLayer::new(TripCard::default()).classifier(read_only()))
        .layer(SemanticValidatorLayer::new(JsonText))
        .layer(ProviderLayer::new(ProviderConfig::default()))
        .service(server);
    for _ in 0..5 {
        let failed = stack.clone().oneshot(ask()).await.expect_err("invalid");
        assert_eq!(failed.failure().map(Failure::reason), Some(Reason::SchemaViolation));
    }
    let refused = stack.oneshot(ask()).await.expect_err("open");
    assert_eq!(refused.rejected().map(Rejected::code), Some(Refusal::Degraded));
    assert_eq!(lock(&asked).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_score_reaches_the_quality_rule_of_the_breaker() {
    struct Short;
    impl Validate for Short {
        fn validate(&self, _: &Answered<'_>) -> Result<(), Violations> {
            Ok(())
        }

        fn score(&self, answer: &Answered<'_>) -> Option<f64> {
            Some(answer.text.len() as f64 / 100.0)
        }
    }
    let (server, _) = in_turn(&[says("short")]);
    let card = TripCard { quality: Quality { enabled: true, ..Quality::default() }, ..TripCard::default() };
    let breaker = SemanticBreakerLayer::new(card).classifier(read_only());
    let stack = ServiceBuilder::new()
        .layer(breaker)
        .layer(SemanticValidatorLayer::new(Short))
        .layer(ProviderLayer::new(ProviderConfig::default()))
        .service(server);
    let mut refused = None;
    for _ in 0..200 {
        refused = stack.clone().oneshot(ask()).await.err().and_then(|error| error.rejected().map(Rejected::code));
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(refused, Some(Refusal::Degraded));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reports_and_lets_everything_pass() {
    let (server, _) = in_turn(&[says("prose")]);
    let layer = SemanticValidatorLayer::new(JsonText).dry_run();
    let stack = ServiceBuilder::new().layer(layer).layer(ProviderLayer::new(ProviderConfig::default())).service(server);
    assert!(stack.oneshot(ask()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn validators_are_put_together_and_a_closure_is_one() {
    let polite = validate_fn(|answer: &Answered<'_>| match answer.text.contains("please") {
        true => Ok(()),
        false => Err(Violations::new(Reason::SchemaViolation, vec![Violation::new("", "polite", "Say please")])),
    });
    let both = (BalancedFences, polite);
    assert!(read(model(both, Delivery::Live, says("```\nplease\n```"))).await.is_ok());
    for wrong in ["```\nplease", "no"] {
        assert_eq!(reason(read(model(both, Delivery::Live, says(wrong))).await), Some(Reason::SchemaViolation));
    }
    let list: Vec<Arc<dyn Validate>> = vec![Arc::new(JsonText), Arc::new(Density::new("a", 1.0))];
    assert!(!list.is_empty() && read(model(list, Delivery::Live, says("{}"))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn fences_and_densities_are_counted_as_people_do() {
    for (text, balanced) in [
        ("no code", true),
        ("`a` and ``` b ``` in a line", true),
        ("```rust\nfn a() {}\n```\n", true),
        ("````md\n```\ninside\n```\n````", true),
        ("~~~\n```\n~~~", true),
        ("```rust\nfn a() {}", false),
        ("```\na\n```\n```", false),
        ("````\n```", false),
    ] {
        assert_eq!(read(model(BalancedFences, Delivery::Live, says(text))).await.is_ok(), balanced, "{text}");
    }
    let words = |terms: usize| format!("{} {}", "telemetry, ".repeat(terms), "word ".repeat(1_000 - terms));
    let ceiling = Density::new("Telemetry", 6.0);
    assert!(read(model(ceiling.clone(), Delivery::Live, says(&words(6)))).await.is_ok());
    assert!(read(model(ceiling.clone(), Delivery::Live, says(&words(7)))).await.is_err());
    assert!(read(model(ceiling, Delivery::Live, says("telemetry"))).await.is_ok(), "one word is no density");
}

#[tokio::test(start_paused = true)]
async fn hostile_text_takes_bounded_time() {
    for text in ["`".repeat(1 << 20), "```\n".repeat(1 << 18), "\0".repeat(1 << 20), "[".repeat(1 << 20)] {
        let all = (JsonText, (BalancedFences, Density::new("a", 1.0)));
        assert!(read(model(all, Delivery::Whole, says(&text))).await.is_err());
    }
}

#[cfg(feature = "jsonschema")]
mod tools {
    use serde_json::json;

    use super::*;
    use crate::registry::{Registry, Tool};

    fn registry() -> Registry {
        let parameters =
            json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
        Registry::new([Tool::new("get_weather").parameters(parameters)]).expect("compiles")
    }

    fn calls(name: &str, arguments: &str) -> String {
        let call = json!({ "id": "c1", "type": "function", "function": { "name": name, "arguments": arguments } });
        json!({ "choices": [{ "index": 0, "message": { "content": null, "tool_calls": [call] }, "finish_reason": "tool_calls" }] })
            .to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_cannot_be_carried_out_is_not_handed_on() {
        for (name, arguments, expected) in [
            ("get_weather", r#"{"city":"Oslo"}"#, None),
            ("getWeather", r#"{"city":"Oslo"}"#, Some(Reason::UnknownTool)),
            ("get_weather", r#"{"city":"Os"#, Some(Reason::BadArguments)),
            ("get_weather", r#"{"town":"Oslo"}"#, Some(Reason::SchemaViolation)),
            ("get_weather", r#""{\"city\":\"Oslo\"}""#, Some(Reason::BadArguments)),
        ] {
            let answer = calls(name, arguments);
            assert_eq!(reason(read(model(registry(), Delivery::Live, answer)).await), expected, "{name} {arguments}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_plainly_meant_passes_where_somebody_mends_it() {
        let doubled = calls("get_weather", r#""{\"city\":\"Oslo\"}""#);
        assert!(read(model(Mending(registry()), Delivery::Live, doubled)).await.is_ok());
        let cut = calls("get_weather", r#"{"city":"Os"#);
        assert_eq!(reason(read(model(Mending(registry()), Delivery::Live, cut)).await), Some(Reason::BadArguments));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_a_token_limit_cut_never_runs() {
        let cut = calls("get_weather", r#"{"city":"Os"#)
            .replace(r#""finish_reason":"tool_calls""#, r#""finish_reason":"length""#);
        assert!(cut.contains(r#""finish_reason":"length""#), "{cut}");
        assert_eq!(reason(read(model(registry(), Delivery::Live, cut)).await), Some(Reason::OutputLimit));

        let event = |delta: &str, finish: &str| {
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
        };
        let call =
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"get_weather","arguments":"{\"city\":\"Os"}}]}"#;
        let stream = WatchedBody::new(
            BodyScript::new()
                .data(event(call, "null"))
                .pause(Duration::from_secs(1))
                .data(event("{}", r#""length""#) + "data: [DONE]\n\n"),
        );
        assert_eq!(reason(read(model(registry(), Delivery::Live, stream)).await), Some(Reason::OutputLimit));
        // Text that was cut is for its reader to judge: nothing is run.
        let text = says("Once upon").replace("\"stop\"", "\"length\"");
        assert!(read(model(registry(), Delivery::Live, text)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn of_several_choices_none_is_vouched_for() {
        let choice = |index: u32, name: &str| {
            let call = json!({ "id": "c", "type": "function", "function": { "name": name, "arguments": r#"{"city":"Oslo"}"# } });
            json!({ "index": index, "message": { "tool_calls": [call] }, "finish_reason": "tool_calls" })
        };
        let two = json!({ "choices": [choice(0, "get_weather"), choice(1, "rm_rf")] }).to_string();
        assert_eq!(reason(read(model(registry(), Delivery::Live, two)).await), Some(Reason::SchemaViolation));
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_attempt_is_told_which_tools_there_are() {
        let (server, asked) = in_turn(&[calls("weather_lookup", "{}"), calls("get_weather", r#"{"city":"Oslo"}"#)]);
        let stack = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::default()).classifier(read_only()).amend(LlmAmend::new()))
            .layer(SemanticValidatorLayer::new(registry()))
            .layer(ProviderLayer::new(ProviderConfig::default()))
            .service(server);
        assert!(stack.oneshot(ask()).await.is_ok());
        let asked = lock(&asked);
        assert!(asked[1].contains(r#"There is no such tool; there is \"get_weather\"."#), "{}", asked[1]);
    }
}

#[test]
fn impossible_settings_are_named() {
    let wrong: ValidatorConfig = toml::from_str("max_density = { 'two words' = 1.0 }").expect("well-formed");
    assert_eq!(wrong.validate().err().map(|error| error.field().to_owned()).as_deref(), Some("max_density.two words"));
    let wrong: ValidatorConfig = toml::from_str("max_density = { a = nan }").expect("well-formed");
    assert!(wrong.validate().is_err());
    assert_eq!(ValidatorConfig::default().validate(), Ok(()));
}
