//! What tokens cost: [`PriceTable`], in integers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::amount::Amount;
use crate::verdict::Usage;

/// What a million tokens of one model cost, in billionths of a dollar: three dollars are `3_000_000_000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Price {
    /// Input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from a cache. Default: as other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    /// Input written to a cache. Default: as other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Output spent on reasoning. Default: as other output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// The prices of models, by the name that a [`Call`](crate::Call) has as its operation.
///
/// It is empty: prices change, and one that is made up is worse than none. A name that ends in `*` stands for all that
/// begin like it; of several the longest counts, and a whole name before all of them.
///
/// ```
/// # use tower_belay::token_budget::{Price, PriceTable};
/// let prices: PriceTable = toml::from_str(r#"
///     "small*" = { input = 150_000_000, output = 600_000_000 }
///     "small-2" = { input = 100_000_000, output = 400_000_000, cached_input = 10_000_000 }
/// "#).unwrap();
/// assert_eq!(prices.get("small-1").map(|price| price.output), Some(600_000_000));
/// assert_eq!(prices.get("small-2").map(|price| price.output), Some(400_000_000));
/// assert_eq!(prices.get("large"), None);
/// assert_eq!(PriceTable::default().model("large", Price::new(1, 2)).get("large"), Some(Price::new(1, 2)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PriceTable {
    models: BTreeMap<String, Price>,
}

/// What becomes of a call whose price nobody knows, where money is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unpriced {
    /// It is refused: an unknown price is not free.
    #[default]
    Refuse,
    /// It is sent, its tokens count and no money does.
    Allow,
}

// === impl PriceTable ===

impl PriceTable {
    /// Sets the price of `model`, or of all whose names begin like it if it ends in `*`.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>, price: Price) -> Self {
        self.models.insert(model.into(), price);
        self
    }

    /// The price of `model`.
    pub fn get(&self, model: &str) -> Option<Price> {
        let begins = |pattern: &str| pattern.strip_suffix('*').is_some_and(|begin| model.starts_with(begin));
        let by_beginning = || {
            let fitting = self.models.iter().filter(|(pattern, _)| begins(pattern));
            fitting.max_by_key(|(pattern, _)| pattern.len()).map(|(_, price)| price)
        };
        self.models.get(model).or_else(by_beginning).copied()
    }
}

// === impl Price ===

const MILLION: u128 = 1_000_000;

impl Price {
    /// So much for a million tokens of input and of output, in billionths of a dollar.
    pub const fn new(input: u64, output: u64) -> Self {
        Self { input, output, cached_input: None, cache_write: None, reasoning: None }
    }

    /// Sets the price of input that is read from a cache.
    #[must_use]
    pub const fn cached_input(mut self, price: u64) -> Self {
        self.cached_input = Some(price);
        self
    }

    /// Sets the price of input that is written to a cache.
    #[must_use]
    pub const fn cache_write(mut self, price: u64) -> Self {
        self.cache_write = Some(price);
        self
    }

    /// Sets the price of reasoning.
    #[must_use]
    pub const fn reasoning(mut self, price: u64) -> Self {
        self.reasoning = Some(price);
        self
    }

    /// The most that a token of input may cost.
    fn dearest_input(&self) -> u64 {
        self.input.max(self.cache_write.unwrap_or(0))
    }

    /// The most that a token of output may cost.
    fn dearest_output(&self) -> u64 {
        self.output.max(self.reasoning.unwrap_or(0))
    }

    /// The most that so many tokens may cost.
    pub(super) fn at_most(&self, input: u64, output: u64) -> u64 {
        nano_dollars(times(input, self.dearest_input()).saturating_add(times(output, self.dearest_output())))
    }

    /// How much output is certainly paid with `money`, after so much input.
    pub(super) fn affordable_output(&self, money: u128, input: u64) -> u64 {
        let Some(rest) = money.saturating_mul(MILLION).checked_sub(times(input, self.dearest_input())) else {
            return 0;
        };
        match rest.checked_div(self.dearest_output().into()) {
            Some(output) => u64::try_from(output).unwrap_or(u64::MAX),
            None => u64::MAX,
        }
    }

    /// What `amount` costs, of which `usage` says what was cached and what was reasoning.
    pub(super) fn of(&self, amount: &Amount, usage: &Usage) -> u64 {
        let cached = usage.cached_input_tokens.unwrap_or(0).min(amount.input_tokens);
        let written = usage.cache_write_input_tokens.unwrap_or(0).min(amount.input_tokens - cached);
        let thought = usage.reasoning_tokens.unwrap_or(0).min(amount.output_tokens);
        let parts = [
            times(cached, self.cached_input.unwrap_or(self.input)),
            times(written, self.cache_write.unwrap_or(self.input)),
            times(amount.input_tokens - cached - written, self.input),
            times(thought, self.reasoning.unwrap_or(self.output)),
            times(amount.output_tokens - thought, self.output),
        ];
        nano_dollars(parts.into_iter().fold(0, u128::saturating_add))
    }
}

fn times(tokens: u64, price: u64) -> u128 {
    u128::from(tokens) * u128::from(price)
}

/// Rounded up once, at the end.
fn nano_dollars(millionths: u128) -> u64 {
    match u64::try_from(millionths) {
        // Almost always, and many times faster.
        Ok(millionths) => millionths.div_ceil(MILLION as u64),
        Err(_) => u64::try_from(millionths.div_ceil(MILLION)).unwrap_or(u64::MAX),
    }
}
