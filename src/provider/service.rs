//! Sends a request on, and makes its stream report its usage where that is safe.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use tower::BoxError;
use tower_service::Service;

use super::{
    IncludeUsage, ProviderConfig, ResponseFuture,
    meter::{KeepText, Question},
};
use crate::{
    body::WatchedBody,
    classify::{Auto, Classify, grpc::is_grpc},
    coverage::{Coverage, Guard, Mode, Part},
    error::Error,
    wire::{Protocol, RequestFacts, protocol_of, rewrite, with_include_usage},
};

/// An HTTP client whose answers are read. See the [module](super).
#[derive(Debug, Clone)]
pub struct Provider<S, C = Auto> {
    inner: S,
    config: Arc<ProviderConfig>,
    protocol: Option<Protocol>,
    classifier: C,
}

impl<S, C> Provider<S, C> {
    pub(super) const fn new(inner: S, config: Arc<ProviderConfig>, protocol: Option<Protocol>, classifier: C) -> Self {
        Self { inner, config, protocol, classifier }
    }

    /// The inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

// === impl Service ===

impl<S, C, B, D> Service<Request<B>> for Provider<S, C>
where
    S: Service<Request<B>, Response = Response<D>>,
    S::Error: Into<BoxError>,
    B: 'static,
    C: Classify<Request<B>>,
    D: Body<Data = Bytes> + Send + 'static,
    D::Error: Into<BoxError>,
{
    type Response = Response<WatchedBody>;
    type Error = Error;
    type Future = ResponseFuture<S::Future, D>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(|error| Error::from_boxed(error.into()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let call = self.classifier.classify(&request);
        let is_post = *request.method() == Method::POST;
        let protocol = self.protocol.or_else(|| protocol_of(request.uri().path())).filter(|_| is_post);
        let grpc = is_grpc(request.headers());
        let hides_usage = protocol == Some(Protocol::OpenAiChat) && ask_for_usage(&mut request, &self.config);
        let keeps_text = request.extensions().get::<KeepText>().is_some();
        let question = Question { call, protocol, hides_usage, keeps_text, grpc, config: self.config.clone() };
        ResponseFuture::new(self.inner.call(request), question)
    }
}

/// Makes a stream report its usage; says whether the request was changed for it.
fn ask_for_usage<B: 'static>(request: &mut Request<B>, config: &ProviderConfig) -> bool {
    let asks = match config.include_usage {
        IncludeUsage::Always => true,
        IncludeUsage::Never => false,
        IncludeUsage::KnownHosts => accepts_include_usage(request.uri()),
    };
    let path = request.uri().path().to_owned();
    asks && rewrite(request, |body| {
        let facts = RequestFacts::read(Protocol::OpenAiChat, &path, body)?;
        (facts.stream && facts.include_usage.is_none()).then(|| with_include_usage(body)).flatten()
    })
}

fn accepts_include_usage(uri: &http::Uri) -> bool {
    /// Each documents `stream_options.include_usage`; others may refuse what they do not know.
    const HOSTS: [&str; 6] =
        ["api.openai.com", "api.deepseek.com", "api.together.xyz", "api.fireworks.ai", "api.x.ai", "api.cerebras.ai"];
    let host = uri.host().unwrap_or_default();
    // Azure knows the option only in its versionless API.
    let azure = host.ends_with(".openai.azure.com") && uri.path().starts_with("/openai/v1/");
    azure || HOSTS.iter().any(|known| host.eq_ignore_ascii_case(known))
}

impl<S: Guard, C> Guard for Provider<S, C> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::Provider, Mode::Enforcing);
        self.inner.report(coverage);
    }
}
