//! What a request says about itself: its protocol, its model, and whether the provider is to run tools for it.

use std::borrow::Cow;

use super::{
    Protocol,
    json::{self, Cursor, Obj, Raw},
};

/// The protocol by the path, without its query.
///
/// A path proves nothing about who listens there: whether the host is an inference endpoint is for the caller to know.
pub fn protocol_of(path: &str) -> Option<Protocol> {
    let path = path.trim_end_matches('/');
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| path.ends_with(suffix));
    let is_raw = path.ends_with(":rawPredict") || path.ends_with(":streamRawPredict");
    if ends(&["/chat/completions", "/v1/chat"]) {
        Some(Protocol::OpenAiChat)
    } else if ends(&["/v1/responses", "/openai/responses", "/codex/responses"]) || path == "/responses" {
        Some(Protocol::OpenAiResponses)
    } else if ends(&["/v1/messages"]) || (is_raw && path.contains("/publishers/anthropic/models/")) {
        Some(Protocol::Anthropic)
    } else if path.contains("/models/") && ends(&[":generateContent", ":streamGenerateContent"]) {
        Some(Protocol::Gemini)
    } else if ends(&["/v2/chat"]) {
        Some(Protocol::Cohere)
    } else {
        None
    }
}

/// The model in the path: an Azure deployment, a Vertex model.
fn model_in(path: &str) -> Option<&str> {
    let after = |mark: &str| path.split_once(mark)?.1.split(['/', ':', '?']).next();
    let gemini = || path.ends_with("enerateContent").then(|| after("/models/")).flatten();
    let model = after("/deployments/").or_else(|| after("/publishers/anthropic/models/")).or_else(gemini);
    model.filter(|model| !model.is_empty())
}

/// What a request body asks for, as far as limits depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RequestFacts {
    /// The model, from the body, else from the path.
    pub model: Option<String>,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// What `stream_options.include_usage` says, where it is there.
    pub include_usage: Option<bool>,
    /// The limit on the output, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether the model may call tools of any kind.
    pub has_tools: bool,
    /// Whether the provider may run tools by itself. True wherever it cannot be ruled out.
    pub provider_executed: bool,
    /// Whether the answer is to be made in the background.
    pub background: bool,
}

json::object! {
    Body {
        model: Raw<'a> = "model",
        stream: Raw<'a> = "stream",
        stream_options: Obj<StreamOptions<'a>> = "stream_options",
        max_tokens: Raw<'a> = "max_tokens",
        max_completion_tokens: Raw<'a> = "max_completion_tokens",
        max_output_tokens: Raw<'a> = "max_output_tokens",
        background: Raw<'a> = "background",
        tools: Raw<'a> = "tools",
        functions: Raw<'a> = "functions",
        // Responses: a stored prompt brings tools that are not in the body.
        prompt: Raw<'a> = "prompt",
        mcp_servers: Raw<'a> = "mcp_servers",
        // Anthropic: a container with skills runs code.
        container: Raw<'a> = "container",
        web_search_options: Raw<'a> = "web_search_options",
        search_parameters: Raw<'a> = "search_parameters",
        plugins: Raw<'a> = "plugins",
        data_sources: Raw<'a> = "data_sources",
        compound_custom: Raw<'a> = "compound_custom",
        enable_search: Raw<'a> = "enable_search",
        // Gemini, in both of its spellings.
        generation_config: Obj<GenerationConfig<'a>> = "generationConfig",
        generation_config_snake: Obj<GenerationConfig<'a>> = "generation_config",
        cached_content: Raw<'a> = "cachedContent",
        cached_content_snake: Raw<'a> = "cached_content",
        // Cohere.
        connectors: Raw<'a> = "connectors",
    }
}

json::object! {
    GenerationConfig {
        max: Raw<'a> = "maxOutputTokens",
        max_snake: Raw<'a> = "max_output_tokens",
    }
}

json::object! {
    StreamOptions {
        include_usage: Raw<'a> = "include_usage",
    }
}

