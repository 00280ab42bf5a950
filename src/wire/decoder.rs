//! Turns events or a body into a [`Reading`], whatever the protocol.

use super::{
    Protocol, anthropic,
    calls::Calls,
    cohere, errors, gemini,
    json::{self, NotJson, Obj, Raw},
    openai_chat, openai_responses,
    reading::{Reading, StatedError},
    sse::Event,
};

/// What an event was the first to bring; the weightiest where it brought several things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Progress {
    /// Nothing new of weight.
    Nothing,
    /// The first sign of reasoning.
    Reasoning,
    /// The first visible output: text, a refusal, a tool call.
    Visible,
    /// The terminator.
    Done,
    /// An error.
    Error,
}

/// Reads one answer, event by event or as one body. See the [module](super).
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    pub(super) reading: Reading,
    pub(super) calls: Calls,
    /// How chunks of the chat protocol begin, up to their choices.
    pub(super) opening: Vec<u8>,
    /// How they end after their choices.
    pub(super) closing: Vec<u8>,
}

json::object! {
    Sniff {
        kind: Raw<'a> = "type",
        object: Raw<'a> = "object",
        choices: Raw<'a> = "choices",
        candidates: Raw<'a> = "candidates",
        prompt_feedback: Raw<'a> = "promptFeedback",
        usage_metadata: Raw<'a> = "usageMetadata",
        error: Raw<'a> = "error",
    }
}

impl Sniff<'_> {
    fn protocol(&self) -> Option<Protocol> {
        let kind = json::string(self.kind).unwrap_or_default();
        let object = json::string(self.object).unwrap_or_default();
        if kind.starts_with("response.") || object == "response" {
            return Some(Protocol::OpenAiResponses);
        }
        if self.choices.is_some() || object.starts_with("chat.completion") {
            return Some(Protocol::OpenAiChat);
        }
        if self.candidates.or(self.prompt_feedback).or(self.usage_metadata).is_some() {
            return Some(Protocol::Gemini);
        }
        if kind == "message-start" {
            return Some(Protocol::Cohere);
        }
        let anthropic = kind.starts_with("content_block_") || kind == "message" || kind.starts_with("message_");
        anthropic.then_some(Protocol::Anthropic)
    }
}

impl Decoder {
    /// A decoder; without a protocol it recognises it by the first event or by the body.
    pub fn new(protocol: Option<Protocol>) -> Self {
        Self { reading: Reading { protocol, ..Reading::default() }, ..Self::default() }
    }

    /// Keeps the text of the answer too.
    #[must_use]
    pub fn keep_text(mut self) -> Self {
        self.reading.text = Some(String::new());
        self
    }

    /// What was read so far.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// What was read.
    pub fn into_reading(self) -> Reading {
        self.reading
    }

    /// Reads one event of the [splitter](super::SseSplitter).
    pub fn sse(&mut self, event: &Event<'_>) -> Progress {
        match event {
            Event { oversized: true, complete: true, .. } => self.oversized(event.name),
            // What was cut off ends nothing.
            Event { oversized: true, .. } => self.oversized(""),
            _ => self.read_sse(event.name, event.data, event.complete),
        }
    }

    /// Reads one event.
    pub fn event(&mut self, name: &str, data: &[u8]) -> Progress {
        self.read_sse(name, data, true)
    }

    fn read_sse(&mut self, name: &str, data: &[u8], complete: bool) -> Progress {
        let data = data.trim_ascii();
        if data.is_empty() {
            return Progress::Nothing;
        }
        self.watch(|decoder| {
            if data == b"[DONE]" {
                let terminates = matches!(decoder.reading.protocol, None | Some(Protocol::OpenAiChat));
                decoder.reading.done |= terminates;
                return;
            }
            if decoder.read_event(name, data).is_ok() {
                return;
            }
            // Broken text is still readable around the break.
            if str::from_utf8(data).is_err()
                && decoder.read_event(name, String::from_utf8_lossy(data).as_bytes()).is_ok()
            {
                return;
            }
            match name {
                "error" => decoder.reading.see_error((StatedError::default(), None)),
                "ping" | "keepalive" | "keep-alive" | "heartbeat" => {}
                // Cut within the event: nothing is wrong with what came.
                _ if !complete => decoder.reading.incomplete = true,
                _ => decoder.reading.unparsable = true,
            }
        })
    }

    /// An event was too large to be read. Only output is that large, and a terminal event that repeats it.
    pub fn oversized(&mut self, name: &str) -> Progress {
        self.watch(|decoder| {
            decoder.reading.incomplete = true;
            decoder.reading.visible = true;
            openai_responses::terminate(decoder, name);
        })
    }

