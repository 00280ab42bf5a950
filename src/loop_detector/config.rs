//! When a run is warned, held back and ended: [`LoopPolicy`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{config_error::ConfigError, tool::Pollable};

/// When a run is warned, held back and ended.
///
/// ```
/// # use std::time::Duration;
/// # use tower_belay::{Pollable, loop_detector::{LoopPolicy, ToolRules}};
/// let policy: LoopPolicy = toml::from_str(r#"
///     repeats = 3
///     [tools.search]
///     volatile = ["request_id", "meta.sent_at"]
///     [tools.job_status]
///     pollable = { min_interval = "5s", max_wait = "30m" }
/// "#).unwrap();
/// let pollable = Pollable::new(Duration::from_secs(5), Duration::from_secs(1_800));
/// assert_eq!(policy, LoopPolicy::default().repeats(3)
///     .tool("search", ToolRules::default().volatile(["request_id", "meta.sent_at"]))
///     .tool("job_status", ToolRules::default().pollable(pollable)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LoopPolicy {
    /// Whether anything is done at all. Default true.
    pub enabled: bool,
    /// At how many equal calls with equal results the run is warned; one more is refused. Default 2.
    pub repeats: u32,
    /// How many calls may be refused before the run ends, if it did something new in between. Default 3.
    pub refusals: u32,
    /// How many steps back a call counts that was made among others, and near calls do. Default 12.
    pub window: u32,
    /// How many failures running of one tool with one message warn, and end the run. Default 4 and 6.
    pub failures: Steps,
    /// The same, where the messages differ only in what they quote and count. Default 5 and 8.
    pub failures_alike: Steps,
    /// How many nearly equal calls with nearly equal results warn. Default 4.
    pub near: u32,
    /// How many different calls running of one tool with one result warn. Default 8.
    pub same_answer: u32,
    /// How often a call may fail in the same way, writes in between, until each such failure warns. Default 5.
    pub futile: u32,
    /// What is known of the tools named here. Default nothing.
    pub tools: BTreeMap<String, ToolRules>,
}

/// At what count the run is warned, and at what count it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Steps {
    /// From here on each one warns.
    pub warn: u32,
    /// Here the run ends.
    pub end: u32,
}

/// What is known of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolRules {
    /// Arguments that differ from call to call and mean nothing: names, or dotted paths such as `meta.sent_at`, which
    /// go through arrays without naming them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<String>,
    /// Set for a tool that is asked until its answer changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pollable: Option<Pollable>,
}

impl Default for LoopPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            repeats: 2,
            refusals: 3,
            window: 12,
            failures: Steps::new(4, 6),
            failures_alike: Steps::new(5, 8),
            near: 4,
            same_answer: 8,
            futile: 5,
            tools: BTreeMap::new(),
        }
    }
}

macro_rules! setters {
    ($($field:ident: $type:ty, $doc:literal;)*) => {
        impl LoopPolicy {
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
    repeats: u32, "Sets at how many equal calls with equal results the run is warned.";
    refusals: u32, "Sets how many calls may be refused before the run ends.";
    window: u32, "Sets how many steps back a call counts.";
    failures: Steps, "Sets how many failures running with one message warn, and end the run.";
    failures_alike: Steps, "Sets how many failures running with messages of one shape warn, and end the run.";
    near: u32, "Sets how many nearly equal calls with nearly equal results warn.";
    same_answer: u32, "Sets how many different calls running with one result warn.";
    futile: u32, "Sets how often a call may fail in the same way, writes in between.";
}

impl LoopPolicy {
    /// Looks at nothing and lets everything pass.
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// Sets what is known of the tool `name`.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, rules: ToolRules) -> Self {
        self.tools.insert(name.into(), rules);
        self
    }

    /// Says which setting is impossible, if one is.
    ///
    /// # Errors
    /// Names the first field that cannot mean anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let counts = [
            ("repeats", self.repeats),
            ("failures.warn", self.failures.warn),
            ("failures_alike.warn", self.failures_alike.warn),
            ("near", self.near),
            ("same_answer", self.same_answer),
            ("futile", self.futile),
        ];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count < 2) {
            return Err(ConfigError::new(field, "must be at least 2: the first call repeats nothing"));
        }
        if self.refusals == 0 {
            return Err(ConfigError::new("refusals", "must be at least 1"));
        }
        if self.window == 0 {
            return Err(ConfigError::new("window", "must be at least 1"));
        }
        for (field, steps) in [("failures.end", self.failures), ("failures_alike.end", self.failures_alike)] {
            if steps.end <= steps.warn {
                return Err(ConfigError::new(field, "must be more than `warn`: a run is warned before it ends"));
            }
        }
        self.tools.iter().try_for_each(|(name, rules)| rules.validate(name))
    }
}

impl Steps {
    /// Warns at `warn`, ends at `end`.
    pub const fn new(warn: u32, end: u32) -> Self {
        Self { warn, end }
    }
}

impl ToolRules {
    /// Sets the arguments that differ from call to call and mean nothing.
    #[must_use]
    pub fn volatile<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.volatile = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Lets the tool be asked until its answer changes.
    #[must_use]
    pub const fn pollable(mut self, pollable: Pollable) -> Self {
        self.pollable = Some(pollable);
        self
    }

    fn validate(&self, name: &str) -> Result<(), ConfigError> {
        let at = |field: &str| format!("tools.{name}.{field}");
        if self.volatile.len() > 64 || self.volatile.iter().any(|path| path.split('.').any(str::is_empty)) {
            return Err(ConfigError::new(at("volatile"), "must be at most 64 paths of names with a dot between"));
        }
        match self.pollable {
            Some(pollable) if pollable.max_wait <= pollable.min_interval => {
                Err(ConfigError::new(at("pollable.max_wait"), "must be longer than `min_interval`"))
            }
            _ => Ok(()),
        }
    }
}
