//! Which requests ask a model for an answer, and nothing more.

use http::Method;

use super::RequestHead;
use crate::call::{Call, Effect};

/// What is known of a request to an inference endpoint.
pub(crate) struct Inference<'a> {
    endpoint: &'a str,
    model: Option<String>,
    effect: Effect,
}

impl Inference<'_> {
    pub(crate) fn describe(&self, call: Call) -> Call {
        call.operation(self.model.as_deref().unwrap_or(self.endpoint)).effect(self.effect)
    }
}

/// A path proves nothing about who listens there. On the hosts of known providers these paths are inference; on any
/// other host only what is unmistakable.
pub(crate) fn inference<'a>(head: &RequestHead<'a>, body: Option<&[u8]>) -> Option<Inference<'a>> {
    let path = head.uri.path().trim_end_matches('/');
    if *head.method != Method::POST {
        return None;
    }
    let known_host = head.uri.host().is_some_and(is_provider);
    let endpoint = last_part(path);
    if known_host && ["embeddings", "moderations", "rerank"].contains(&endpoint) {
        return Some(Inference { endpoint, model: model_of(path, body), effect: Effect::ReadOnly });
    }
    let unmistakable = path.ends_with("/chat/completions")
        || (path.ends_with("/messages") && head.headers.contains_key("anthropic-version"));
    let asks_a_model = unmistakable || (known_host && ANSWERS.iter().any(|end| path.ends_with(end)));
    asks_a_model.then(|| read(endpoint, path, body))
}

const ANSWERS: [&str; 13] = [
    "/chat",
    "/completions",
    "/responses",
    "/messages",
    "/complete",
    ":generateContent",
    ":streamGenerateContent",
    ":rawPredict",
    ":streamRawPredict",
    "/converse",
    "/converse-stream",
    "/invoke",
    "/invoke-with-response-stream",
];

const PROVIDERS: [&str; 19] = [
    "api.openai.com",
    "openai.azure.com",
    "services.ai.azure.com",
    "api.anthropic.com",
    "openrouter.ai",
    "api.mistral.ai",
    "api.groq.com",
    "api.deepseek.com",
    "api.x.ai",
    "api.cohere.com",
    "api.cohere.ai",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
    "api.together.xyz",
    "api.fireworks.ai",
    "api.perplexity.ai",
    "router.huggingface.co",
    "ai-gateway.vercel.sh",
    "api.writer.com",
];

fn is_provider(host: &str) -> bool {
    let is = |known: &&str| {
        let tail = host.len().checked_sub(known.len()).and_then(|at| host.get(at..));
        let before = host.len().checked_sub(known.len() + 1).and_then(|at| host.as_bytes().get(at));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(known))
            && (host.len() == known.len() || before == Some(&b'.'))
    };
    let regional = host.ends_with("-aiplatform.googleapis.com")
        || (host.starts_with("bedrock-runtime") && host.ends_with(".amazonaws.com"));
    regional || PROVIDERS.iter().any(is)
}

fn last_part(path: &str) -> &str {
    path.rsplit(['/', ':']).next().unwrap_or(path)
}

/// Without a body that can be read nobody knows what the provider is asked to run.
#[cfg(feature = "wire")]
fn read<'a>(endpoint: &'a str, path: &str, body: Option<&[u8]>) -> Inference<'a> {
    use crate::wire::{RequestFacts, protocol_of};
    let facts = protocol_of(path).zip(body).and_then(|(protocol, body)| RequestFacts::read(protocol, path, body));
    match facts {
        Some(facts) => {
            let changes_nothing = !facts.provider_executed && !facts.background;
            let effect = if changes_nothing { Effect::ReadOnly } else { Effect::Sensitive };
            Inference { endpoint, model: facts.model, effect }
        }
        None => Inference { endpoint, model: model_of(path, body), effect: Effect::Sensitive },
    }
}

#[cfg(not(feature = "wire"))]
fn read<'a>(endpoint: &'a str, path: &str, body: Option<&[u8]>) -> Inference<'a> {
    Inference { endpoint, model: model_of(path, body), effect: Effect::Sensitive }
}

#[cfg(feature = "wire")]
fn model_of(path: &str, body: Option<&[u8]>) -> Option<String> {
    crate::wire::RequestFacts::read(crate::wire::Protocol::OpenAiChat, path, body?)?.model
}

#[cfg(not(feature = "wire"))]
fn model_of(_: &str, _: Option<&[u8]>) -> Option<String> {
    None
}

#[cfg(all(test, feature = "wire"))]
mod tests {
    use http::Request;

    use super::*;
    use crate::{
        call::Name,
        classify::{Auto, Classify},
    };

    fn call(uri: &str, body: &str) -> Call {
        Auto.classify(&Request::post(uri).body(body.to_owned()).expect("a request"))
    }

    #[test]
    fn a_plain_model_call_reads_and_is_named_by_its_model() {
        let call = call("https://api.openai.com/v1/chat/completions", r#"{"model":"gpt-4o","messages":[]}"#);
        assert_eq!((call.name(Name::Target), call.name(Name::Operation)), (Some("api.openai.com"), Some("gpt-4o")));
        assert_eq!(call.effect_kind(), Effect::ReadOnly);
    }

    #[test]
    fn tools_that_the_provider_runs_and_background_work_are_sensitive() {
        for body in [
            r#"{"model":"m","tools":[{"type":"mcp","server_url":"https://x.example"}]}"#,
            r#"{"model":"m","tools":[{"type":"code_interpreter"}]}"#,
            r#"{"model":"m","background":true}"#,
            "not json",
        ] {
            assert_eq!(call("https://api.openai.com/v1/responses", body).effect_kind(), Effect::Sensitive, "{body}");
        }
    }

    #[test]
    fn a_body_that_cannot_be_read_is_sensitive() {
        let request = Request::post("https://api.openai.com/v1/chat/completions").body(crate::WatchedBody::empty());
        assert_eq!(Auto.classify(&request.expect("a request")).effect_kind(), Effect::Sensitive);
    }

    #[test]
    fn a_path_alone_makes_no_provider() {
        for uri in [
            "https://sms.example/v1/messages",
            "https://survey.example/responses",
            "https://evilapi.openai.com.example/v1/responses",
        ] {
            assert_eq!(call(uri, r#"{"model":"m"}"#).effect_kind(), Effect::Sensitive, "{uri}");
        }
        let local = call("http://127.0.0.1:8080/v1/chat/completions", r#"{"model":"m"}"#);
        assert_eq!((local.effect_kind(), local.name(Name::Target)), (Effect::ReadOnly, Some("127.0.0.1:8080")));
    }

    #[test]
    fn providers_are_known_with_their_subdomains_only() {
        assert!(is_provider("example.openai.azure.com") && is_provider("us-east5-aiplatform.googleapis.com"));
        assert!(!is_provider("notapi.openai.com.evil.example") && !is_provider("evil-openrouter.ai"));
    }
}
