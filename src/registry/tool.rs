//! All that is known of one tool: [`Tool`].

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{call::Effect, semantic_breaker::TripCard, tool::Pollable};

/// All that is known of one tool.
///
/// What is not said is taken for the worst: a tool without an effect may do anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Tool {
    /// Its name, as the model calls it.
    pub name: String,
    /// What it is for, as the model is told.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments. Default: an object without properties.
    #[serde(default = "nothing")]
    pub parameters: Value,
    /// What it may do. Default: sensitive.
    #[serde(default)]
    pub effect: Effect,
    /// Whether two calls with one action id are one to it.
    #[serde(default)]
    pub idempotent: bool,
    /// Arguments that differ between calls that ask the same, such as a time stamp.
    #[serde(default)]
    pub volatile: Vec<String>,
    /// Arguments by which two writes are known to be one. None: every call is a write of its own.
    #[serde(default)]
    pub identity: Vec<String>,
    /// Whether the same call with the same result is no loop but waiting.
    #[serde(default)]
    pub pollable: Option<Pollable>,
    /// What a model is told to do while the tool is refused.
    #[serde(default)]
    pub degraded: Option<String>,
    /// Who answers for it.
    #[serde(default)]
    pub owners: Owners,
    /// When it is taken for failing. Default: the breaker's own card.
    #[serde(default)]
    pub trip_card: Option<TripCard>,
}

/// Who answers for a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Owners {
    /// For the integration.
    pub integration: Option<String>,
    /// For what it means to the business.
    pub business: Option<String>,
    /// For its security.
    pub security: Option<String>,
    /// For those who use it.
    pub support: Option<String>,
}

fn nothing() -> Value {
    json!({ "type": "object", "properties": {} })
}

macro_rules! setters {
    ($($field:ident: $type:ty, $doc:literal;)*) => {
        impl Tool {
            $(#[doc = $doc]
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field.into();
                self
            })*
        }
    };
}

setters! {
    description: impl Into<String>, "Sets what it is for, as the model is told.";
    parameters: Value, "Sets the JSON Schema of its arguments.";
    effect: Effect, "Sets what it may do.";
    idempotent: bool, "Sets whether two calls with one action id are one to it.";
    volatile: Vec<String>, "Sets the arguments that differ between calls that ask the same.";
    identity: Vec<String>, "Sets the arguments by which two writes are known to be one.";
    pollable: Pollable, "Lets it be polled.";
    owners: Owners, "Sets who answers for it.";
    trip_card: TripCard, "Sets when it is taken for failing.";
}

impl Tool {
    /// A tool of which nothing but the name is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            parameters: nothing(),
            effect: Effect::default(),
            idempotent: false,
            volatile: Vec::new(),
            identity: Vec::new(),
            pollable: None,
            degraded: None,
            owners: Owners::default(),
            trip_card: None,
        }
    }

    /// Sets what a model is told to do while the tool is refused.
    #[must_use]
    pub fn degraded(mut self, instead: impl Into<String>) -> Self {
        self.degraded = Some(instead.into());
        self
    }

    /// Sets the JSON Schema of its arguments to that of a type.
    #[cfg(feature = "schemars")]
    #[cfg_attr(docsrs, doc(cfg(feature = "schemars")))]
    #[must_use]
    pub fn parameters_of<T: schemars::JsonSchema>(self) -> Self {
        self.parameters(schemars::schema_for!(T).to_value())
    }
}
