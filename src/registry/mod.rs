//! The one record of tools, and whether a call to one of them can be carried out: [`Registry`].
//!
//! A model makes up tools, arguments and their types. [`Registry::check`] holds a call against what is known:
//!
//! - **The tool exists**, by its exact name. What is told names the nearest tools, never the invented one.
//! - **The arguments are one JSON object**, whole, with no property named twice. Cut arguments never run.
//! - **They match the tool's JSON Schema**, which was compiled once. What is told says where and what was expected, in
//!   facts of the schema: nothing that a model wrote is repeated.
//!
//! Nothing is guessed. [`Registry::mend`] reads what can only have been meant in one way: an object that was written as
//! a string where no string is allowed, an empty value of a property that may be left out. Every string that the schema
//! allows stays as it is.
//!
//! A check takes time in proportion to the arguments; patterns are matched in linear time, and no schema is fetched.
//! Numbers are read as serde_json reads them: an integer beyond 64 bits loses digits.
//!
//! ```
//! use serde_json::json;
//! use tower_belay::{Effect, Reason, registry::{Registry, Tool}};
//!
//! let weather = Tool::new("get_weather").effect(Effect::ReadOnly).parameters(json!({
//!     "type": "object",
//!     "properties": { "city": { "type": "string" }, "days": { "type": "integer", "minimum": 1 } },
//!     "required": ["city"],
//! }));
//! let registry = Registry::new([weather])?;
//!
//! let checked = registry.check("get_weather", r#"{"city":"Oslo","days":2}"#).unwrap();
//! assert_eq!(checked.arguments["days"], 2);
//!
//! let wrong = registry.check("get_weather", r#"{"days":0}"#).unwrap_err();
//! assert_eq!(wrong.reason, Reason::SchemaViolation);
//! assert!(wrong.to_string().contains(r#"needs the property "city""#));
//! assert!(wrong.to_string().contains("/days: must be at least 1"));
//!
//! let invented = registry.check("getWeather", "{}").unwrap_err();
//! assert_eq!(invented.to_string(), "There is no such tool; the nearest is \"get_weather\".");
//!
//! // What was meant is plain, and nothing else is allowed there.
//! let mended = registry.mend("get_weather", r#"{"city":"007","days":"2"}"#).unwrap();
//! assert_eq!((mended.arguments, mended.mended), (json!({ "city": "007", "days": 2 }), true));
//! # Ok::<(), tower_belay::ConfigError>(())
//! ```

mod arguments;
mod facts;
mod mend;
mod near;
mod schema;
#[cfg(test)]
mod tests;
mod tool;

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

pub use tool::{Owners, Tool};

use self::{
    arguments::Flaw,
    schema::{Schema, closed},
};
use crate::{
    config_error::ConfigError,
    reason::Reason,
    violation::{Violation, Violations},
};

/// The tools there are. Cloning it is one reference count.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Arc<BTreeMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    tool: Tool,
    schema: Schema,
}

/// Arguments that a tool can be called with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Checked {
    /// The arguments: an object that matches the tool's schema.
    pub arguments: Value,
    /// Whether they are not what the model wrote, but what it can only have meant.
    pub mended: bool,
}

impl Registry {
    /// These tools, their schemas compiled. Properties that a schema does not name are taken as it says: by default
    /// they are allowed.
    ///
    /// # Errors
    /// Names the tool whose schema cannot be used, or that is there twice.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, ConfigError> {
        Self::compile(tools, Value::clone)
    }

    /// The same, where no property is allowed that a schema does not name, unless it says so itself.
    ///
    /// # Errors
    /// Names the tool whose schema cannot be used, or that is there twice.
    pub fn closed(tools: impl IntoIterator<Item = Tool>) -> Result<Self, ConfigError> {
        Self::compile(tools, closed)
    }

    fn compile(tools: impl IntoIterator<Item = Tool>, form: impl Fn(&Value) -> Value) -> Result<Self, ConfigError> {
        let mut known = BTreeMap::new();
        for tool in tools {
            let field = format!("tools.{}", tool.name);
            if tool.name.is_empty() {
                return Err(ConfigError::new("tools", "have names"));
            }
            let schema = Schema::compile(&form(&tool.parameters))
                .map_err(|problem| ConfigError::new(format!("{field}.parameters"), problem))?;
            if known.insert(tool.name.clone(), Known { tool, schema }).is_some() {
                return Err(ConfigError::new(field, "is there twice"));
            }
        }
        Ok(Self { tools: Arc::new(known) })
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name).map(|known| &known.tool)
    }

    /// All tools, by name.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values().map(|known| &known.tool)
    }

    /// Whether `name` can be called with `arguments`, as the model wrote them.
    ///
    /// # Errors
    /// All that is wrong, in words that are safe to show the model: an [`UnknownTool`](Reason::UnknownTool),
    /// [`BadArguments`](Reason::BadArguments) or a [`SchemaViolation`](Reason::SchemaViolation).
    pub fn check(&self, name: &str, arguments: &str) -> Result<Checked, Violations> {
        let known = self.tools.get(name).ok_or_else(|| self.unknown(name))?;
        let arguments = match arguments::read(arguments) {
            Ok(object) => Value::Object(object),
            // Some servers send nothing for a tool that takes nothing.
            Err(Flaw::Empty) if known.takes_nothing() => Value::Object(serde_json::Map::new()),
            Err(flaw) => {
                let (keyword, expected) = flaw.words();
                return Err(Violations::new(Reason::BadArguments, vec![Violation::new("", keyword, expected)]));
            }
        };
        match known.schema.violations(&arguments) {
            Some(violations) => Err(violations),
            None => Ok(Checked { arguments, mended: false }),
        }
    }

    /// The same, and what is wrong is mended where the schema allows only one reading of it.
    ///
    /// # Errors
    /// What [`check`](Registry::check) says of the arguments as they were written.
    pub fn mend(&self, name: &str, arguments: &str) -> Result<Checked, Violations> {
        self.check(name, arguments).or_else(|violations| {
            let known = self.tools.get(name).filter(|_| violations.reason != Reason::UnknownTool);
            let mended = known.and_then(|known| {
                mend::mended(&known.schema, arguments).filter(|arguments| known.schema.is_valid(arguments))
            });
            mended.map(|arguments| Checked { arguments, mended: true }).ok_or(violations)
        })
    }

    fn unknown(&self, name: &str) -> Violations {
        let near = near::near(name, self.tools.keys().map(String::as_str));
        let mut expected = "There is no such tool".to_owned();
        let (names, lead) = match near.is_empty() {
            false => (near, "; the nearest is "),
            true => (self.tools.keys().take(5).map(String::as_str).collect(), "; there is "),
        };
        let mut quoted = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        facts::clip(&mut quoted);
        if !quoted.is_empty() {
            expected.push_str(lead);
            expected.push_str(&quoted);
        }
        Violations::new(Reason::UnknownTool, vec![Violation::new("", "tool", expected)])
    }
}

impl Known {
    fn takes_nothing(&self) -> bool {
        let properties = self.schema.value().get("properties").and_then(Value::as_object);
        properties.is_none_or(serde_json::Map::is_empty) && self.schema.is_valid(&Value::Object(serde_json::Map::new()))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tools.keys()).finish()
    }
}
