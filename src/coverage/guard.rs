//! Services that say what guards them: [`Guard`].

use std::task::{Context, Poll};

use tower::util::Either;
use tower_layer::Layer;
use tower_service::Service;

use super::{Coverage, Mode, Part};

/// A service that says which layers it is made of.
pub trait Guard {
    /// Adds itself to `coverage`, and then what is inside of it.
    fn report(&self, coverage: &mut Coverage);
}

/// What stands in the place of the client while layers are asked.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Probe;

impl Guard for Probe {
    fn report(&self, _: &mut Coverage) {}
}

impl<A: Guard, B: Guard> Guard for Either<A, B> {
    fn report(&self, coverage: &mut Coverage) {
        match self {
            Self::Left(service) => service.report(coverage),
            Self::Right(service) => service.report(coverage),
        }
    }
}

/// Lets a layer of somebody else stand in a stack that is asked for its [`Coverage`].
///
/// ```
/// # use std::time::Duration;
/// # use tower::{ServiceBuilder, timeout::TimeoutLayer};
/// # use tower_belay::{IdentifyLayer, coverage::{Coverage, Part, foreign}};
/// let stack = ServiceBuilder::new()
///     .layer(foreign("tower::timeout", TimeoutLayer::new(Duration::from_secs(1))))
///     .layer(IdentifyLayer::new());
/// let coverage = Coverage::of(&stack);
/// assert!(coverage.guards(Part::Foreign("tower::timeout")) && coverage.guards(Part::Identify));
/// ```
pub const fn foreign<L>(name: &'static str, layer: L) -> Foreign<L> {
    Foreign { name, layer }
}

/// A layer of somebody else with a name, see [`foreign`].
#[derive(Debug, Clone, Copy)]
pub struct Foreign<L> {
    name: &'static str,
    layer: L,
}

/// A service of somebody else with a name, see [`foreign`].
#[derive(Debug, Clone, Copy)]
pub struct Named<S, T> {
    name: &'static str,
    service: T,
    /// A second handle of what is inside, as `service` does not show it.
    inside: S,
}

impl<S: Clone, L: Layer<S>> Layer<S> for Foreign<L> {
    type Service = Named<S, L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        Named { name: self.name, inside: inner.clone(), service: self.layer.layer(inner) }
    }
}

impl<S, T: Service<Req>, Req> Service<Req> for Named<S, T> {
    type Response = T::Response;
    type Error = T::Error;
    type Future = T::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), T::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> T::Future {
        self.service.call(request)
    }
}

impl<S: Guard, T> Guard for Named<S, T> {
    fn report(&self, coverage: &mut Coverage) {
        coverage.add(Part::Foreign(self.name), Mode::Enforcing);
        self.inside.report(coverage);
    }
}
