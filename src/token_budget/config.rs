//! How much may be spent: [`Budget`].

use serde::{Deserialize, Serialize};

use super::{
    amount::Level,
    limits::Limits,
    price::{PriceTable, Unpriced},
};
use crate::config_error::ConfigError;

/// How much a run, an agent class and a tenant may spend. Nothing is limited until you say so.
///
/// ```
/// # use tower_belay::token_budget::{Budget, Limits};
/// let budget: Budget = toml::from_str(r#"
///     soft_percent = 75
///     [run]
///     tokens = 200_000
///     wall_time = "30m"
///     [tenant]
///     nano_dollars = 50_000_000_000
/// "#).unwrap();
/// assert_eq!((budget.run.tokens, budget.agent.tokens), (Some(200_000), None));
/// // The numbers of the articles.
/// assert_eq!(Budget::starter().run, Limits::default().tokens(10_000).steps(8));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Budget {
    /// What one run may spend.
    pub run: Limits,
    /// What all runs of one agent class may spend.
    pub agent: Limits,
    /// What all agents of one tenant may spend.
    pub tenant: Limits,
    /// The share of a limit at which a run is told to finish. Default 80.
    pub soft_percent: u32,
    /// The share of a limit that only the answer of a run that was told to finish may use. Default 10, and never less
    /// than a request as long as the one at hand needs for [`least_answer`](Budget::least_answer).
    pub kept_back_percent: u32,
    /// The shortest final answer that is worth asking for, in tokens; with less left nothing is sent. Default 256.
    pub least_answer: u64,
    /// Tokens of one run without progress, after which a signal is raised. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_progress_tokens: Option<u64>,
    /// What tokens cost. Default empty.
    pub prices: PriceTable,
    /// What becomes of calls without a price, where money is limited. Default: refused.
    pub unpriced: Unpriced,
    /// How calls are measured before they are sent.
    pub estimate: EstimateRules,
}

/// How a call is measured for which nobody set an [`estimate`](crate::Call::estimate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EstimateRules {
    /// Bytes of the request's body that make one token, tool definitions among them. Default 3: English has about
    /// four, and most else has less.
    pub bytes_per_token: u64,
    /// Tokens of an image. Default 1,600, what Anthropic's documentation gives for the largest that is not scaled down.
    pub image_tokens: u64,
    /// Input of a request that cannot be read. Default 1,024.
    pub input_tokens: u64,
    /// Output of a request that states no limit on it. Default 1,024. Requests that state one are held to it.
    pub output_tokens: u64,
}

// === impl Budget ===

impl Default for Budget {
    fn default() -> Self {
        Self {
            run: Limits::default(),
            agent: Limits::default(),
            tenant: Limits::default(),
            soft_percent: 80,
            kept_back_percent: 10,
            least_answer: 256,
            no_progress_tokens: None,
            prices: PriceTable::default(),
            unpriced: Unpriced::Refuse,
            estimate: EstimateRules::default(),
        }
    }
}

impl Budget {
    /// The numbers of the articles that this crate grew from: 8 tool calls a run (the trip card), 10,000 tokens a run
    /// (the state of the agent loop), a soft stop at 80 % (the budget manager). Initial controls, not benchmarks.
    pub fn starter() -> Self {
        Self::default().run(Limits::default().tokens(10_000).steps(8))
    }

    /// Limits nothing; what is spent is still counted.
    pub fn off() -> Self {
        Self::default()
    }

    /// Sets what one run may spend.
    #[must_use]
    pub const fn run(mut self, limits: Limits) -> Self {
        self.run = limits;
        self
    }

    /// Sets what all runs of one agent class may spend.
    #[must_use]
    pub const fn agent(mut self, limits: Limits) -> Self {
        self.agent = limits;
        self
    }

    /// Sets what all agents of one tenant may spend.
    #[must_use]
    pub const fn tenant(mut self, limits: Limits) -> Self {
        self.tenant = limits;
        self
    }

    /// Sets the share of a limit at which a run is told to finish.
    #[must_use]
    pub const fn soft_percent(mut self, percent: u32) -> Self {
        self.soft_percent = percent;
        self
    }

    /// Sets the share of a limit that only final answers may use.
    #[must_use]
    pub const fn kept_back_percent(mut self, percent: u32) -> Self {
        self.kept_back_percent = percent;
        self
    }

    /// Sets the shortest final answer that is worth asking for.
    #[must_use]
    pub const fn least_answer(mut self, tokens: u64) -> Self {
        self.least_answer = tokens;
        self
    }

    /// Sets how many tokens without progress raise a signal.
    #[must_use]
    pub const fn no_progress_tokens(mut self, tokens: u64) -> Self {
        self.no_progress_tokens = Some(tokens);
        self
    }

    /// Sets what tokens cost.
    #[must_use]
    pub fn prices(mut self, prices: PriceTable) -> Self {
        self.prices = prices;
        self
    }

    /// Sets what becomes of calls without a price.
    #[must_use]
    pub const fn unpriced(mut self, unpriced: Unpriced) -> Self {
        self.unpriced = unpriced;
        self
    }

    /// Sets how calls are measured.
    #[must_use]
    pub const fn estimate(mut self, rules: EstimateRules) -> Self {
        self.estimate = rules;
        self
    }

    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.soft_percent > 100 {
            return Err(ConfigError::new("soft_percent", "must be at most 100"));
        }
        if self.kept_back_percent > 100 {
            return Err(ConfigError::new("kept_back_percent", "must be at most 100"));
        }
        if self.estimate.bytes_per_token == 0 {
            return Err(ConfigError::new("estimate.bytes_per_token", "must be at least 1"));
        }
        Ok(())
    }

    pub(super) const fn limits(&self, level: Level) -> Limits {
        match level {
            Level::Run => self.run,
            Level::Agent => self.agent,
            Level::Tenant => self.tenant,
        }
    }
}

// === impl EstimateRules ===

impl Default for EstimateRules {
    fn default() -> Self {
        Self { bytes_per_token: 3, image_tokens: 1_600, input_tokens: 1_024, output_tokens: 1_024 }
    }
}

impl EstimateRules {
    /// Sets the bytes that make one token.
    #[must_use]
    pub const fn bytes_per_token(mut self, bytes: u64) -> Self {
        self.bytes_per_token = bytes;
        self
    }

    /// Sets the tokens of an image.
    #[must_use]
    pub const fn image_tokens(mut self, tokens: u64) -> Self {
        self.image_tokens = tokens;
        self
    }

    /// Sets the input of a request that cannot be read.
    #[must_use]
    pub const fn input_tokens(mut self, tokens: u64) -> Self {
        self.input_tokens = tokens;
        self
    }

    /// Sets the output of a request that states no limit on it.
    #[must_use]
    pub const fn output_tokens(mut self, tokens: u64) -> Self {
        self.output_tokens = tokens;
        self
    }
}
