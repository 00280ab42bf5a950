//! What came of one finished call: [`Verdict`], and the tokens it used: [`Usage`].

use std::sync::Arc;

use tokio::time::Instant;

use crate::reason::{Class, Reason};

/// What came of one finished call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// Why it ended as it did.
    pub reason: Reason,
    /// When the other side says that it may be tried again.
    pub retry_at: Option<Instant>,
    // Every layer passes verdicts on, and most of them say no more than their reason.
    detail: Option<Box<Detail>>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Detail {
    usage: Option<Usage>,
    receipt: Option<Arc<str>>,
    digest: Option<u64>,
    score: Option<f64>,
    cost: Option<f64>,
    should_retry: Option<bool>,
    note: Option<Arc<str>>,
}

impl Verdict {
    /// A verdict that says no more than `reason`.
    pub const fn new(reason: Reason) -> Self {
        Self { reason, retry_at: None, detail: None }
    }

    /// The call was answered in full.
    pub const fn completed() -> Self {
        Self::new(Reason::Completed)
    }

    /// Sets when it may be tried again.
    #[must_use]
    pub fn with_retry_at(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.retry_at = at.into();
        self
    }

    /// Sets the tokens used.
    #[must_use]
    pub fn with_usage(self, usage: impl Into<Option<Usage>>) -> Self {
        let usage = usage.into();
        self.with(usage.is_some(), |detail| detail.usage = usage)
    }

    /// Sets the proof that the write was applied.
    #[must_use]
    pub fn with_receipt(self, receipt: impl Into<Arc<str>>) -> Self {
        self.with(true, |detail| detail.receipt = Some(receipt.into()))
    }

    /// Sets a digest of the result, equal for equal results.
    #[must_use]
    pub fn with_digest(self, digest: u64) -> Self {
        self.with(true, |detail| detail.digest = Some(digest))
    }

    /// Sets how good the answer is, in the unit of whoever scores it.
    #[must_use]
    pub fn with_score(self, score: f64) -> Self {
        self.with(true, |detail| detail.score = Some(score))
    }

    /// Sets what the call cost, in the unit of whoever prices it.
    #[must_use]
    pub fn with_cost(self, cost: f64) -> Self {
        self.with(true, |detail| detail.cost = Some(cost))
    }

    /// Sets what the other side says of sending the same request again.
    #[must_use]
    pub fn with_should_retry(self, should: impl Into<Option<bool>>) -> Self {
        let should = should.into();
        self.with(should.is_some(), |detail| detail.should_retry = should)
    }

    /// Sets what was wrong, in our own words and schema-derived facts only: it is safe to show a model.
    #[must_use]
    pub fn with_note(self, note: impl Into<Arc<str>>) -> Self {
        self.with(true, |detail| detail.note = Some(note.into()))
    }

    /// The tokens that the provider states; `None` where it states none, which is not zero.
    pub fn usage(&self) -> Option<Usage> {
        self.detail.as_ref()?.usage
    }

    /// Proof that a write was applied, in the target's own words (an id, a version).
    pub fn receipt(&self) -> Option<&str> {
        self.detail.as_ref()?.receipt.as_deref()
    }

    /// A digest of the result, equal for equal results.
    pub fn digest(&self) -> Option<u64> {
        self.detail.as_ref()?.digest
    }

    /// How good the answer is, in the unit of whoever scored it.
    pub fn score(&self) -> Option<f64> {
        self.detail.as_ref()?.score
    }

    /// What the call cost, in the unit of whoever priced it.
    pub fn cost(&self) -> Option<f64> {
        self.detail.as_ref()?.cost
    }

    /// What the other side says of sending the same request again, such as with `x-should-retry`.
    pub fn should_retry(&self) -> Option<bool> {
        self.detail.as_ref()?.should_retry
    }

    /// What was wrong, in words that are safe to show a model.
    pub fn note(&self) -> Option<&str> {
        self.detail.as_ref()?.note.as_deref()
    }

    fn with(mut self, says_something: bool, set: impl FnOnce(&mut Detail)) -> Self {
        if says_something || self.detail.is_some() {
            set(self.detail.get_or_insert_default());
        }
        self
    }

    /// The class of the reason.
    #[inline]
    pub const fn class(&self) -> Class {
        self.reason.class()
    }

    /// Whether the call was answered as asked.
    #[inline]
    pub const fn is_success(&self) -> bool {
        self.reason.is_success()
    }
}

impl From<Reason> for Verdict {
    fn from(reason: Reason) -> Self {
        Self::new(reason)
    }
}

/// The tokens of one call as the provider stated them; nothing here is computed.
///
/// Providers disagree on what includes what, so each reading says it: whether `input_tokens` already contains the
/// cached ones, and whether `output_tokens` contains the reasoning. Use [`input_total`](Usage::input_total) and
/// [`output_total`](Usage::output_total) for sums that count everything once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Input tokens as stated.
    pub input_tokens: Option<u64>,
    /// Output tokens as stated.
    pub output_tokens: Option<u64>,
    /// The total as stated.
    pub total_tokens: Option<u64>,
    /// Input tokens read from a cache.
    pub cached_input_tokens: Option<u64>,
    /// Input tokens written to a cache.
    pub cache_write_input_tokens: Option<u64>,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Whether `input_tokens` contains the cached ones (read and written); false where they come on top.
    pub input_includes_cached: bool,
    /// Whether `output_tokens` contains the reasoning; false where it comes on top.
    pub output_includes_reasoning: bool,
}

impl Usage {
    /// All input tokens, each counted once; `None` where the provider states no input.
    pub fn input_total(&self) -> Option<u64> {
        let input = self.input_tokens?;
        if self.input_includes_cached {
            return Some(input);
        }
        let cached = self.cached_input_tokens.unwrap_or(0);
        Some(input.saturating_add(cached).saturating_add(self.cache_write_input_tokens.unwrap_or(0)))
    }

    /// All output tokens, each counted once; `None` where the provider states no output.
    pub fn output_total(&self) -> Option<u64> {
        let output = self.output_tokens?;
        if self.output_includes_reasoning {
            return Some(output);
        }
        Some(output.saturating_add(self.reasoning_tokens.unwrap_or(0)))
    }
}
