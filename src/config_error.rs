//! An impossible setting: [`ConfigError`].

use std::{borrow::Cow, error::Error, fmt};

/// A setting that cannot mean anything; it names the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    field: Cow<'static, str>,
    problem: Cow<'static, str>,
}

impl ConfigError {
    /// A `problem` with `field`, which is a dotted path such as `failures.window`.
    pub fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// The dotted path of the field.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl Error for ConfigError {}
