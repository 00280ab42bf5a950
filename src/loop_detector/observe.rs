//! How a tool call and its result are read: [`ReadCall`], [`ReadOutput`], [`ToolCalls`], [`observe_fn`].

use std::fmt;

use crate::tool::{ToolCall, ToolOutput};

/// What a request asks of which tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The arguments: JSON, or any text.
    pub arguments: &'a str,
}

impl<'a> Asked<'a> {
    /// Asks `tool` with `arguments`.
    pub const fn new(tool: &'a str, arguments: &'a str) -> Self {
        Self { tool, arguments }
    }
}

/// What a response says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Got<'a> {
    /// The text that the model gets.
    pub text: &'a str,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl<'a> Got<'a> {
    /// The result of a tool.
    pub const fn good(text: &'a str) -> Self {
        Self { text, is_error: false }
    }

    /// The message of a tool that failed.
    pub const fn error(text: &'a str) -> Self {
        Self { text, is_error: true }
    }
}

/// Reads requests.
pub trait ReadCall<Req> {
    /// What `request` asks; `None` where it is no call of a tool: it passes, and nothing is kept of it.
    fn asked<'a>(&self, request: &'a Req) -> Option<Asked<'a>>;
}

/// Reads responses, and adds to them.
pub trait ReadOutput<Res> {
    /// What `response` says; `None` where nobody can tell: it is neither new nor a repetition.
    fn got<'a>(&self, response: &'a Res) -> Option<Got<'a>>;

    /// `response` with `text`, which the model has to read.
    fn annotate(&self, response: Res, text: &str) -> Res;
}

/// Reads [`ToolCall`] and [`ToolOutput`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolCalls;

impl ReadCall<ToolCall> for ToolCalls {
    fn asked<'a>(&self, request: &'a ToolCall) -> Option<Asked<'a>> {
        Some(Asked::new(&request.name, &request.arguments))
    }
}

impl ReadOutput<ToolOutput> for ToolCalls {
    fn got<'a>(&self, response: &'a ToolOutput) -> Option<Got<'a>> {
        Some(Got { text: &response.content, is_error: response.is_error })
    }

    fn annotate(&self, mut response: ToolOutput, text: &str) -> ToolOutput {
        if !response.content.is_empty() {
            response.content.push_str("\n\n");
        }
        response.content.push_str(text);
        response
    }
}

/// Reads requests and responses of any type by closures: what is asked, what came, and how a text is added to it.
///
/// ```
/// # use tower_belay::loop_detector::{Asked, Got, LoopDetectorLayer, LoopPolicy, observe_fn};
/// struct Search { query: String }
/// let by_closure = observe_fn(
///     |request: &Search| Some(Asked::new("search", &request.query)),
///     |found: &Result<String, String>| Some(match found {
///         Ok(text) => Got::good(text),
///         Err(text) => Got::error(text),
///     }),
///     |found, text| found.map(|found| format!("{found}\n{text}")).map_err(|error| format!("{error}\n{text}")),
/// );
/// let layer = LoopDetectorLayer::new(LoopPolicy::default()).observe(by_closure);
/// ```
pub fn observe_fn<Req, Res, Q, G, A>(asked: Q, got: G, annotate: A) -> ObserveFn<Q, G, A>
where
    Q: for<'a> Fn(&'a Req) -> Option<Asked<'a>>,
    G: for<'a> Fn(&'a Res) -> Option<Got<'a>>,
    A: Fn(Res, &str) -> Res,
{
    ObserveFn { asked, got, annotate }
}

/// Reads by closures, see [`observe_fn`].
#[derive(Clone)]
pub struct ObserveFn<Q, G, A> {
    asked: Q,
    got: G,
    annotate: A,
}

impl<Req, Q, G, A> ReadCall<Req> for ObserveFn<Q, G, A>
where
    Q: for<'a> Fn(&'a Req) -> Option<Asked<'a>>,
{
    fn asked<'a>(&self, request: &'a Req) -> Option<Asked<'a>> {
        (self.asked)(request)
    }
}

impl<Res, Q, G, A> ReadOutput<Res> for ObserveFn<Q, G, A>
where
    G: for<'a> Fn(&'a Res) -> Option<Got<'a>>,
    A: Fn(Res, &str) -> Res,
{
    fn got<'a>(&self, response: &'a Res) -> Option<Got<'a>> {
        (self.got)(response)
    }

    fn annotate(&self, response: Res, text: &str) -> Res {
        (self.annotate)(response, text)
    }
}

impl<Q, G, A> fmt::Debug for ObserveFn<Q, G, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObserveFn").finish_non_exhaustive()
    }
}
