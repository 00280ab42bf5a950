//! A tool call and its output, as an agent holds them: [`ToolCall`], [`ToolOutput`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    classify::{Auto, Classify},
};

/// A call of a tool, as a model asked for it.
///
/// ```
/// # use tower_belay::{Auto, Call, Effect, Name, ToolCall, classify::Classify};
/// let call = ToolCall::new("call_1", "read_file", r#"{"path":"a.txt"}"#);
/// assert_eq!(Auto.classify(&call).name(Name::Target), Some("read_file"));
/// // What a tool may do is known to code alone: nobody said, so this is a write.
/// assert_eq!(Auto.classify(&call).effect_kind(), Effect::Sensitive);
/// let call = call.with_call(Call::to("read_file").run("run 7").effect(Effect::ReadOnly));
/// assert_eq!(Auto.classify(&call).name(Name::Run), Some("run 7"));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ToolCall {
    /// The id that its output has to carry.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model wrote them: JSON, if all is well.
    pub arguments: String,
    call: Option<Call>,
}

impl ToolCall {
    /// A call of the tool `name`.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), call: None }
    }

    /// Says what it is: whose run it belongs to, and what it may do.
    #[must_use]
    pub fn with_call(mut self, call: Call) -> Self {
        self.call = Some(call);
        self
    }

    /// What it was said to be.
    pub const fn call(&self) -> Option<&Call> {
        self.call.as_ref()
    }
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The text that the model gets.
    pub content: String,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// How a tool may be polled: unchanged answers are no repeats until `max_wait` is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Pollable {
    /// The same call sooner than this after its last answer is refused, with the time it may come.
    #[serde(with = "crate::human")]
    pub min_interval: Duration,
    /// An answer that has not changed for so long will not.
    #[serde(with = "crate::human")]
    pub max_wait: Duration,
}

impl Pollable {
    /// At most once in `min_interval`, for at most `max_wait` without a change.
    pub const fn new(min_interval: Duration, max_wait: Duration) -> Self {
        Self { min_interval, max_wait }
    }
}

impl ToolOutput {
    /// The result of a tool.
    pub fn new(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: false }
    }

    /// The message of a tool that failed.
    pub fn error(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true }
    }
}

/// The call that a [`ToolCall`] carries, else one to the tool of its name.
impl Classify<ToolCall> for Auto {
    fn classify(&self, request: &ToolCall) -> Call {
        request.call.clone().unwrap_or_else(|| Call::to(&request.name))
    }

    fn attach(&self, request: &mut ToolCall, call: &Call) {
        request.call = Some(call.clone());
    }

    fn replay(&self, request: &ToolCall) -> Option<ToolCall> {
        Some(request.clone())
    }
}
