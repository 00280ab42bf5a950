//! The default classifier.

use std::{any::Any, error::Error as StdError};

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri, header};
use http_body::Body;
use tower::BoxError;

use super::{
    Classify, ClassifyError, ClassifyResponse, Head, endpoint, error_verdict,
    grpc::{ends_in_status, grpc_verdict, is_grpc},
    status::status_verdict,
};
use crate::{
    body::{
        Completion, WatchedBody,
        in_memory::{copied, is_in_memory, readable},
    },
    call::{Call, Effect},
    verdict::Verdict,
};

/// The default classifier: `http` requests and answers, by status, by `grpc-status`, and by what
/// [`ProviderLayer`] read.
///
/// A request that carries a [`Call`] (see [`IdentifyLayer`](crate::identify::IdentifyLayer)) is that call. For any
/// other, the target is the authority of its URI, the operation the model of a known inference endpoint or the
/// method of a gRPC service, and the credential a keyed hash of its API key. Known inference endpoints are
/// `ReadOnly` as long as their body can be read and asks for no provider-executed tool and no background work;
/// `GET`, `HEAD` and `OPTIONS` are `ReadOnly`; all else is `Sensitive`.
///
/// All of this describes requests that go out. On a server the URI, the method and the key are chosen by its client: name
/// the call with [`classify_http`](super::classify_http) there.
///
/// What an answer says is believed: a 429 or 503 with a `retry-after`, a gRPC status 8 or 14 with a pushback and most
/// 4xx mean that nothing was applied. A server that lies about that can have a write repeated; for one that may, judge
/// its answers with a classifier of your own.
///
#[cfg_attr(feature = "wire", doc = "[`ProviderLayer`]: crate::provider::ProviderLayer")]
#[cfg_attr(not(feature = "wire"), doc = "[`ProviderLayer`]: crate#rooms-and-features")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Auto;

/// The head of an HTTP request, whatever its body.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The URI.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// What earlier layers left, such as the authenticated principal.
    pub extensions: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    pub(crate) fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

impl<B: 'static> Classify<Request<B>> for Auto {
    fn classify(&self, request: &Request<B>) -> Call {
        match request.extensions().get::<Call>() {
            Some(call) => call.clone(),
            None => http_call(&RequestHead::of(request), readable(request.body()).as_deref()),
        }
    }

    fn attach(&self, request: &mut Request<B>, call: &Call) {
        let extensions = request.extensions_mut();
        match extensions.get_mut::<Call>() {
            // In place: the next layer's attaching allocates nothing.
            Some(attached) => attached.clone_from(call),
            None => drop(extensions.insert(call.clone())),
        }
    }

    fn replay(&self, request: &Request<B>) -> Option<Request<B>> {
        let mut copy = Request::new(copied(request.body())?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        Some(copy)
    }
}

impl ClassifyError for Auto {
    fn error(&self, call: &Call, error: &(dyn StdError + 'static)) -> Verdict {
        error_verdict(call, error)
    }
}

impl<B> ClassifyResponse<Response<B>> for Auto
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<WatchedBody>;

    fn head(&self, call: &Call, response: &Response<B>) -> Head {
        let watched = (response.body() as &dyn Any).downcast_ref::<WatchedBody>();
        if let Some(verdict) = watched.and_then(WatchedBody::verdict) {
            return Head::Decided(verdict);
        }
        head_verdict(call, response.status(), response.headers(), || {
            is_in_memory::<B>() || response.body().is_end_stream()
        })
    }

    fn watch(&self, call: &Call, response: Response<B>, completion: Completion) -> Self::Response {
        let (parts, body) = response.into_parts();
        let grpc = || ends_in_status(parts.status, &parts.headers);
        let body = WatchedBody::watch(body, call, grpc, completion);
        Response::from_parts(parts, body)
    }
}

/// What the head of an HTTP response says; `whole` tells whether there is nothing more to come.
pub(super) fn head_verdict(call: &Call, status: StatusCode, headers: &HeaderMap, whole: impl FnOnce() -> bool) -> Head {
    if status.as_u16() >= 400 {
        return Head::Decided(status_verdict(call, status, headers));
    }
    if is_grpc(headers) {
        return grpc_verdict(call, headers).map_or(Head::Open, Head::Decided);
    }
    if whole() { Head::Decided(Verdict::completed()) } else { Head::Open }
}

