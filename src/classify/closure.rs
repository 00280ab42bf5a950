//! Classifiers made of closures.

use std::{error::Error as StdError, fmt, marker::PhantomData};

use super::{Auto, Classify, ClassifyError, ClassifyResponse, Head, RequestHead, error_verdict};
use crate::{body::Completion, call::Call, reason::Reason, verdict::Verdict};

/// A classifier for requests of any type: `names` tells what a request is.
///
/// Every `Ok` is a success and errors are read by [`error_verdict`], unless [`judge`](ClassifyFn::judge) or
/// [`answers`](ClassifyFn::answers) say otherwise.
///
/// ```
/// # use tower_belay::{Call, Effect, Reason, classify::{classify_fn, Classify, ClassifyResponse, Head}};
/// struct Lookup { customer: u32 }
/// let by_name = classify_fn(|_: &Lookup| Call::to("crm").operation("lookup").effect(Effect::ReadOnly))
///     .judge(|answer: &Option<String>| if answer.is_some() { Reason::Completed } else { Reason::EmptyAnswer });
/// let call = by_name.classify(&Lookup { customer: 7 });
/// assert_eq!(by_name.head(&call, &Some("Ada".to_owned())), Head::Decided(Reason::Completed.into()));
/// assert_eq!(by_name.head(&call, &None), Head::Decided(Reason::EmptyAnswer.into()));
/// ```
///
/// An error of your own says nothing to `error_verdict`: it is [`Reason::Unclassified`], which of a write means that it
/// may have been applied. Inside the layers, make it a [`Failure`](crate::Failure) that says more and keeps it:
///
/// ```
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
/// use tower_belay::{Call, Effect, Failure, Reason, SemanticBreakerLayer, TripCard, classify_fn};
/// # #[derive(Debug)]
/// # enum CrmError { Denied, TimedOut }
/// # impl std::fmt::Display for CrmError {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{self:?}") }
/// # }
/// # impl std::error::Error for CrmError {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let crm = ServiceBuilder::new()
///     .layer(SemanticBreakerLayer::new(TripCard::default()).classifier(classify_fn(|_| Call::to("crm"))))
///     .map_err(|error: CrmError| {
///         let reason = match error {
///             CrmError::Denied => Reason::PermissionDenied,
///             CrmError::TimedOut => Reason::Timeout,
///         };
///         Failure::new(reason).caused_by(error)
///     })
///     .service(service_fn(|_: u32| async { Err::<(), _>(CrmError::Denied) }));
///
/// let error = crm.oneshot(7).await.unwrap_err();
/// assert_eq!(error.failure().map(|failure| failure.reason()), Some(Reason::PermissionDenied));
/// assert!(matches!(error.find(), Some(CrmError::Denied)));
/// # }
/// ```
pub fn classify_fn<Req, F>(names: F) -> ClassifyFn<Req, F>
where
    F: Fn(&Req) -> Call,
{
    ClassifyFn { names, answers: Plain, replay: |_| None }
}

/// A classifier by closure, see [`classify_fn`].
pub struct ClassifyFn<Req, F, A = Plain> {
    names: F,
    answers: A,
    replay: fn(&Req) -> Option<Req>,
}

impl<Req, F, A> ClassifyFn<Req, F, A> {
    /// Judges each `Ok` with a closure.
    pub fn judge<Res, J, V>(self, judge: J) -> ClassifyFn<Req, F, Judge<Res, J>>
    where
        J: Fn(&Res) -> V,
        V: Into<Verdict>,
    {
        self.answers(Judge { judge, response: PhantomData })
    }

    /// Leaves responses and errors to another classifier, such as [`Auto`] for HTTP answers.
    pub fn answers<B>(self, answers: B) -> ClassifyFn<Req, F, B> {
        ClassifyFn { names: self.names, answers, replay: self.replay }
    }

    /// Lets a [`RetryLayer`](crate::retry::RetryLayer) send a request again, as a clone of it.
    #[must_use]
    pub fn replay_clones(mut self) -> Self
    where
        Req: Clone,
    {
        self.replay = |request| Some(request.clone());
        self
    }
}

impl<Req, F: Clone, A: Clone> Clone for ClassifyFn<Req, F, A> {
    fn clone(&self) -> Self {
        Self { names: self.names.clone(), answers: self.answers.clone(), replay: self.replay }
    }
}

impl<Req, F, A> fmt::Debug for ClassifyFn<Req, F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassifyFn").finish_non_exhaustive()
    }
}

impl<Req, F, A> Classify<Req> for ClassifyFn<Req, F, A>
where
    F: Fn(&Req) -> Call,
{
    fn classify(&self, request: &Req) -> Call {
        (self.names)(request)
    }

    fn replay(&self, request: &Req) -> Option<Req> {
        (self.replay)(request)
    }
}

