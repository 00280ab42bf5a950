//! What an error says: from status, code and type to a [`Reason`].
//!
//! Codes are trusted, wherever they stand. Words count only as the few exact phrases below, and no prose turns a
//! throttle into spent quota.

use std::time::Duration;

use super::{
    hints,
    json::{self, List, Obj, Raw},
    reading::StatedError,
};
use crate::{
    call::Effect,
    classify::status::{Proof, status_reason},
    reason::Reason,
};

const MAX_WORD: usize = 128;
const MAX_MESSAGE: usize = 1024;

json::object! {
    /// Every shape in which an error was seen: OpenAI's and its dialects', FastAPI's, Hugging Face's, Google's.
    Body {
        error: Raw<'a> = "error",
        errors: List<Inner<'a>> = "errors",
    }
}

json::object! {
    Inner {
        code: Raw<'a> = "code",
        kind: Raw<'a> = "type",
        // Cohere's.
        error_type: Raw<'a> = "error_type",
        status: Raw<'a> = "status",
        status_code: Raw<'a> = "status_code",
        status_code_camel: Raw<'a> = "statusCode",
        message: Raw<'a> = "message",
        detail: Raw<'a> = "detail",
        details: List<Detail<'a>> = "details",
        innererror: Obj<Coded<'a>> = "innererror",
        estimated_time: Raw<'a> = "estimated_time",
        resets_in_seconds: Raw<'a> = "resets_in_seconds",
    }
}

json::object! {
    Coded {
        code: Raw<'a> = "code",
    }
}

json::object! {
    Detail {
        retry_delay: Raw<'a> = "retryDelay",
        reason: Raw<'a> = "reason",
    }
}

/// Reads an error body whatever its shape; `None` where there is no JSON object.
pub(super) fn read_body(body: &[u8]) -> Option<(StatedError, Option<Duration>)> {
    let body = body.trim_ascii();
    // Google's OpenAI-compatible endpoint wraps its errors in an array.
    let outer: List<Inner<'_>> = json::read(body).ok()?;
    let whole: List<Body<'_>> = json::read(body).ok()?;
    let (outer, whole) = (outer.into_first()?, whole.into_first()?);
    let mut read = match whole.error {
        Some(error) => read_value(Some(error)),
        None => whole.errors.iter().next().map(read_inner),
    };
    let (around, wait) = read_inner(&outer);
    match &mut read {
        None => read = Some((around, wait)),
        Some((error, inner_wait)) => {
            error.status = error.status.or(around.status);
            error.code = error.code.take().or(around.code);
            // Around an error object `type` only says that it is one.
            error.kind = error.kind.take().or(around.kind.filter(|kind| kind != "error"));
            error.message = error.message.take().or(around.message);
            error.loading |= around.loading;
            *inner_wait = (*inner_wait).max(wait);
        }
    }
    read
}

/// Reads the value of an `error` field; `None` where it says that there is none.
pub(super) fn read_value(raw: Raw<'_>) -> Option<(StatedError, Option<Duration>)> {
    if !json::is_filled(raw) {
        return None;
    }
    if let Some(message) = json::string(raw) {
        return Some(spoken(StatedError::default(), &message));
    }
    match json::read::<Obj<Inner<'_>>>(json::text(raw).as_bytes()) {
        Ok(Obj(Some(inner))) => Some(read_inner(&inner)),
        // A list of messages, a number: an error that says nothing we can trust.
        _ => Some(spoken(StatedError::default(), json::text(raw))),
    }
}

fn read_inner(inner: &Inner<'_>) -> (StatedError, Option<Duration>) {
    let mut error = StatedError::default();
    let status = |raw| json::count(raw).filter(|status| (400..600).contains(status)).map(|status| status as u16);
    for raw in [inner.code, inner.status_code, inner.status_code_camel, inner.status] {
        error.status = error
            .status
            .or_else(|| status(raw))
            .or_else(|| json::string(raw)?.parse().ok().filter(|s| (400..600).contains(s)));
    }
    let is_status = |word: &str| word.parse().is_ok_and(|number: u16| (400..600).contains(&number));
    let word = |raw| {
        let word = json::word(raw).or_else(|| json::count(raw).map(|code| code.to_string().into()))?;
        (!is_status(&word)).then(|| json::clip(&word, MAX_WORD).to_owned())
    };
    // Google's `reason` is finer than its `status`.
    let google = [inner.details.iter().find_map(|detail| word(detail.reason)), word(inner.status)];
    let mut google = google.into_iter().flatten();
    let inner_code = || word(inner.innererror.0.as_ref()?.code);
    error.code = word(inner.code).or_else(inner_code).or_else(|| google.next());
    error.kind = word(inner.kind).or_else(|| word(inner.error_type)).or_else(|| google.next());
    error.loading = json::is_filled(inner.estimated_time);
    let message = json::string(inner.message).or_else(|| json::string_or_json(inner.detail)).unwrap_or_default();
    let (error, mut wait) = spoken(error, &message);
    for detail in inner.details.iter() {
        wait = wait.max(json::string(detail.retry_delay).and_then(|delay| hints::delay(&delay)));
    }
    for raw in [inner.estimated_time, inner.resets_in_seconds] {
        wait = wait.max(hints::seconds(json::text(raw)));
    }
    (error, wait)
}

fn spoken(mut error: StatedError, message: &str) -> (StatedError, Option<Duration>) {
    let message = json::clip(message, MAX_MESSAGE);
    error.message = (!message.is_empty()).then(|| message.to_owned());
    (error, hints::in_message(message))
}