/// What an HTTP request is, by its head and, where it can be read, its body.
pub(crate) fn http_call(head: &RequestHead<'_>, body: Option<&[u8]>) -> Call {
    let mut call = Call::new();
    if let Some(authority) = head.uri.authority() {
        let text = authority.as_str();
        let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
        call = if host.bytes().any(|b| b.is_ascii_uppercase()) {
            call.target(&host.to_ascii_lowercase())
        } else {
            call.target(host)
        };
    }
    if let Some(secret) = CREDENTIALS.iter().find_map(|name| head.headers.get(name)) {
        call = call.credential_secret(secret.as_bytes());
    }
    if is_grpc(head.headers) {
        return call.operation(head.uri.path());
    }
    if let Some(endpoint) = endpoint::inference(head, body) {
        return endpoint.describe(call);
    }
    let safe = matches!(*head.method, Method::GET | Method::HEAD | Method::OPTIONS);
    call.effect(if safe { Effect::ReadOnly } else { Effect::Sensitive })
}

const CREDENTIALS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;
    use crate::{call::Name, testing::BodyScript};

    fn request(method: &str, uri: &str) -> http::request::Builder {
        Request::builder().method(method).uri(uri)
    }

    #[test]
    fn a_request_that_carries_a_call_is_that_call() {
        let mut request = request("GET", "https://api.example/x").body(()).expect("a request");
        Auto.attach(&mut request, &Call::to("crm").attempt(3));
        let call = Auto.classify(&request);
        assert_eq!((call.name(Name::Target), call.attempt_number()), (Some("crm"), 3));
    }

    #[test]
    fn the_target_is_the_authority_without_its_secrets_and_never_a_header() {
        let request = request("POST", "https://user:pass@API.example:8443/x?key=1").header("host", "evil.example");
        let call = Auto.classify(&request.body(()).expect("a request"));
        assert_eq!(call.name(Name::Target), Some("api.example:8443"));
        assert_eq!(call.effect_kind(), Effect::Sensitive);
        let origin_form = Request::post("/x").header("host", "evil.example").body(()).expect("a request");
        assert_eq!(Auto.classify(&origin_form).name(Name::Target), None);
    }

    #[tokio::test]
    async fn a_grpc_answer_whose_head_has_the_status_ends_cleanly_without_trailers() {
        for (http, grpc) in [(200, Some("14")), (503, None)] {
            let response = Response::builder().status(http).header("content-type", "application/grpc");
            let response = match grpc {
                Some(code) => response.header("grpc-status", code),
                None => response,
            };
            let response = response.body(BodyScript::new()).expect("a response");
            assert!(matches!(Auto.head(&Call::new(), &response), Head::Decided(_)));
            let watched = Auto.watch(&Call::new(), response, Completion::none());
            assert!(watched.into_body().collect().await.is_ok());
        }
    }

    #[tokio::test]
    async fn an_answer_of_grpc_web_ends_cleanly_with_its_body() {
        let response = Response::builder().header("content-type", "application/grpc-web+proto");
        let response = response.body(BodyScript::new().data("\0\0\0\0\0")).expect("a response");
        assert_eq!(Auto.head(&Call::new(), &response), Head::Open);
        let watched = Auto.watch(&Call::new(), response, Completion::none());
        assert!(watched.into_body().collect().await.is_ok());
    }

    #[cfg(all(feature = "reqwest", feature = "wire"))]
    #[test]
    fn a_body_of_reqwest_is_read_where_it_lies_in_memory() {
        let uri = "https://api.openai.com/v1/chat/completions";
        let asked = request("POST", uri).body(reqwest::Body::from(r#"{"model":"m"}"#)).expect("a request");
        let call = Auto.classify(&asked);
        assert_eq!((call.name(Name::Operation), call.effect_kind()), (Some("m"), Effect::ReadOnly));
    }

    #[test]
    fn a_replay_is_the_same_request_and_only_of_a_body_in_memory() {
        let mut original =
            request("POST", "https://api.example/x").body(Full::new(Bytes::from("hi"))).expect("a request");
        Auto.attach(&mut original, &Call::to("crm"));
        let copy = Auto.replay(&original).expect("a body in memory");
        assert_eq!(readable(copy.body()).as_deref(), Some(&b"hi"[..]));
        assert!(copy.extensions().get::<Call>().is_some());
        let stream = original.map(|_| WatchedBody::empty());
        assert!(Auto.replay(&stream).is_none());
    }
}
