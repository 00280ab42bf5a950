//! Puts [`Respond`] around a service.

use tower_layer::Layer;

use super::Respond;

/// Answers every error of the services inside, see the [module](super).
#[derive(Debug, Clone, Copy, Default)]
pub struct RespondLayer(());

impl RespondLayer {
    /// Answers every error.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for RespondLayer {
    type Service = Respond<S>;

    fn layer(&self, inner: S) -> Respond<S> {
        Respond::new(inner)
    }
}
