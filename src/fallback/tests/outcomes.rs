//! What a fallback makes of a call, and what the outside hears of it.

use std::sync::Mutex;

use http_body_util::BodyExt;

use super::*;
use crate::{classify::ClassifyFn, events::Event, lock::lock, verdict::Verdict};

type Heard = Arc<Mutex<Vec<String>>>;

fn ears() -> (Heard, impl Fn(&Event<'_>) + Send + Sync + 'static) {
    let heard = Heard::default();
    let ears = heard.clone();
    let listener = move |event: &Event<'_>| {
        let Event::Fell(fell) = event else { panic!("no other event") };
        let error = fell.error.map(|error| format!(" ({error})")).unwrap_or_default();
        lock(&ears).push(format!("{} {}{error}", fell.code, fell.outcome.code()));
    };
    (heard, listener)
}

#[tokio::test(start_paused = true)]
async fn a_substitute_that_is_as_bad_is_not_given_and_the_listener_hears_why() {
    let (heard, listener) = ears();
    let other =
        Scripted::new([Step::answer(Reason::EmptyAnswer), Step::fail("worse"), Step::answer(Reason::Completed)]);
    let layer = FallbackLayer::to(other.clone()).classifier(named(Effect::ReadOnly)).listener(listener);
    for expected in [Reason::Overloaded, Reason::Overloaded, Reason::Completed] {
        let answer = layer.layer(Scripted::new([Step::answer(Reason::Overloaded)])).oneshot(7).await;
        assert_eq!(answer.ok(), Some(expected));
    }
    let failed = ["overloaded failed (empty_answer)", "overloaded failed (worse)"];
    assert_eq!(*lock(&heard), [failed[0], failed[1], "overloaded answered"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reports_and_switched_off_nothing_else_answers() {
    let (heard, listener) = ears();
    let other = Scripted::<u8, Reason>::new([]);
    let watches = FallbackLayer::to(other.clone()).classifier(named(Effect::ReadOnly)).dry_run().listener(listener);
    let off = FallbackLayer::to(other).classifier(named(Effect::ReadOnly)).config(FallbackConfig::off());
    for layer in [watches, off] {
        let answer = layer.layer(Scripted::new([Step::answer(Reason::Overloaded)])).oneshot(7).await;
        assert_eq!(answer.ok(), Some(Reason::Overloaded));
    }
    assert_eq!(*lock(&heard), ["overloaded would_answer"]);
}

#[tokio::test(start_paused = true)]
async fn only_what_is_configured_falls() {
    let config = FallbackConfig::off().on([FallbackOn::Failed]);
    for (reason, falls) in [(Reason::ServerError, true), (Reason::RateLimited, false), (Reason::Timeout, false)] {
        let other = Scripted::by(|_: &u8| Step::answer(Reason::Completed));
        let layer = FallbackLayer::to(other).classifier(named(Effect::ReadOnly)).config(config.clone());
        let answer = layer.layer(Scripted::new([Step::answer(reason)])).oneshot(7).await;
        assert_eq!(answer.ok(), Some(if falls { Reason::Completed } else { reason }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_copied_is_told_of() {
    let (heard, listener) = ears();
    let named: ClassifyFn<u8, _> = classify_fn(|_: &u8| Call::to("crm").effect(Effect::ReadOnly));
    let layer = FallbackLayer::to(Scripted::<u8, u8>::new([])).classifier(named).listener(listener);
    let refused = Rejected::new("semantic_breaker", Refusal::Open, Scope::TARGET, &Call::to("crm"));
    let error = layer.layer(Scripted::new([Step::fail(Error::from(refused))])).oneshot(7).await;
    assert_eq!(error.err().and_then(|error| error.rejected().map(Rejected::code)), Some(Refusal::Open));
    assert_eq!(*lock(&heard), ["open no_replay (the request cannot be copied, or may have been applied)"]);
}

/// A write over HTTP, and what each of its attempts was known by.
async fn refund(first: Result<u16, Refusal>, retries: bool) -> (Response<WatchedBody>, Vec<Option<String>>) {
    let references = Arc::new(Mutex::new(Vec::new()));
    let seen = references.clone();
    let server = service_fn(move |request: Request<String>| {
        let call = request.extensions().get::<Call>().cloned().expect("a call");
        lock(&seen).push(call.reference());
        let answer = first.map_err(|code| Error::from(Rejected::new("breaker", code, Scope::TARGET, &call)));
        let answer = answer.map(|status| {
            let response = Response::builder().status(status).header("retry-after", "1").body(WatchedBody::empty());
            response.expect("a response")
        });
        std::future::ready(answer)
    });
    let honest = service_fn(|fallen: Fallen<Request<String>>| async move {
        let text = format!("{} sends={}", fallen.wording(), fallen.request.is_some());
        Ok::<_, BoxError>(Response::new(WatchedBody::from(text)))
    });
    let policy = if retries { RetryPolicy::default() } else { RetryPolicy::off() };
    let stack = ServiceBuilder::new().layer(FallbackLayer::new(honest)).layer(RetryLayer::new(policy)).service(server);
    let request = Request::post("https://crm.example/refund").body("{}".to_owned()).expect("a request");
    let answer = stack.oneshot(request).await.expect("a substitute");
    let references = lock(&references).clone();
    (answer, references)
}

#[tokio::test(start_paused = true)]
async fn a_write_has_one_reference_for_all_attempts_and_its_substitute() {
    // A 503 that names a time was certainly not applied, so it is attempted again.
    let (answer, references) = refund(Ok(503), true).await;
    let degraded = answer.extensions().get::<Degraded>().cloned().expect("a substitute");
    assert_eq!(references.len(), 3);
    assert!(degraded.reference.as_ref().is_some_and(|reference| reference.starts_with("belay-")));
    assert!(references.iter().all(|reference| *reference == degraded.reference));
}

#[tokio::test(start_paused = true)]
async fn of_a_write_it_is_said_what_is_known_and_no_more() {
    let (answer, references) = refund(Ok(504), false).await;
    let reference = references[0].clone().expect("a reference");
    let text = answer.into_body().collect().await.expect("in memory").to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.starts_with("It is not known whether the request was carried out."), "{text}");
    assert!(text.contains(&reference), "{text}");
    // A write that is stopped was not sent: it is not in doubt, and it is not sent elsewhere either.
    let (answer, _) = refund(Err(Refusal::WritesOpen), false).await;
    let text = answer.into_body().collect().await.expect("in memory").to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.starts_with("The request was not answered in full") && text.ends_with("sends=false"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_after_it_was_handed_on_passes_as_it_is() {
    let live = service_fn(|_: Request<String>| async {
        let body = BodyScript::new().data("visible").pause(Duration::from_secs(1)).fail("reset by the peer");
        Ok::<_, Infallible>(Response::new(WatchedBody::new(body)))
    });
    let other = Scripted::<Request<String>, Response<WatchedBody>>::new([]);
    let request = Request::get("https://llm.example/").body(String::new()).expect("a request");
    let answer = FallbackLayer::to(other.clone()).layer(live).oneshot(request).await.expect("a head");
    assert_eq!(answer.extensions().get::<Degraded>(), None);
    let mut body = answer.into_body();
    assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
    assert!(body.frame().await.is_some_and(|frame| frame.is_err()));
    assert_eq!((body.verdict().map(|it: Verdict| it.reason), other.calls()), (Some(Reason::Cut), 0));
}
