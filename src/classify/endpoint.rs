//! Which requests ask a model for an answer, and nothing more.

use http::Method;

use super::RequestHead;
use crate::call::{Call, Effect};

/// What is known of a request to an inference endpoint.
pub(crate) struct Inference<'a> {
    operation: &'a str,
    model: Option<String>,
    effect: Effect,
}

impl Inference<'_> {
    pub(crate) fn describe(&self, call: Call) -> Call {
        call.operation(self.model.as_deref().unwrap_or(self.operation)).effect(self.effect)
    }
}

pub(crate) fn inference<'a>(head: &RequestHead<'a>, body: Option<&[u8]>) -> Option<Inference<'a>> {
    let _ = body;
    let path = head.uri.path();
    if *head.method != Method::POST || !path.ends_with("/chat/completions") {
        return None;
    }
    Some(Inference { operation: "chat/completions", model: None, effect: Effect::Sensitive })
}
