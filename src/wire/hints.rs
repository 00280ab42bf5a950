//! How long the other side asks to wait: the latest of all it says.
//!
//! `retry-after-ms`; `retry-after` (seconds, or an HTTP date); Google's `RetryInfo`; "try again in 17s" in a message;
//! the reset of every rate-limit dimension of which nothing remains (a duration, seconds, an epoch, RFC 3339).
//! Times are measured from the answer's own `date`, so that a wrong local clock does no harm.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use crate::classify::wait::{self, finite};
pub(super) use crate::classify::wait::{delay, seconds};

/// No hint is longer than this: what says more says "never" or is nonsense.
pub const LONGEST: Duration = wait::LONGEST;

/// The wait that `headers` and the error's message ask for; `None` where neither says anything.
///
/// `now` is the wall clock, for answers without a `date`. Ask only about a failure: on a success such headers mean
/// nothing.
pub fn retry_after(headers: &HeaderMap, body_message: Option<&str>, now: SystemTime) -> Option<Duration> {
    let wait = wait::asked(headers, now).max(wait::window(headers, now));
    wait.max(body_message.and_then(in_message))
}

/// The wait in "try again in 17s", "retry after 26 seconds", "retry in 1h2m3.5s".
pub(super) fn in_message(message: &str) -> Option<Duration> {
    const PHRASES: [&str; 3] = ["try again in ", "retry after ", "retry in "];
    let lower = message.to_ascii_lowercase();
    let mut wait = None;
    for phrase in PHRASES {
        for (at, _) in lower.match_indices(phrase) {
            wait = wait.max(spelled(&lower[at + phrase.len()..]));
        }
    }
    wait
}

/// Reads numbers with units from the beginning of `text` on, as long as there are any.
fn spelled(mut text: &str) -> Option<Duration> {
    let mut total: Option<f64> = None;
    loop {
        text = text.trim_start();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let Ok(number) = text[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let tail = text[digits..].trim_start();
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let scale = match &tail[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + number * scale);
        text = &tail[letters..];
    }
    finite(total?)
}
