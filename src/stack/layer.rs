//! The stack as one layer.

use std::{fmt, sync::Arc};

use tower::util::Either;
use tower_layer::Layer;

use super::{LlmHandle, LlmStackConfig};
use crate::{
    bulkhead::{Bulkhead, BulkheadLayer},
    classify::Auto,
    config_error::ConfigError,
    coverage::Coverage,
    identify::{Identify, IdentifyLayer},
    provider::{Provider, ProviderLayer},
    rate_limit::{RateLimit, RateLimitLayer},
    retry::{Retry, RetryLayer},
    semantic_breaker::{SemanticBreaker, SemanticBreakerLayer},
    semantic_validator::{SemanticValidator, SemanticValidatorLayer, Validate},
    timeout::{Timeout, TimeoutLayer},
    wire::LlmAmend,
};

/// A service guarded by an [`LlmStack`].
pub type LlmService<S, C = Auto, A = LlmAmend> = Identify<Retried<S, C, A>, C>;

type Read<S, C> = Provider<S, C>;
type Timed<S, C> = Either<Timeout<Read<S, C>, C>, Read<S, C>>;
type Valid<S, C> = Either<SemanticValidator<Timed<S, C>, C>, Timed<S, C>>;
type Watched<S, C> = Either<SemanticBreaker<Valid<S, C>, C>, Valid<S, C>>;
type Queued<S, C> = Either<Bulkhead<Watched<S, C>, C>, Watched<S, C>>;
type Limited<S, C> = Either<RateLimit<Queued<S, C>, C>, Queued<S, C>>;
type Retried<S, C, A> = Either<Retry<Limited<S, C>, C, A>, Limited<S, C>>;

/// Puts the recommended layers around a client, in the recommended order. See the [module](super).
#[derive(Clone)]
pub struct LlmStack<C = Auto, A = LlmAmend> {
    identify: IdentifyLayer<C>,
    retry: Option<RetryLayer<C, A>>,
    rate_limit: Option<RateLimitLayer<C>>,
    bulkhead: Option<BulkheadLayer<C>>,
    breaker: Option<SemanticBreakerLayer<C>>,
    validators: Vec<Arc<dyn Validate>>,
    validator: Option<SemanticValidatorLayer<C>>,
    timeout: Option<TimeoutLayer<C>>,
    provider: ProviderLayer<C>,
}

impl LlmStack {
    /// A stack as `config` says, with the classifier [`Auto`] and [`LlmAmend`].
    ///
    /// A part with an impossible value does what its own `new` says: most refuse every call. Use
    /// [`try_new`](LlmStack::try_new) to hear of it.
    pub fn new(config: LlmStackConfig) -> Self {
        let LlmStackConfig { retry, rate_limit, bulkhead, breaker, validator, timeout, provider } = config;
        let validators = validator.validators();
        Self {
            identify: IdentifyLayer::new(),
            retry: retry.into_option().map(|policy| RetryLayer::new(policy).amend(LlmAmend::new())),
            rate_limit: rate_limit.into_option().map(RateLimitLayer::new),
            bulkhead: bulkhead.into_option().map(BulkheadLayer::new),
            breaker: breaker.into_option().map(SemanticBreakerLayer::new),
            validator: (!validators.is_empty()).then(|| SemanticValidatorLayer::new(validators.clone())),
            validators,
            timeout: timeout.into_option().map(TimeoutLayer::new),
            provider: ProviderLayer::new(provider),
        }
    }

    /// A stack as `config` says, with the classifier [`Auto`] and [`LlmAmend`].
    ///
    /// # Errors
    /// Names the field of `config` that has an impossible value.
    pub fn try_new(config: LlmStackConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::new(config))
    }
}