json::object! {
    Tool {
        kind: Raw<'a> = "type",
        function: Raw<'a> = "function",
    }
}

json::object! {
    /// What a body says of the length of the answer, and nothing else.
    Caps {
        n: Raw<'a> = "n",
        max_tokens: Raw<'a> = "max_tokens",
        max_completion_tokens: Raw<'a> = "max_completion_tokens",
        max_output_tokens: Raw<'a> = "max_output_tokens",
        inner: Obj<InnerCaps<'a>> = "generationConfig",
        inner_snake: Obj<InnerCaps<'a>> = "generation_config",
    }
}

json::object! {
    /// Where Gemini says it.
    InnerCaps {
        camel: Raw<'a> = "maxOutputTokens",
        snake: Raw<'a> = "max_output_tokens",
    }
}

/// The limit on the output of all answers that are asked for, in tokens, read without allocating.
pub(crate) fn output_cap(body: &[u8]) -> Option<u64> {
    let Obj(caps) = json::read::<Obj<Caps<'_>>>(body).ok()?;
    let Caps { n, max_tokens, max_completion_tokens, max_output_tokens, inner, inner_snake } = caps?;
    let inner = inner.0.or(inner_snake.0).and_then(|inner| inner.camel.or(inner.snake));
    let cap = [max_output_tokens, max_completion_tokens, max_tokens, inner].into_iter().find_map(json::count)?;
    Some(cap.saturating_mul(json::count(n).unwrap_or(1).max(1)))
}

impl RequestFacts {
    /// Reads a request; `None` where its body is not one JSON object, or says a thing twice.
    pub fn read(protocol: Protocol, path: &str, body: &[u8]) -> Option<Self> {
        let Obj(body) = json::read_once::<Obj<Body<'_>>>(body).ok()?;
        let body = body?;
        let stated = json::word(body.model);
        let model = match protocol {
            // The path decides; a body may repeat it as a resource name.
            Protocol::Gemini => model_in(path).map(Cow::Borrowed).or(stated),
            _ => stated.or_else(|| model_in(path).map(Cow::Borrowed)),
        };
        let asked = body.stream_options.0.as_ref().and_then(|options| options.include_usage);
        let limits = [body.max_output_tokens, body.max_completion_tokens, body.max_tokens];
        let configs = [&body.generation_config.0, &body.generation_config_snake.0];
        let capped = configs.into_iter().flatten().flat_map(|config| [config.max, config.max_snake]);
        let implied = path.ends_with(":streamRawPredict") || path.ends_with(":streamGenerateContent");
        Some(Self {
            stream: json::is_true(body.stream) || implied,
            include_usage: asked.map(|asked| asked == "true"),
            max_output_tokens: limits.into_iter().chain(capped).find_map(json::count),
            has_tools: json::is_filled(body.tools) || json::is_filled(body.functions),
            provider_executed: provider_executed(protocol, &body, model.as_deref().unwrap_or("")),
            background: json::is_filled(body.background),
            model: model.map(Cow::into_owned),
        })
    }
}

fn provider_executed(protocol: Protocol, body: &Body<'_>, model: &str) -> bool {
    let fields: &[Raw<'_>] = match protocol {
        // What is cached may be tools.
        Protocol::Gemini => &[body.cached_content, body.cached_content_snake],
        Protocol::Cohere => &[body.connectors],
        Protocol::OpenAiResponses => &[body.prompt, body.plugins, body.search_parameters, body.mcp_servers],
        Protocol::Anthropic => &[body.mcp_servers, body.container],
        Protocol::OpenAiChat => &[
            body.web_search_options,
            body.search_parameters,
            body.plugins,
            body.data_sources,
            body.compound_custom,
            body.enable_search,
            body.mcp_servers,
        ],
    };
    // OpenRouter's suffix for searching, and Groq's systems that run tools whatever the request says.
    let model_runs_tools = model.ends_with(":online") || model.contains("compound");
    // `"web_search_options": {}` asks for it.
    let asked = |field: &Raw<'_>| json::is_filled(*field) || json::text(*field).starts_with('{');
    fields.iter().any(asked) || model_runs_tools || has_provider_tool(protocol, body.tools)
}

fn has_provider_tool(protocol: Protocol, tools: Raw<'_>) -> bool {
    if !json::is_filled(tools) {
        return false;
    }
    let Some(tools) = json::elements(tools) else { return true };
    if protocol == Protocol::Gemini {
        return !tools.into_iter().all(has_only_functions);
    }
    !tools.into_iter().all(|tool| match json::read_once::<Obj<Tool<'_>>>(json::text(tool).as_bytes()) {
        Ok(Obj(Some(tool))) => is_client_tool(protocol, &tool),
        _ => false,
    })
}

