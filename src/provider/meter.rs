//! Reads an answer while it passes, and judges it.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::ProviderConfig;
use crate::{
    call::Call,
    classify::{
        status::{Proof, status_reason},
        wait::should_retry,
    },
    reason::{Class, Reason},
    verdict::Verdict,
    wire::{Decoder, Progress, Protocol, Reading, SseSplitter, hints, sse::Event},
};

/// What an answer is read for.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) call: Call,
    pub(super) protocol: Option<Protocol>,
    pub(super) hides_usage: bool,
    /// Somebody looks at the text of the answer.
    pub(super) keeps_text: bool,
    /// A gRPC call may be silent for as long as it likes.
    pub(super) grpc: bool,
    pub(super) config: Arc<ProviderConfig>,
}

/// What a model answered, in the extensions of the response; there when the answer is over.
///
/// ```
/// # use tower_belay::provider::Answer;
/// # fn look(response: &http::Response<tower_belay::WatchedBody>) {
/// if let Some(reading) = response.extensions().get::<Answer>().and_then(Answer::reading) {
///     println!("{:?} used {:?}", reading.model, reading.usage);
/// }
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Answer(Arc<OnceLock<Reading>>);

impl Answer {
    /// What was read; `None` as long as a live answer is not over, for ever if its reader went away before that, and
    /// where nothing was read: in an encoded body, one that is too large, or one of no known protocol.
    pub fn reading(&self) -> Option<&Reading> {
        self.0.get()
    }
}

/// In the extensions of a request: a layer further out looks at the text of the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepText;

/// The reading of one answer under way.
#[derive(Debug)]
pub(super) struct Meter {
    call: Call,
    status: StatusCode,
    /// The wait that the headers ask for.
    wait: Option<Duration>,
    /// What the headers of an error say of sending the request again.
    should_retry: Option<bool>,
    sse: SseSplitter,
    decoder: Decoder,
    answer: Answer,
}

impl Meter {
    pub(super) fn new(question: &Question, status: StatusCode, headers: &HeaderMap) -> Self {
        let decoder = Decoder::new(question.protocol);
        Self {
            call: question.call.clone(),
            status,
            wait: hints::retry_after(headers, None, SystemTime::now()),
            should_retry: (status.as_u16() >= 400).then(|| should_retry(headers)).flatten(),
            sse: SseSplitter::new(),
            decoder: if question.keeps_text { decoder.keep_text() } else { decoder },
            answer: Answer::default(),
        }
    }

    pub(super) fn answer(&self) -> Answer {
        self.answer.clone()
    }

    /// Reads a piece of a stream; the weightiest of what it brought. `sees` is shown every event.
    ///
    /// Behind the terminator nothing counts, as the verdict was told with it; an error may still be explained.
    pub(super) fn push(&mut self, chunk: &[u8], mut sees: impl FnMut(&Event<'_>)) -> Progress {
        let mut most = Progress::Nothing;
        let decoder = &mut self.decoder;
        self.sse.push(chunk, |event| {
            if !is_settled(decoder.reading()) {
                most = most.max(decoder.sse(&event));
            }
            sees(&event);
        });
        most
    }

    /// The stream is over: what it still holds back is read too.
    pub(super) fn finish(&mut self, mut sees: impl FnMut(&Event<'_>)) {
        let decoder = &mut self.decoder;
        self.sse.finish(|event| {
            if !is_settled(decoder.reading()) {
                decoder.sse(&event);
            }
            sees(&event);
        });
        decoder.end();
    }

    pub(super) fn json(&mut self, body: &[u8]) {
        self.decoder.json(body);
    }

    pub(super) fn error_body(&mut self, body: &[u8]) {
        self.decoder.error_body(body);
    }

    /// Whether the answer, as far as it came, is a whole one.
    pub(super) fn is_over(&self) -> bool {
        self.decoder.reading().is_over()
    }

    /// Whether its terminator came, and no error.
    pub(super) fn is_settled(&self) -> bool {
        is_settled(self.decoder.reading())
    }

    /// How many bytes of a stream are events that are over.
    pub(super) fn settled(&self) -> u64 {
        self.sse.settled()
    }

    /// Whether anything came that a person would call an answer; reasoning counts.
    pub(super) fn has_output(&self) -> bool {
        let reading = self.decoder.reading();
        reading.visible || reading.reasoning
    }

    /// Whether something came that the protocol does not know.
    pub(super) fn is_unparsable(&self) -> bool {
        self.decoder.reading().unparsable
    }

    /// Whether the other side stated an error.
    pub(super) fn has_error(&self) -> bool {
        self.decoder.reading().error.is_some()
    }

    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// The verdict on what was read, which is published with it.
    pub(super) fn judge(&self) -> Verdict {
        self.publish();
        self.verdict()
    }

    /// The same, for an answer whose end decides and not what was read.
    pub(super) fn conclude(&self, reason: Reason) -> Verdict {
        self.publish();
        self.with(reason)
    }

    /// The verdict on what was read so far.
    pub(super) fn verdict(&self) -> Verdict {
        let effect = self.call.effect_kind();
        let reason = self.decoder.reading().reason(self.status, effect);
        // A server that says when to come again says that it did not take the request.
        let refused = matches!(self.status.as_u16(), 429 | 503 | 529) && self.wait().is_some();
        match reason {
            Reason::Unproven if refused => self.with(status_reason(self.status.as_u16(), effect, Proof::Refused)),
            reason => self.with(reason),
        }
    }

    fn with(&self, reason: Reason) -> Verdict {
        let asks = matches!(reason.class(), Class::RateLimited | Class::Failed | Class::Unknown);
        let at = self.wait().filter(|_| asks).and_then(|wait| Instant::now().checked_add(wait));
        let verdict = Verdict::new(reason).with_retry_at(at).with_usage(self.decoder.reading().usage);
        verdict.with_should_retry(self.should_retry)
    }

    fn wait(&self) -> Option<Duration> {
        self.wait.max(self.decoder.reading().retry_after)
    }

    /// Somebody may have asked before: the first word stands.
    fn publish(&self) {
        self.answer.0.get_or_init(|| self.decoder.reading().clone());
    }
}

const fn is_settled(reading: &Reading) -> bool {
    reading.done && reading.error.is_none()
}