/// Codes and types that say what happened by themselves. Compared without regard to case.
const CODES: &[(Reason, &[&str])] = &[
    (
        Reason::ContextOverflow,
        &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "context_window_exceeded",
            "model_context_window_exceeded",
            "request_too_large",
            "tokens_limit_reached",
            "too_many_tokens",
        ],
    ),
    (
        Reason::ContentFiltered,
        &[
            "content_filter",
            "content_policy_violation",
            "ResponsibleAIPolicyViolation",
            "invalid_prompt",
            "bio_policy",
            "cyber_policy",
            "image_content_policy_violation",
            "moderation_blocked",
            "data_inspection_failed",
        ],
    ),
    (
        Reason::QuotaExhausted,
        &[
            "insufficient_quota",
            "usage_not_included",
            "usage_limit_reached",
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_balance",
            "insufficient_credits",
            "exceeded_current_quota_error",
        ],
    ),
    (
        Reason::RateLimited,
        &[
            "rate_limit_exceeded",
            "rate_limit_error",
            "rate_limit_reached_error",
            "RateLimitReached",
            "rate_limited",
            "rate_limit",
            "too_many_requests",
            "throttling_error",
            "RESOURCE_EXHAUSTED",
        ],
    ),
    (
        Reason::Overloaded,
        &[
            "overloaded_error",
            "overloaded",
            "server_is_overloaded",
            "slow_down",
            "engine_overloaded",
            "engine_overloaded_error",
            "model_overloaded",
            "capacity_exceeded",
            "MODEL_CAPACITY_EXHAUSTED",
        ],
    ),
    (
        Reason::Unauthenticated,
        &[
            "invalid_api_key",
            "authentication_error",
            "invalid_authentication_error",
            "token_expired",
            "account_deactivated",
            "API_KEY_INVALID",
            "UNAUTHENTICATED",
        ],
    ),
    (Reason::PermissionDenied, &["permission_error", "permission_denied", "PermissionDenied", "access_denied"]),
    (Reason::NotEntitled, &["unsupported_country_region_territory", "model_not_allowed", "model_terms_required"]),
    (Reason::NotFound, &["model_not_found", "not_found_error", "DeploymentNotFound", "not_found", "NotFoundError"]),
    (Reason::ToolCallInvalid, &["tool_use_failed"]),
    (Reason::SchemaViolation, &["json_validate_failed"]),
    (Reason::Timeout, &["timeout_error", "request_timeout", "vector_store_timeout", "DEADLINE_EXCEEDED"]),
    (Reason::ServerError, &["server_error", "api_error", "internal_error", "internal_server_error"]),
];

/// What a code or type says by itself.
fn by_word(word: &str) -> Option<Reason> {
    CODES
        .iter()
        .find(|(_, words)| words.iter().any(|known| known.eq_ignore_ascii_case(word)))
        .map(|(reason, _)| *reason)
}

/// Phrases of an input that is too long, for servers that give no code.
const OVERFLOW: &[&str] = &[
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the available context size",
    "input is too long for requested model",
    "exceeds the maximum number of tokens allowed",
    "too many tokens: size limit exceeded",
];
const BAD_KEY: &[&str] = &["incorrect api key", "invalid api key", "api key not valid", "api key expired"];

/// What an error means for a call with this `effect`.
///
/// `status` is the HTTP status; a status inside the error comes before a success status. Above
/// [`Effect::ReadOnly`] a server's failure proves nothing, unless the provider's own code says that it refused.
pub fn error_reason(status: u16, error: &StatedError, effect: Effect) -> Reason {
    let status = match status {
        200..300 => error.status.unwrap_or(0),
        status => status,
    };
    let message = error.message.as_deref().unwrap_or("").to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    let on_read = |reason| if effect == Effect::ReadOnly { reason } else { Reason::Unproven };

    if matches!(status, 0 | 400 | 403) && says(&["credit balance is too low"]) {
        return Reason::QuotaExhausted;
    }
    if matches!(status, 0 | 429) && says(&["extra usage is required"]) {
        return Reason::NotEntitled;
    }
    let coded = [&error.code, &error.kind].into_iter().flatten().find_map(|word| by_word(word));
    match coded {
        // `server_error` stands beside anything: the status is finer, and phrases are finer still.
        Some(Reason::ServerError) | None => {}
        Some(Reason::Timeout) => return on_read(Reason::Timeout),
        // OpenAI's answer to a project without access to the model; Azure's to a principal it does not know.
        Some(Reason::NotFound) if status == 403 => return Reason::NotEntitled,
        Some(Reason::PermissionDenied) if status == 401 => return Reason::Unauthenticated,
        Some(reason) => return reason,
    }
    if matches!(status, 0 | 400 | 413 | 422 | 500) && says(OVERFLOW) {
        return Reason::ContextOverflow;
    }
    if status == 400 && says(BAD_KEY) {
        return Reason::Unauthenticated;
    }
    if matches!(status, 0 | 503) && (error.loading || message == "loading model") {
        return on_read(Reason::WarmingUp);
    }
    let invalid = error.kind.as_deref().is_some_and(|kind| kind == "invalid_request_error");
    match status {
        0 if coded.is_none() && invalid => Reason::InvalidRequest,
        0 => on_read(Reason::ServerError),
        // Anthropic's 413 and OpenAI's are both about the size of the input.
        413 => Reason::ContextOverflow,
        400.. => status_reason(status, effect, Proof::None),
        _ => Reason::Unclassified,
    }
}
