//! `reqwest`'s own requests, responses and errors, for a client that is wrapped bare.

use http::{Extensions, Uri};
use reqwest::ResponseBuilderExt;

use super::{
    Auto, Classify, ClassifyHttp, ClassifyResponse, Head, RequestHead,
    auto::{head_verdict, http_call},
    grpc::ends_in_status,
    status::{Proof, status_reason},
};
use crate::{
    body::{Completion, WatchedBody},
    call::{Call, Effect},
    reason::Reason,
};

/// Whether a client follows redirects: then a failure to connect may come after a request that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    Never,
    Maybe,
}

/// What an error of reqwest says.
pub(crate) fn reqwest_reason(error: &reqwest::Error, effect: Effect, redirects: Redirects) -> Reason {
    if let Some(status) = error.status() {
        return status_reason(status.as_u16(), effect, Proof::None);
    }
    if error.is_builder() {
        return Reason::InvalidRequest;
    }
    if error.is_connect() {
        let own = redirects == Redirects::Never || effect == Effect::ReadOnly;
        return if own { Reason::ConnectFailed } else { Reason::ConnectionLost };
    }
    if error.is_timeout() {
        return Reason::Timeout;
    }
    if error.is_redirect() {
        return Reason::Unproven;
    }
    if error.is_body() || error.is_decode() { Reason::Cut } else { Reason::ConnectionLost }
}

/// Runs `read` with what is known of a request; a `reqwest::Request` keeps its extensions to itself.
fn with_head<T>(request: &reqwest::Request, read: impl FnOnce(&RequestHead<'_>, Option<&[u8]>) -> T) -> T {
    let head = RequestHead {
        method: request.method(),
        // What is no URI is not sent either.
        uri: &Uri::try_from(request.url().as_str()).unwrap_or_default(),
        headers: request.headers(),
        extensions: &Extensions::new(),
    };
    read(&head, request.body().map_or(Some(&[]), reqwest::Body::as_bytes))
}

/// A `reqwest::Request` cannot carry a [`Call`], so that each layer reads it anew: its attempt and its action are
/// not known to the layers inside. Where that matters, use `adapt::ReqwestService`.
impl Classify<reqwest::Request> for Auto {
    fn classify(&self, request: &reqwest::Request) -> Call {
        with_head(request, http_call)
    }

    fn replay(&self, request: &reqwest::Request) -> Option<reqwest::Request> {
        request.try_clone()
    }
}

impl<F> Classify<reqwest::Request> for ClassifyHttp<F>
where
    F: Fn(&RequestHead<'_>, Call) -> Call,
{
    fn classify(&self, request: &reqwest::Request) -> Call {
        with_head(request, |head, body| self.refine(head, http_call(head, body)))
    }

    fn replay(&self, request: &reqwest::Request) -> Option<reqwest::Request> {
        request.try_clone()
    }
}

impl ClassifyResponse<reqwest::Response> for Auto {
    type Response = reqwest::Response;

    fn head(&self, call: &Call, response: &reqwest::Response) -> Head {
        // A decoded body has no length, so that nothing else with this length is whole.
        let whole = response.content_length() == Some(0);
        head_verdict(call, response.status(), response.headers(), || whole)
    }

    fn watch(&self, call: &Call, response: reqwest::Response, completion: Completion) -> reqwest::Response {
        let grpc = ends_in_status(response.status(), response.headers());
        let mut url = http::response::Builder::new().url(response.url().clone());
        let response = http::Response::<reqwest::Body>::from(response);
        let mut response = response.map(|body| WatchedBody::watch(body, call, || grpc, completion));
        if let Some(url) = url.extensions_mut() {
            response.extensions_mut().extend(std::mem::take(url));
        }
        response.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call::Name, classify::End};
    use crate::{
        classify::{ClassifyError, classify_http},
        reason::Class,
    };

    fn request(method: http::Method, url: &str) -> reqwest::Request {
        reqwest::Request::new(method, url.parse().expect("a URL"))
    }

    fn response(status: u16, body: &'static str) -> reqwest::Response {
        let url = "http://crm.example/x?key=1".parse().expect("a URL");
        http::Response::builder().status(status).url(url).body(body).expect("a response").into()
    }

    #[test]
    fn a_request_is_what_it_would_be_over_http() {
        let mut request = request(http::Method::POST, "https://user:pass@API.example:8443/x?key=1");
        request.headers_mut().insert(http::header::AUTHORIZATION, "Bearer secret".parse().expect("a value"));
        *request.body_mut() = Some("{}".into());
        let call = Auto.classify(&request);
        assert_eq!(call.name(Name::Target), Some("api.example:8443"));
        assert_eq!(call.effect_kind(), Effect::Sensitive);
        assert!(call.name(Name::Credential).is_some_and(|id| !id.contains("secret")));
        let named = classify_http(|head: &RequestHead<'_>, call: Call| call.operation(head.uri.path()));
        assert_eq!(named.classify(&request).name(Name::Operation), Some("/x"));
        let copy = Auto.replay(&request).expect("a body in memory");
        assert_eq!(copy.body().and_then(reqwest::Body::as_bytes), Some(&b"{}"[..]));
        *request.body_mut() = Some(reqwest::Body::wrap(WatchedBody::new(crate::testing::BodyScript::new())));
        assert!(Auto.replay(&request).is_none());
    }

    #[test]
    fn a_bare_client_has_a_whole_classifier() {
        fn whole<C: crate::classify::Classifier<reqwest::Request, reqwest::Response>>(_: C) {}
        whole(Auto);
        whole(classify_http(|_, call| call));
    }

    #[tokio::test]
    async fn a_watched_response_keeps_its_url_and_tells_its_end() {
        let (told, hears) = std::sync::mpsc::channel();
        let completion = Completion::new(move |end: End<'_>| {
            let End::Over(verdict) = end else { return };
            let _ = told.send(verdict.reason);
        });
        let watched = Auto.watch(&Call::new(), response(200, "hello"), completion);
        assert_eq!(watched.url().as_str(), "http://crm.example/x?key=1");
        assert_eq!(watched.text().await.expect("a text"), "hello");
        assert_eq!(hears.recv(), Ok(Reason::Completed));
    }

    #[test]
    fn a_status_decides_and_so_does_the_error_made_of_it() {
        let call = Call::to("crm").effect(Effect::ReadOnly);
        let Head::Decided(verdict) = Auto.head(&call, &response(404, "")) else { panic!("not open") };
        assert_eq!(verdict.reason, Reason::NotFound);
        assert_eq!(Auto.head(&call, &response(200, "hello")), Head::Open);
        let error = response(503, "").error_for_status().expect_err("an error");
        assert_eq!(Auto.error(&call, &error).reason, Reason::Overloaded);
        assert_eq!(Auto.error(&Call::new(), &error).class(), Class::Unknown);
    }
}