/// Whether a tool of Gemini's holds nothing but declarations of functions, which the client runs.
fn has_only_functions(tool: Raw<'_>) -> bool {
    let Ok(mut cursor) = Cursor::new(json::text(tool).as_bytes()) else { return false };
    let mut only = true;
    let walked = cursor.object(|cursor, key| {
        only &= matches!(key, "functionDeclarations" | "function_declarations");
        cursor.skip()
    });
    only && walked.and_then(|()| cursor.end()).is_ok()
}

fn is_client_tool(protocol: Protocol, tool: &Tool<'_>) -> bool {
    /// Anthropic defines these tools, and the client runs them.
    const CLIENT: [&str; 4] = ["bash_", "text_editor_", "computer_", "memory_"];
    match (protocol, json::string(tool.kind).as_deref()) {
        (Protocol::Anthropic, None) => tool.kind.is_none(),
        (Protocol::Anthropic, Some(kind)) => kind == "custom" || CLIENT.iter().any(|known| kind.starts_with(known)),
        (Protocol::OpenAiChat, None) => tool.kind.is_none() && tool.function.is_some(),
        (_, kind) => matches!(kind, Some("function" | "custom")),
    }
}

/// The body with `"stream_options":{"include_usage":true}` put in, every other byte as it was.
///
/// `None` where the body is not a JSON object or has `stream_options` already. Only streams may carry it: ask
/// [`RequestFacts::stream`] first.
pub fn with_include_usage(body: &[u8]) -> Option<Vec<u8>> {
    const OPTION: &[u8] = br#""stream_options":{"include_usage":true}"#;

    let mut cursor = Cursor::new(body).ok()?;
    let mut stated = false;
    let walked = cursor.object(|cursor, key| {
        stated |= key == "stream_options";
        cursor.skip()
    });
    walked.and_then(|()| cursor.end()).ok()?;
    if stated {
        return None;
    }
    let (before, inside) = body.split_at(body.iter().position(|byte| *byte == b'{')? + 1);
    let is_empty = inside.trim_ascii_start().first() == Some(&b'}');
    let mut spliced = Vec::with_capacity(body.len() + OPTION.len() + 1);
    spliced.extend_from_slice(before);
    spliced.extend_from_slice(OPTION);
    if !is_empty {
        spliced.push(b',');
    }
    spliced.extend_from_slice(inside);
    Some(spliced)
}

json::object! {
    /// A chunk of a chat stream, as far as it is looked at here.
    UsageChunk {
        choices: Raw<'a> = "choices",
        usage: Raw<'a> = "usage",
        error: Raw<'a> = "error",
    }
}

/// Whether an event of a chat stream says nothing but the usage.
pub(crate) fn is_usage_only(data: &[u8]) -> bool {
    // Almost every event has a delta; those need no second look.
    if memchr::memmem::find(data, b"\"delta\"").is_some() {
        return false;
    }
    let Ok(Obj(Some(chunk))) = json::read::<Obj<UsageChunk<'_>>>(data) else { return false };
    let says_more = json::is_filled(chunk.choices) || json::is_filled(chunk.error);
    chunk.choices.is_some() && json::is_filled(chunk.usage) && !says_more
}
