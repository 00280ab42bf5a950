//! The layer and its setters.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{LoopDetector, LoopHandle, LoopPolicy, ToolCalls, shared::Shared};
use crate::{classify::Auto, config_error::ConfigError, events::Listener};

/// Puts a [`LoopDetector`] around a service. All services made from one layer, and from its clones, watch the same
/// runs.
///
/// See the [module](super) for what it finds.
pub struct LoopDetectorLayer<C = Auto, O = ToolCalls> {
    shared: Arc<Shared>,
    classifier: C,
    observer: O,
}

impl LoopDetectorLayer {
    /// Watches by `policy`, calls that are [`ToolCall`](crate::ToolCall)s and named by [`Auto`].
    ///
    /// An impossible value makes a layer that refuses every call, with the code `misconfigured`: use
    /// [`try_new`](LoopDetectorLayer::try_new) to hear of it at once.
    pub fn new(policy: LoopPolicy) -> Self {
        Self { shared: Arc::new(Shared::new(policy)), classifier: Auto, observer: ToolCalls }
    }

    /// Watches by `policy`, calls that are [`ToolCall`](crate::ToolCall)s and named by [`Auto`].
    ///
    /// # Errors
    /// Names the field of `policy` that has an impossible value.
    pub fn try_new(policy: LoopPolicy) -> Result<Self, ConfigError> {
        policy.validate()?;
        Ok(Self::new(policy))
    }
}

impl<C, O> LoopDetectorLayer<C, O> {
    /// Replaces what names a call: its run, its effect, its turn and step.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> LoopDetectorLayer<D, O> {
        LoopDetectorLayer { shared: self.shared, classifier, observer: self.observer }
    }

    /// Replaces what reads calls and results, such as [`observe_fn`](super::observe_fn).
    #[must_use]
    pub fn observe<P>(self, observer: P) -> LoopDetectorLayer<C, P> {
        LoopDetectorLayer { shared: self.shared, classifier: self.classifier, observer }
    }

    /// Only watches: nothing is refused and no result is changed. What would be is reported.
    #[must_use]
    pub fn dry_run(self) -> Self {
        self.shared.set_dry_run();
        self
    }

    /// Tells `listener` of every warning and every refusal.
    #[must_use]
    pub fn listener(self, listener: impl Listener) -> Self {
        self.shared.listen(listener);
        self
    }

    /// Reads and steers the runs that all services of this layer watch.
    pub fn handle(&self) -> LoopHandle {
        LoopHandle::new(self.shared.clone())
    }
}

impl<S, C: Clone, O: Clone> Layer<S> for LoopDetectorLayer<C, O> {
    type Service = LoopDetector<S, C, O>;

    fn layer(&self, inner: S) -> Self::Service {
        LoopDetector::new(inner, self.shared.clone(), self.classifier.clone(), self.observer.clone())
    }
}

impl<C: Clone, O: Clone> Clone for LoopDetectorLayer<C, O> {
    fn clone(&self) -> Self {
        let Self { shared, classifier, observer } = self;
        Self { shared: shared.clone(), classifier: classifier.clone(), observer: observer.clone() }
    }
}

impl<C, O> fmt::Debug for LoopDetectorLayer<C, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopDetectorLayer").finish_non_exhaustive()
    }
}