impl<Req, F, A: ClassifyError> ClassifyError for ClassifyFn<Req, F, A> {
    fn error(&self, call: &Call, error: &(dyn StdError + 'static)) -> Verdict {
        self.answers.error(call, error)
    }
}

impl<Req, F, A, Res> ClassifyResponse<Res> for ClassifyFn<Req, F, A>
where
    A: ClassifyResponse<Res>,
{
    type Response = A::Response;

    fn head(&self, call: &Call, response: &Res) -> Head {
        self.answers.head(call, response)
    }

    fn watch(&self, call: &Call, response: Res, completion: Completion) -> Self::Response {
        self.answers.watch(call, response, completion)
    }
}

/// Every `Ok` is a success, decided when the response is there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl ClassifyError for Plain {
    fn error(&self, call: &Call, error: &(dyn StdError + 'static)) -> Verdict {
        error_verdict(call, error)
    }
}

impl<Res> ClassifyResponse<Res> for Plain {
    type Response = Res;

    fn head(&self, _: &Call, _: &Res) -> Head {
        Head::Decided(Verdict::new(Reason::Completed))
    }

    fn watch(&self, _: &Call, response: Res, completion: Completion) -> Res {
        completion.ignored();
        response
    }
}

/// Responses judged by a closure, see [`ClassifyFn::judge`].
pub struct Judge<Res, J> {
    judge: J,
    response: PhantomData<fn(&Res)>,
}

impl<Res, J: Clone> Clone for Judge<Res, J> {
    fn clone(&self) -> Self {
        Self { judge: self.judge.clone(), response: PhantomData }
    }
}

impl<Res, J> fmt::Debug for Judge<Res, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").finish_non_exhaustive()
    }
}

impl<Res, J> ClassifyError for Judge<Res, J> {
    fn error(&self, call: &Call, error: &(dyn StdError + 'static)) -> Verdict {
        error_verdict(call, error)
    }
}

impl<Res, J, V> ClassifyResponse<Res> for Judge<Res, J>
where
    J: Fn(&Res) -> V,
    V: Into<Verdict>,
{
    type Response = Res;

    fn head(&self, _: &Call, response: &Res) -> Head {
        Head::Decided((self.judge)(response).into())
    }

    fn watch(&self, _: &Call, response: Res, completion: Completion) -> Res {
        completion.ignored();
        response
    }
}

/// A classifier for HTTP whose closure names the call: what [`Auto`] found is handed to it to be refined.
///
/// ```
/// # use tower_belay::{Call, Name, classify::{classify_http, Classify, RequestHead}};
/// // Names come from the authenticated principal or from code, not from headers that anybody can set.
/// #[derive(Clone)]
/// struct Principal(&'static str);
///
/// let by_principal = classify_http(|head: &RequestHead<'_>, call: Call| {
///     match head.extensions.get::<Principal>() {
///         Some(Principal(tenant)) => call.tenant(tenant),
///         None => call,
///     }
/// });
/// let mut request = http::Request::post("https://tools.example/refund").body(()).unwrap();
/// request.extensions_mut().insert(Principal("acme"));
/// let call = by_principal.classify(&request);
/// assert_eq!(call.name(Name::Tenant), Some("acme"));
/// assert_eq!(call.name(Name::Target), Some("tools.example"));
/// ```
pub fn classify_http<F>(names: F) -> ClassifyHttp<F>
where
    F: Fn(&RequestHead<'_>, Call) -> Call,
{
    ClassifyHttp { names }
}

/// A classifier for HTTP by closure, see [`classify_http`].
#[derive(Clone)]
pub struct ClassifyHttp<F> {
    names: F,
}

#[cfg(feature = "reqwest")]
impl<F: Fn(&RequestHead<'_>, Call) -> Call> ClassifyHttp<F> {
    pub(super) fn refine(&self, head: &RequestHead<'_>, call: Call) -> Call {
        (self.names)(head, call)
    }
}

impl<F> fmt::Debug for ClassifyHttp<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassifyHttp").finish_non_exhaustive()
    }
}

impl<B, F> Classify<http::Request<B>> for ClassifyHttp<F>
where
    B: 'static,
    F: Fn(&RequestHead<'_>, Call) -> Call,
{
    fn classify(&self, request: &http::Request<B>) -> Call {
        (self.names)(&RequestHead::of(request), Auto.classify(request))
    }

    fn attach(&self, request: &mut http::Request<B>, call: &Call) {
        Auto.attach(request, call);
    }

    fn replay(&self, request: &http::Request<B>) -> Option<http::Request<B>> {
        Auto.replay(request)
    }
}

impl<F> ClassifyError for ClassifyHttp<F> {
    fn error(&self, call: &Call, error: &(dyn StdError + 'static)) -> Verdict {
        Auto.error(call, error)
    }
}

impl<F, Res> ClassifyResponse<Res> for ClassifyHttp<F>
where
    Auto: ClassifyResponse<Res>,
{
    type Response = <Auto as ClassifyResponse<Res>>::Response;

    fn head(&self, call: &Call, response: &Res) -> Head {
        Auto.head(call, response)
    }

    fn watch(&self, call: &Call, response: Res, completion: Completion) -> Self::Response {
        Auto.watch(call, response, completion)
    }
}
