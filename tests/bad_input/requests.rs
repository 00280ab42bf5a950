//! Requests that cannot be copied, or must not be changed.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tower_belay::{Error, WatchedBody};

use super::*;

/// Counts the warnings that are logged.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, SeqCst);
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_copied_goes_once_counted_each_time_and_logged_once() {
    let (warnings, recorder) = (Warnings::default(), DebuggingRecorder::new());
    let _logged = tracing::subscriber::set_default(warnings.clone());
    let _counted = metrics::set_default_local_recorder(&recorder);
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let down = tower::service_fn(move |_: Request<WatchedBody>| {
        counter.fetch_add(1, SeqCst);
        async { Ok::<_, Error>(Response::builder().status(503).body(BodyScript::new()).expect("a response")) }
    });
    let service = RetryLayer::new(RetryPolicy::default()).layer(down);
    for _ in 0..3 {
        let streamed = Request::get("https://crm.test/").body(WatchedBody::new(BodyScript::new().data("a")));
        assert_eq!(service.clone().oneshot(streamed.expect("a request")).await.expect("an answer").status(), 503);
    }
    assert_eq!((sent.load(SeqCst), warnings.0.load(SeqCst)), (3, 1));
    let counted = recorder.snapshotter().snapshot().into_vec().into_iter().find_map(|(key, _, _, value)| {
        let labels = |why: &str| key.key().labels().any(|label| label.key() == "why" && label.value() == why);
        (key.key().name() == "belay_retry_gave_up_total" && labels("no_replay")).then_some(value)
    });
    assert_eq!(counted, Some(DebugValue::Counter(3)));
}

#[tokio::test(start_paused = true)]
async fn a_signed_request_is_never_amended_and_goes_again_only_byte_for_byte() {
    let signed = |header: &str, value: &str| {
        let mut request = chat();
        let name = http::HeaderName::from_bytes(header.as_bytes()).expect("a name");
        request.headers_mut().insert(name, value.parse().expect("a value"));
        request
    };
    let shown = |request: &Request<String>| (request.headers().clone(), request.body().clone());
    for (header, value) in [
        ("authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20260819/eu/bedrock/aws4_request, Signature=00"),
        ("x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb924"),
        ("content-digest", "sha-256=:AAAA:"),
    ] {
        for unusable in [EMPTY, r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#] {
            let status = if unusable == EMPTY { 200 } else { 400 };
            let came = send(Reads::Body, signed(header, value), [answer(status, &[], unusable)]).await;
            assert_eq!((came.sent, came.status), (1, status), "{header}: only a change could help");
        }
        let plant = Plant::new([answer(503, &[], "{}"), answer(200, &[], GOOD)]);
        let provider = ProviderLayer::new(ProviderConfig::default()).layer(plant.clone());
        let answer = retry().layer(provider).oneshot(signed(header, value)).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let sent = plant.take_requests();
        assert_eq!(shown(&sent[0]), shown(&sent[1]), "{header}");
    }
}