impl<C: Clone, A> LlmStack<C, A> {
    /// Replaces the classifier of every part.
    #[must_use]
    pub fn classifier<D: Clone>(self, classifier: D) -> LlmStack<D, A> {
        LlmStack {
            identify: self.identify.classifier(classifier.clone()),
            retry: self.retry.map(|layer| layer.classifier(classifier.clone())),
            rate_limit: self.rate_limit.map(|layer| layer.classifier(classifier.clone())),
            bulkhead: self.bulkhead.map(|layer| layer.classifier(classifier.clone())),
            breaker: self.breaker.map(|layer| layer.classifier(classifier.clone())),
            validators: self.validators,
            validator: self.validator.map(|layer| layer.classifier(classifier.clone())),
            timeout: self.timeout.map(|layer| layer.classifier(classifier.clone())),
            provider: self.provider.classifier(classifier),
        }
    }

    /// Replaces how requests are changed that would meet the same answer again.
    #[must_use]
    pub fn amend<B>(self, amend: B) -> LlmStack<C, B> {
        LlmStack {
            identify: self.identify,
            retry: self.retry.map(|layer| layer.amend(amend)),
            rate_limit: self.rate_limit,
            bulkhead: self.bulkhead,
            breaker: self.breaker,
            validators: self.validators,
            validator: self.validator,
            timeout: self.timeout,
            provider: self.provider,
        }
    }

    /// Holds answers to `validator` too, such as a `Registry` of tools.
    #[must_use]
    pub fn validate(mut self, validator: impl Validate) -> Self {
        self.validators.push(Arc::new(validator));
        let layer = SemanticValidatorLayer::new(self.validators.clone());
        self.validator = Some(layer.classifier(self.identify.classifier_ref().clone()));
        self
    }

    /// Changes the breaker by what only code can say: a probe, listeners, alerts, a dry run.
    ///
    /// ```
    /// # use tower_belay::stack::{LlmStack, LlmStackConfig};
    /// # use tower_belay::coverage::{Mode, Part};
    /// let watching = LlmStack::new(LlmStackConfig::default()).breaker(|breaker| breaker.dry_run());
    /// assert!(watching.handle().coverage().layers().contains(&(Part::SemanticBreaker, Mode::DryRun)));
    /// ```
    #[must_use]
    pub fn breaker(mut self, change: impl FnOnce(SemanticBreakerLayer<C>) -> SemanticBreakerLayer<C>) -> Self {
        self.breaker = self.breaker.map(change);
        self
    }

    /// Reads and changes what all services of this stack share, and says what guards them.
    pub fn handle(&self) -> LlmHandle
    where
        A: Clone,
    {
        LlmHandle {
            breaker: self.breaker.as_ref().map(SemanticBreakerLayer::handle),
            rate_limit: self.rate_limit.as_ref().map(RateLimitLayer::handle),
            bulkhead: self.bulkhead.as_ref().map(BulkheadLayer::handle),
            coverage: Coverage::of(self),
        }
    }
}

impl<S: Clone, C: Clone, A: Clone> Layer<S> for LlmStack<C, A> {
    type Service = LlmService<S, C, A>;

    fn layer(&self, inner: S) -> Self::Service {
        let service = self.provider.layer(inner);
        let service = maybe(self.timeout.as_ref(), service);
        let service = maybe(self.validator.as_ref(), service);
        let service = maybe(self.breaker.as_ref(), service);
        let service = maybe(self.bulkhead.as_ref(), service);
        let service = maybe(self.rate_limit.as_ref(), service);
        self.identify.layer(maybe(self.retry.as_ref(), service))
    }
}

fn maybe<S, L: Layer<S>>(layer: Option<&L>, inner: S) -> Either<L::Service, S> {
    match layer {
        Some(layer) => Either::Left(layer.layer(inner)),
        None => Either::Right(inner),
    }
}

impl<C, A> fmt::Debug for LlmStack<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmStack")
            .field("retry", &self.retry.is_some())
            .field("rate_limit", &self.rate_limit.is_some())
            .field("bulkhead", &self.bulkhead.is_some())
            .field("breaker", &self.breaker.is_some())
            .field("validator", &self.validator.is_some())
            .field("timeout", &self.timeout.is_some())
            .finish_non_exhaustive()
    }
}
