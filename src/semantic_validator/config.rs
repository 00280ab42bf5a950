//! The ready-made validators by configuration: [`ValidatorConfig`].

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{BalancedFences, Density, JsonText, Validate};
use crate::config_error::ConfigError;

/// Which ready-made validators answers are held to. By default none.
///
/// ```
/// # use tower_belay::semantic_validator::ValidatorConfig;
/// let config: ValidatorConfig = toml::from_str("fences = true\n[max_density]\ntelemetry = 6.0").unwrap();
/// assert_eq!(config.validators().len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ValidatorConfig {
    /// The text is one JSON value.
    pub json: bool,
    /// Every code fence is closed.
    pub fences: bool,
    /// Code in fences parses. Needs the feature `syntax`.
    pub syntax: bool,
    /// How often each term may occur in a thousand words.
    pub max_density: BTreeMap<String, f64>,
}

impl ValidatorConfig {
    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.syntax && !cfg!(feature = "syntax") {
            return Err(ConfigError::new("syntax", "needs the feature `syntax`"));
        }
        let wrong = self.max_density.iter().find(|(term, most)| {
            !(most.is_finite() && **most >= 0.0) || term.is_empty() || term.contains(char::is_whitespace)
        });
        match wrong {
            Some((term, _)) => {
                let problem = "must be one word, and at most a finite number of times";
                Err(ConfigError::new(format!("max_density.{term}"), problem))
            }
            None => Ok(()),
        }
    }

    /// The validators that are switched on.
    pub fn validators(&self) -> Vec<Arc<dyn Validate>> {
        let mut all: Vec<Arc<dyn Validate>> = Vec::new();
        if self.json {
            all.push(Arc::new(JsonText));
        }
        if self.fences {
            all.push(Arc::new(BalancedFences));
        }
        #[cfg(feature = "syntax")]
        if self.syntax {
            all.push(Arc::new(super::Parses));
        }
        for (term, most) in &self.max_density {
            all.push(Arc::new(Density::new(term, *most)));
        }
        all
    }
}
