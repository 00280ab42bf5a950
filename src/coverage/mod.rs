//! Says which layers a stack has, and whether their order keeps what they promise: [`Coverage`].
//!
//! Every layer works alone, and a wrong order breaks none of them: it only makes one blind to another, and that shows
//! on the day of an outage. So a stack can be asked. The order that is recommended for calls to models, from the outside:
//!
//! ```text
//! respond → identify → fallback → retry → token budget → rate limit → bulkhead → semantic breaker → semantic validator → timeout → provider
//! ```
//!
//! Each attempt is counted against the rate, queued and judged alone; who queues does so before the breaker, so that a
//! trip sends nothing that was queued; the breaker sees timeouts and answers that are not valid. Any subset works.
//! Around a tool there is no provider, and the validator, which then looks at requests, stands outside of retries.
//!
//! [`MISTAKES`] lists what can be wrong, and what it costs. `tests/stack_order.rs` measures each.
//!
//! ```
//! use tower::ServiceBuilder;
//! use tower_belay::{BulkheadConfig, BulkheadLayer, RetryLayer, RetryPolicy, SemanticBreakerLayer, TripCard};
//! use tower_belay::coverage::{Coverage, Part};
//!
//! let good = ServiceBuilder::new()
//!     .layer(RetryLayer::new(RetryPolicy::default()))
//!     .layer(BulkheadLayer::new(BulkheadConfig::default()))
//!     .layer(SemanticBreakerLayer::new(TripCard::default()));
//! let coverage = Coverage::of(&good);
//! assert!(coverage.guards(Part::Bulkhead) && coverage.mistakes().is_empty());
//!
//! let bad = ServiceBuilder::new()
//!     .layer(SemanticBreakerLayer::new(TripCard::default()))
//!     .layer(BulkheadLayer::new(BulkheadConfig::default()));
//! let mistakes = Coverage::of(&bad).mistakes();
//! assert_eq!(mistakes[0].code, "queue_inside_breaker");
//! ```

mod guard;
mod order;

use std::fmt;

use tower_layer::Layer;

pub use guard::{Foreign, Guard, Named, Probe, foreign};
pub use order::{MISTAKES, Mistake};

/// What a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// [`RespondLayer`](crate::RespondLayer).
    Respond,
    /// [`IdentifyLayer`](crate::IdentifyLayer).
    Identify,
    /// `FallbackLayer`.
    Fallback,
    /// [`RetryLayer`](crate::RetryLayer).
    Retry,
    /// [`TokenBudgetLayer`](crate::TokenBudgetLayer).
    TokenBudget,
    /// `RateLimitLayer`.
    RateLimit,
    /// [`BulkheadLayer`](crate::BulkheadLayer).
    Bulkhead,
    /// [`SemanticBreakerLayer`](crate::SemanticBreakerLayer).
    SemanticBreaker,
    /// `SemanticValidatorLayer`.
    SemanticValidator,
    /// [`TimeoutLayer`](crate::TimeoutLayer).
    Timeout,
    /// `ProviderLayer`.
    Provider,
    /// A layer of somebody else, see [`foreign`].
    Foreign(&'static str),
}

impl Part {
    /// The name that refusals and metrics use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Respond => "respond",
            Self::Identify => "identify",
            Self::Fallback => "fallback",
            Self::Retry => "retry",
            Self::TokenBudget => "token_budget",
            Self::RateLimit => "rate_limit",
            Self::Bulkhead => "bulkhead",
            Self::SemanticBreaker => "semantic_breaker",
            Self::SemanticValidator => "semantic_validator",
            Self::Timeout => "timeout",
            Self::Provider => "provider",
            Self::Foreign(name) => name,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a layer acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// It does what it says.
    Enforcing,
    /// It only reports what it would do.
    DryRun,
    /// Its configuration switches it off.
    Off,
    /// Its configuration is impossible.
    Misconfigured,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Enforcing => "enforcing",
            Self::DryRun => "dry run",
            Self::Off => "off",
            Self::Misconfigured => "misconfigured",
        }
    }
}

