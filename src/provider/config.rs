//! What [`ProviderLayer`](super::ProviderLayer) reads, and for how long it waits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config_error::ConfigError;

/// How an answer is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delivery {
    /// As it comes, from its first visible output on. What breaks later ends as an error for the reader.
    #[default]
    Live,
    /// Collected first, then handed on as a whole, so that a retry may act on whatever went wrong.
    Whole,
}

/// Whether streams are made to report their usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IncludeUsage {
    /// Asks hosts that are known to accept `stream_options.include_usage`, where the request says nothing of it.
    #[default]
    KnownHosts,
    /// Asks every host that is spoken to in OpenAI chat.
    Always,
    /// Leaves requests as they are.
    Never,
}

/// What [`ProviderLayer`](super::ProviderLayer) reads, and for how long it waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ProviderConfig {
    /// How an answer is handed on. Default: live.
    pub delivery: Delivery,
    /// Whether streams are made to report their usage. Default: where the host is known to accept it.
    pub include_usage: IncludeUsage,
    /// The longest wait for the first byte of an answer; zero waits for ever. Default 10 min, as the providers' own
    /// SDKs do: an answer that is not streamed comes only when it is finished.
    #[serde(with = "crate::human")]
    pub first_byte: Duration,
    /// The longest silence within an answer; zero waits for ever. Default 2 min: reasoning can be silent for long.
    #[serde(with = "crate::human")]
    pub idle: Duration,
    /// How much of an error body is read. Default 256 KiB.
    pub max_error: usize,
    /// How much of a JSON answer is read, and how much of a stream is collected. A longer one is handed on unread.
    /// Default 16 MiB.
    pub max_body: usize,
    /// How much of a stream is held back until its first visible output. Default 64 KiB.
    pub max_held: usize,
    /// How long a stream is held back after its first event. Default 1 s.
    #[serde(with = "crate::human")]
    pub max_hold: Duration,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            delivery: Delivery::Live,
            include_usage: IncludeUsage::KnownHosts,
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(120),
            max_error: 256 << 10,
            max_body: 16 << 20,
            max_held: 64 << 10,
            max_hold: Duration::from_secs(1),
        }
    }
}

macro_rules! setters {
    ($($field:ident: $type:ty, $doc:literal;)*) => {
        impl ProviderConfig {
            $(#[doc = $doc]
            #[must_use]
            pub const fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

setters! {
    delivery: Delivery, "Sets how an answer is handed on.";
    include_usage: IncludeUsage, "Sets whether streams are made to report their usage.";
    first_byte: Duration, "Sets the longest wait for the first byte; zero waits for ever.";
    idle: Duration, "Sets the longest silence within an answer; zero waits for ever.";
    max_error: usize, "Sets how many bytes of an error body are read.";
    max_body: usize, "Sets how many bytes of a JSON answer are read, and of a stream collected.";
    max_held: usize, "Sets how many bytes of a stream are held back until its first visible output.";
    max_hold: Duration, "Sets how long a stream is held back after its first event.";
}

impl ProviderConfig {
    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (field, bytes) in [("max_error", self.max_error), ("max_body", self.max_body)] {
            if bytes == 0 {
                return Err(ConfigError::new(field, "must be at least 1"));
            }
        }
        Ok(())
    }

    pub(super) fn first_byte_limit(&self) -> Option<Duration> {
        (!self.first_byte.is_zero()).then_some(self.first_byte)
    }

    pub(super) fn idle_limit(&self) -> Option<Duration> {
        (!self.idle.is_zero()).then_some(self.idle)
    }
}
