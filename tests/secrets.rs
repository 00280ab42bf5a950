//! What goes out of the layers by any door: texts of errors, traces, metrics, events, answers. None of it is a key, a query
//! or a payload.

#![cfg(all(feature = "wire", feature = "reqwest"))]

use std::{
    error::Error as _,
    fmt::{self, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use http_body_util::BodyExt;
use metrics_util::debugging::DebuggingRecorder;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn, util::BoxCloneSyncService};
use tower_belay::{
    Error, IdentifyLayer, ProviderConfig, ProviderLayer, RespondLayer, SemanticBreakerLayer, TripCard, WatchedBody,
    adapt::ReqwestService,
    events::{Alert, Event},
    respond::Answered,
};

/// In every place where a request or an answer can have one.
const SECRETS: [&str; 9] = [
    "sk-key-in-a-header",
    "sk-other-header",
    "user-in-the-url",
    "password-in-the-url",
    "key-in-the-query",
    "my prompt, a secret one",
    "what-the-provider-quoted",
    "what-the-tool-answered",
    "what-the-client-said",
];

/// All that was heard, and what is asked about it.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<String>>);

impl Heard {
    fn add(&self, text: impl fmt::Display) {
        let _ = writeln!(self.0.lock().expect("no test panics here"), "{text}");
    }

    fn add_error(&self, error: &Error) {
        self.add(format_args!("{error} {error:?} {:?}", error.retry_at()));
        let mut next = error.source();
        while let Some(cause) = next {
            self.add(format_args!("{cause} {cause:?}"));
            next = cause.source();
        }
        if let Some(rejected) = error.rejected() {
            self.add(rejected.model_text());
        }
    }

    fn is_clean(&self) {
        let heard = self.0.lock().expect("no test panics here");
        assert!(heard.contains("breaker state changed") && heard.contains("belay_refusals_total"), "{heard}");
        for secret in SECRETS {
            assert!(!heard.contains(secret), "{secret}: {heard}");
        }
    }
}

impl tracing::field::Visit for Heard {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.add(format_args!("{field}={value:?}"));
    }
}

impl tracing::Subscriber for Heard {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("tower_belay")
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut self.clone());
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

fn request() -> Request<String> {
    Request::post("http://user-in-the-url:password-in-the-url@127.0.0.1:1/v1/chat/completions?key=key-in-the-query")
        .header("authorization", "Bearer sk-key-in-a-header")
        .header("x-api-key", "sk-other-header")
        .body(r#"{"model":"gpt-5","messages":[{"role":"user","content":"my prompt, a secret one"}]}"#.to_owned())
        .expect("a request")
}

type Client = BoxCloneSyncService<Request<String>, Response<WatchedBody>, Error>;

/// Sends until the breaker refuses, and a little longer, through all layers; hears all that comes out.
async fn hear(heard: &Heard, client: Client) {
    let (hears, alerted) = (heard.clone(), heard.clone());
    let breaker = SemanticBreakerLayer::new(TripCard::default())
        .listener(move |event: &Event<'_>| hears.add(format_args!("{event} {event:?}")))
        .alerts(move |alert: &Alert| alerted.add(format_args!("{alert:?}")));
    let handle = breaker.handle();
    let layers = ServiceBuilder::new()
        .layer(IdentifyLayer::new())
        .layer(breaker)
        .layer(ProviderLayer::new(ProviderConfig::default()));
    let bare = BoxCloneSyncService::new(layers.clone().service(client.clone()));
    let served = RespondLayer::new().layer(bare.clone());
    for n in 0..8 {
        let (mut bare, mut served) = (bare.clone(), served.clone());
        if n % 2 == 0 {
            let Ok(answer) = served.ready().await.map(|it| it.call(request())).expect("ready").await;
            if let Some(answered) = answer.extensions().get::<Answered>() {
                heard.add_error(answered.error());
                heard.add(format_args!("{:?}", answer.headers()));
                let body = answer.into_body().collect().await.expect("our own words").to_bytes();
                heard.add(String::from_utf8_lossy(&body));
            } else if let Err(error) = answer.into_body().collect().await {
                heard.add_error(&error);
            }
            continue;
        }
        match bare.ready().await.expect("ready").call(request()).await {
            Ok(answer) => {
                heard.add(format_args!("{:?}", answer.body()));
                if let Err(error) = answer.into_body().collect().await {
                    heard.add_error(&error);
                }
            }
            Err(error) => heard.add_error(&error),
        }
    }
    heard.add(format_args!("{handle:?} {:?}", handle.all()));
    let call = request();
    let call = tower_belay::classify::Classify::classify(&tower_belay::Auto, &call);
    heard.add(format_args!("{call:?} {:?}", handle.snapshots(&call)));
}

/// Hears what `client` makes the layers say.
fn only_our_own_words(client: impl FnOnce() -> Client) {
    let (heard, recorder) = (Heard::default(), DebuggingRecorder::new());
    let metrics = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tracing::subscriber::with_default(heard.clone(), || {
        metrics::with_local_recorder(&recorder, || runtime.block_on(async { hear(&heard, client()).await }));
    });
    for (key, ..) in metrics.snapshot().into_vec() {
        heard.add(format_args!("{key:?}"));
    }
    heard.is_clean();
}

fn answers(status: u16, body: &'static str) -> Client {
    BoxCloneSyncService::new(service_fn(move |_: Request<String>| async move {
        let response = Response::builder().status(status).header("x-secret", "what-the-tool-answered");
        let response = response.header("retry-after", "what-the-tool-answered");
        Ok::<_, Error>(response.body(WatchedBody::from(body.to_owned())).expect("a response"))
    }))
}

#[test]
fn of_an_answer_that_quotes_what_it_was_asked() {
    let body = r#"{"error":{"message":"what-the-provider-quoted: my prompt, a secret one","type":"server_error",
        "code":"what-the-tool-answered"}}"#;
    for status in [200, 401, 403, 429, 500, 503] {
        only_our_own_words(|| answers(status, body));
    }
}

#[test]
fn of_an_answer_that_cannot_be_used() {
    only_our_own_words(|| answers(200, r#"{"choices":[{"message":{"content":""},"x":"what-the-tool-answered"}]}"#));
    only_our_own_words(|| answers(200, r#"{"choices":["what-the-tool-answered"#));
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"what-the-tool-answered\"}}]}\n\ndata: what-the-provi";
    only_our_own_words(|| answers(200, stream));
}

#[test]
fn of_a_client_that_cannot_connect() {
    let client = || {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5));
        let client = ReqwestService::new(http).expect("a client");
        let watched = |answer: Response<reqwest::Body>| answer.map(WatchedBody::new);
        BoxCloneSyncService::new(ServiceExt::<Request<String>>::map_response(client, watched))
    };
    only_our_own_words(client);
}