/// Which layers a stack has, from the outside in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    layers: Vec<(Part, Mode)>,
}

impl Coverage {
    /// What services behind `layers` are guarded by: one layer, or all of a `ServiceBuilder`.
    pub fn of<L>(layers: &L) -> Self
    where
        L: Layer<Probe>,
        L::Service: Guard,
    {
        let mut coverage = Self::default();
        layers.layer(Probe).report(&mut coverage);
        coverage
    }

    /// Adds a layer inside of those that are there.
    pub fn add(&mut self, part: Part, mode: Mode) {
        self.layers.push((part, mode));
    }

    /// The layers, from the outside in.
    pub fn layers(&self) -> &[(Part, Mode)] {
        &self.layers
    }

    /// Whether `part` is there and acts.
    pub fn guards(&self, part: Part) -> bool {
        self.layers.contains(&(part, Mode::Enforcing))
    }

    /// What is wrong with the order, each with what it costs.
    pub fn mistakes(&self) -> Vec<&'static Mistake> {
        let parts: Vec<Part> = self.layers.iter().map(|(part, _)| *part).collect();
        MISTAKES.iter().filter(|mistake| mistake.is_in(&parts)).collect()
    }

    /// Fails a test whose stack is wrongly ordered, or lacks one of `needed`, or has it and does not use it.
    ///
    /// # Panics
    /// Says all that is wrong.
    #[track_caller]
    pub fn assert_guarded(&self, needed: &[Part]) {
        let missing = needed.iter().filter(|part| !self.guards(**part)).map(|part| format!("{part} does not guard"));
        let wrong = self.mistakes().into_iter().map(|mistake| format!("{}: {}", mistake.code, mistake.harm));
        let all: Vec<String> = missing.chain(wrong).collect();
        assert!(all.is_empty(), "{}\nin the stack\n{self}", all.join("\n"));
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, mode) in &self.layers {
            writeln!(f, "{:<20} {}", part.name(), mode.name())?;
        }
        for mistake in self.mistakes() {
            writeln!(f, "! {}: {}", mistake.code, mistake.harm)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(parts: &[Part]) -> Coverage {
        Coverage { layers: parts.iter().map(|part| (*part, Mode::Enforcing)).collect() }
    }

    const RECOMMENDED: [Part; 11] = [
        Part::Respond,
        Part::Identify,
        Part::Fallback,
        Part::Retry,
        Part::TokenBudget,
        Part::RateLimit,
        Part::Bulkhead,
        Part::SemanticBreaker,
        Part::SemanticValidator,
        Part::Timeout,
        Part::Provider,
    ];

    #[test]
    fn the_recommended_order_and_every_subset_of_it_has_no_mistake() {
        for set in 0_u32..1 << RECOMMENDED.len() {
            let parts = RECOMMENDED.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0).map(|(_, part)| *part);
            let parts: Vec<Part> = parts.collect();
            let reads = parts.contains(&Part::Provider) || !parts.contains(&Part::SemanticValidator);
            assert_eq!(stack(&parts).mistakes().is_empty(), reads || !parts.contains(&Part::Retry), "{parts:?}");
        }
    }

    #[test]
    fn every_two_neighbours_that_matter_to_each_other_are_missed_when_they_change_places() {
        let unordered = [(Part::Respond, Part::Identify), (Part::RateLimit, Part::Bulkhead)];
        for at in 0..RECOMMENDED.len() - 1 {
            let mut parts = RECOMMENDED;
            parts.swap(at, at + 1);
            let harmless = unordered.contains(&(RECOMMENDED[at], RECOMMENDED[at + 1]));
            assert_eq!(stack(&parts).mistakes().is_empty(), harmless, "{parts:?}");
        }
    }

    #[test]
    #[should_panic(expected = "bulkhead does not guard\nqueue_inside_breaker")]
    fn an_assertion_says_all_that_is_wrong() {
        let mut coverage = stack(&[Part::SemanticBreaker]);
        coverage.add(Part::Bulkhead, Mode::DryRun);
        coverage.assert_guarded(&[Part::Bulkhead, Part::SemanticBreaker]);
    }
}