    /// Reads a whole JSON body, of a success or of an error.
    pub fn json(&mut self, body: &[u8]) -> Progress {
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii();
        self.watch(|decoder| {
            let read = decoder.read_body(body).or_else(|why| match str::from_utf8(body) {
                Ok(_) => Err(why),
                Err(_) => decoder.read_body(String::from_utf8_lossy(body).as_bytes()),
            });
            match read {
                Ok(()) => decoder.reading.done = true,
                Err(NotJson) => decoder.reading.unparsable = true,
            }
        })
    }

    /// Reads the body of an error status. Whatever it is, the status still speaks.
    pub fn error_body(&mut self, body: &[u8]) -> Progress {
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        self.watch(|decoder| {
            let lossy = String::from_utf8_lossy(body);
            if let Some(error) = errors::read_body(lossy.as_bytes()) {
                decoder.reading.see_error(error);
            } else if let Some(error) = sse_error(body) {
                decoder.reading.see_error(error);
            }
            decoder.reading.done = true;
        })
    }

    /// The stream is over, and nothing more will come.
    pub fn end(&mut self) {
        self.reading.incomplete |= self.calls.overflowed;
    }

    fn watch(&mut self, read: impl FnOnce(&mut Self)) -> Progress {
        let state = |reading: &Reading| (reading.error.is_some(), reading.done, reading.visible, reading.reasoning);
        let before = state(&self.reading);
        read(self);
        self.reading.incomplete |= self.calls.overflowed;
        let after = state(&self.reading);
        match () {
            () if after.0 && !before.0 => Progress::Error,
            () if after.1 && !before.1 => Progress::Done,
            () if after.2 && !before.2 => Progress::Visible,
            () if after.3 && !before.3 => Progress::Reasoning,
            () => Progress::Nothing,
        }
    }

    fn read_event(&mut self, name: &str, data: &[u8]) -> Result<(), NotJson> {
        if self.reading.protocol.is_none() {
            let Obj(sniff) = json::read::<Obj<Sniff<'_>>>(data)?;
            self.reading.protocol = sniff.as_ref().and_then(Sniff::protocol);
            if self.reading.protocol.is_none() {
                if (name == "error" || sniff.is_some_and(|sniff| json::is_filled(sniff.error)))
                    && let Some(error) = errors::read_body(data)
                {
                    self.reading.see_error(error);
                }
                return Ok(());
            }
        }
        if name == "error" {
            let error = errors::read_body(data).ok_or(NotJson)?;
            self.reading.see_error(error);
            self.reading.done |= self.reading.protocol == Some(Protocol::OpenAiResponses);
            return Ok(());
        }
        match self.reading.protocol {
            Some(Protocol::OpenAiResponses) => openai_responses::event(self, name, data),
            Some(Protocol::Anthropic) => anthropic::event(self, name, data),
            Some(Protocol::Gemini) => gemini::event(self, data),
            Some(Protocol::Cohere) => cohere::event(self, name, data),
            _ => openai_chat::event(self, data),
        }
    }

    fn read_body(&mut self, body: &[u8]) -> Result<(), NotJson> {
        if self.reading.protocol.is_none() {
            let Obj(sniff) = json::read::<Obj<Sniff<'_>>>(body)?;
            self.reading.protocol = sniff.and_then(|sniff| sniff.protocol());
        }
        let is_answer = match self.reading.protocol {
            Some(Protocol::OpenAiChat) => openai_chat::body(self, body)?,
            Some(Protocol::OpenAiResponses) => openai_responses::body(self, body)?,
            Some(Protocol::Anthropic) => anthropic::body(self, body)?,
            Some(Protocol::Gemini) => gemini::body(self, body)?,
            Some(Protocol::Cohere) => cohere::body(self, body)?,
            None => false,
        };
        if is_answer || self.reading.error.is_some() {
            return Ok(());
        }
        // Not an answer: an error that came under a success status, or nothing we know.
        match errors::read_body(body).filter(|(error, _)| *error != StatedError::default()) {
            Some(error) => {
                self.reading.see_error(error);
                Ok(())
            }
            None => Err(NotJson),
        }
    }
}

/// An error status whose body is a stream of one error event.
fn sse_error(body: &[u8]) -> Option<(StatedError, Option<std::time::Duration>)> {
    let mut found = None;
    let mut sse = super::SseSplitter::new();
    let mut see = |event: Event<'_>| found = found.take().or_else(|| errors::read_body(event.data));
    sse.push(body, &mut see);
    sse.finish(&mut see);
    found
}
