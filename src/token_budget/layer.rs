//! The layer and its setters.

use std::fmt;

use tower_layer::Layer;

use super::{
    TokenBudget,
    config::Budget,
    estimate::ByBody,
    handle::BudgetHandle,
    service::{Counts, Local},
    shared::Till,
};
use crate::{amend::NoAmend, classify::Auto, config_error::ConfigError, events::Listener};

/// Puts a [`TokenBudget`] around a service. All services of one handle share its accounts.
///
/// See the [module](super) for what it refuses.
pub struct TokenBudgetLayer<C = Auto, A = NoAmend, E = ByBody> {
    handle: BudgetHandle,
    counts: Counts,
    dry_run: bool,
    classifier: C,
    amend: A,
    estimate: E,
}

impl TokenBudgetLayer {
    /// Holds calls to `budget`, with the classifier [`Auto`] and without changing requests.
    ///
    /// An impossible value makes a layer that refuses every call, with the code `misconfigured`: use
    /// [`try_new`](TokenBudgetLayer::try_new) to hear of it at once.
    pub fn new(budget: Budget) -> Self {
        Self::with_handle(&BudgetHandle::new(budget))
    }

    /// Holds calls to `budget`, with the classifier [`Auto`] and without changing requests.
    ///
    /// # Errors
    /// Names the field of `budget` that has an impossible value.
    pub fn try_new(budget: Budget) -> Result<Self, ConfigError> {
        BudgetHandle::try_new(budget).map(|handle| Self::with_handle(&handle))
    }

    /// Spends from the accounts of `handle`, as other layers do.
    pub fn with_handle(handle: &BudgetHandle) -> Self {
        Self {
            handle: handle.clone(),
            counts: Counts::Tokens,
            dry_run: false,
            classifier: Auto,
            amend: NoAmend,
            estimate: ByBody,
        }
    }
}

impl<C, A, E> TokenBudgetLayer<C, A, E> {
    /// Replaces the classifier.
    #[must_use]
    pub fn classifier<D>(self, classifier: D) -> TokenBudgetLayer<D, A, E> {
        let Self { handle, counts, dry_run, amend, estimate, .. } = self;
        TokenBudgetLayer { handle, counts, dry_run, classifier, amend, estimate }
    }

    /// Changes the requests of a run that has to finish, so that they ask for its final answer and offer no tools.
    #[must_use]
    pub fn amend<B>(self, amend: B) -> TokenBudgetLayer<C, B, E> {
        let Self { handle, counts, dry_run, classifier, estimate, .. } = self;
        TokenBudgetLayer { handle, counts, dry_run, classifier, amend, estimate }
    }

    /// Replaces what measures requests before they are sent.
    #[must_use]
    pub fn estimate<F>(self, estimate: F) -> TokenBudgetLayer<C, A, F> {
        let Self { handle, counts, dry_run, classifier, amend, .. } = self;
        TokenBudgetLayer { handle, counts, dry_run, classifier, amend, estimate }
    }

    /// Stands around tools: each call is one step, and no tokens.
    #[must_use]
    pub fn counts_steps(self) -> Self {
        Self { counts: Counts::Steps, ..self }
    }

    /// Only counts: nothing is refused and no request is changed. What would be refused is reported.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    /// Tells `listener` of every refusal and every [`Signal`](super::Signal), of all layers with the same handle.
    #[must_use]
    pub fn listener(self, listener: impl Listener) -> Self {
        self.handle.shared.listen(listener);
        self
    }

    /// Reads the accounts and steers them.
    pub fn handle(&self) -> BudgetHandle {
        self.handle.clone()
    }
}

impl<S, C: Clone, A: Clone, E: Clone> Layer<S> for TokenBudgetLayer<C, A, E> {
    type Service = TokenBudget<S, C, A, E>;

    fn layer(&self, inner: S) -> Self::Service {
        TokenBudget::new(
            inner,
            Local {
                till: Till::new(&self.handle.shared),
                counts: self.counts,
                dry_run: self.dry_run,
                classifier: self.classifier.clone(),
                amend: self.amend.clone(),
                estimate: self.estimate.clone(),
            },
        )
    }
}

impl<C: Clone, A: Clone, E: Clone> Clone for TokenBudgetLayer<C, A, E> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
            counts: self.counts,
            dry_run: self.dry_run,
            classifier: self.classifier.clone(),
            amend: self.amend.clone(),
            estimate: self.estimate.clone(),
        }
    }
}

impl<C, A, E> fmt::Debug for TokenBudgetLayer<C, A, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBudgetLayer").field("dry_run", &self.dry_run).finish_non_exhaustive()
    }
}
