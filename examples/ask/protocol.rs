//! The command line, and each provider's own form of a question and of the text of its answer.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tower_belay::{Registry, Tool, wire::SseSplitter};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    Chat,
    Responses,
    Anthropic,
    Gemini,
    Cohere,
}

pub(crate) struct Arguments {
    pub(crate) provider: Provider,
    pub(crate) stream: bool,
    pub(crate) live: bool,
    pub(crate) max_attempts: u32,
    pub(crate) idle_timeout: String,
    base_url: String,
    key: String,
    model: String,
    tools: Option<String>,
    prompt: String,
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let (mut provider, mut base_url, mut model, mut tools, mut prompt) = (None, None, None, None, None);
        let (mut stream, mut live, mut max_attempts, mut idle_timeout) = (false, false, 3, "2m".to_owned());
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--provider" => provider = Some(value()?),
                "--base-url" => base_url = Some(value()?),
                "--model" => model = Some(value()?),
                "--tools" => tools = Some(value()?),
                "--max-attempts" => max_attempts = value()?.parse().context("--max-attempts")?,
                "--idle-timeout" => idle_timeout = value()?,
                "--stream" => stream = true,
                "--live" => live = true,
                other if other.starts_with("--") => bail!("unknown option {other}"),
                _ => prompt = Some(word),
            }
        }
        let name = provider.context("--provider")?;
        let (provider, key) = match name.as_str() {
            "openai" => (Provider::Chat, "OPENAI_API_KEY"),
            "openai-responses" => (Provider::Responses, "OPENAI_API_KEY"),
            "anthropic" => (Provider::Anthropic, "ANTHROPIC_API_KEY"),
            "gemini" => (Provider::Gemini, "GEMINI_API_KEY"),
            "cohere" => (Provider::Cohere, "COHERE_API_KEY"),
            "mistral" => (Provider::Chat, "MISTRAL_API_KEY"),
            "groq" => (Provider::Chat, "GROQ_API_KEY"),
            other => bail!(
                "--provider {other} is none of openai, openai-responses, anthropic, gemini, cohere, mistral, groq"
            ),
        };
        Ok(Self {
            provider,
            stream,
            live,
            max_attempts,
            idle_timeout,
            base_url: base_url.context("--base-url")?,
            key: std::env::var(key).unwrap_or_default(),
            model: model.context("--model")?,
            tools: tools.map(std::fs::read_to_string).transpose().context("--tools")?,
            prompt: prompt.context("a prompt")?,
        })
    }

    /// The tools that the model may call.
    pub(crate) fn registry(&self) -> Result<Registry> {
        let tools: Vec<Tool> = serde_json::from_str(self.tools.as_deref().unwrap_or("[]")).context("--tools")?;
        Ok(Registry::new(tools)?)
    }

    pub(crate) fn request(&self) -> Result<Request<Bytes>> {
        let path = match self.provider {
            Provider::Chat => "/chat/completions".to_owned(),
            Provider::Responses => "/responses".to_owned(),
            Provider::Anthropic => "/v1/messages".to_owned(),
            Provider::Cohere => "/v2/chat".to_owned(),
            Provider::Gemini if self.stream => format!("/v1beta/models/{}:streamGenerateContent?alt=sse", self.model),
            Provider::Gemini => format!("/v1beta/models/{}:generateContent", self.model),
        };
        let request = Request::post(format!("{}{path}", self.base_url)).header("content-type", "application/json");
        let request = match self.provider {
            Provider::Anthropic => request.header("x-api-key", &self.key).header("anthropic-version", "2023-06-01"),
            Provider::Gemini => request.header("x-goog-api-key", &self.key),
            _ => request.header("authorization", format!("Bearer {}", self.key)),
        };
        Ok(request.body(self.body()?.to_string().into())?)
    }

    fn body(&self) -> Result<Value> {
        if self.provider == Provider::Gemini {
            let mut body = json!({ "contents": [{ "role": "user", "parts": [{ "text": self.prompt }] }] });
            if let Some(tools) = &self.tools {
                let tools: Value = serde_json::from_str(tools).context("--tools")?;
                body["tools"] = json!([{ "functionDeclarations": tools }]);
            }
            return Ok(body);
        }
        let mut body = json!({ "model": self.model });
        match self.provider {
            Provider::Responses => body["input"] = json!(self.prompt),
            _ => body["messages"] = json!([{ "role": "user", "content": self.prompt }]),
        }
        if self.provider == Provider::Anthropic {
            body["max_tokens"] = json!(1024);
        }
        if self.stream {
            body["stream"] = json!(true);
        }
        if let Some(tools) = &self.tools {
            let tools: Vec<Value> = serde_json::from_str(tools).context("--tools")?;
            body["tools"] = tools.into_iter().map(|tool| self.tool(tool)).collect();
        }
        Ok(body)
    }

    fn tool(&self, tool: Value) -> Value {
        match self.provider {
            Provider::Chat | Provider::Cohere => json!({ "type": "function", "function": tool }),
            Provider::Responses => {
                let mut tool = tool;
                tool["type"] = json!("function");
                tool
            }
            Provider::Gemini => tool,
            Provider::Anthropic => json!({
                "name": tool["name"],
                "description": tool["description"],
                "input_schema": tool["parameters"],
            }),
        }
    }
}

/// The text of an answer, buffered or streamed.
pub(crate) fn text(provider: Provider, body: &[u8]) -> String {
    if let Ok(whole) = serde_json::from_slice::<Value>(body) {
        return match provider {
            Provider::Chat => whole["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
            Provider::Responses => {
                parts(&whole["output"]).flat_map(|item| parts(&item["content"])).map(text_of).collect()
            }
            Provider::Anthropic => parts(&whole["content"]).map(text_of).collect(),
            Provider::Gemini => parts(&whole["candidates"][0]["content"]["parts"]).map(text_of).collect(),
            Provider::Cohere => parts(&whole["message"]["content"]).map(text_of).collect(),
        };
    }
    let (mut sse, mut text) = (SseSplitter::new(), String::new());
    let mut see = |data: &[u8]| {
        let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
        text.push_str(match provider {
            Provider::Chat => event["choices"][0]["delta"]["content"].as_str().unwrap_or_default(),
            Provider::Responses if event["type"] == "response.output_text.delta" => text_in(&event["delta"]),
            Provider::Responses => "",
            Provider::Anthropic => text_in(&event["delta"]["text"]),
            Provider::Gemini => text_in(&event["candidates"][0]["content"]["parts"][0]["text"]),
            Provider::Cohere => text_in(&event["delta"]["message"]["content"]["text"]),
        });
    };
    sse.push(body, |event| see(event.data));
    sse.finish(|event| see(event.data));
    text
}

fn parts(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text_of(part: &Value) -> &str {
    text_in(&part["text"])
}

fn text_in(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
