//! How long the other side asks to wait: the latest of all it says.
//!
//! `retry-after-ms`; `retry-after` (seconds, or an HTTP date); Google's `RetryInfo`; "try again in 17s" in a message;
//! the reset of every rate-limit dimension of which nothing remains (a duration, seconds, an epoch, RFC 3339).
//! Times are measured from the answer's own `date`, so that a wrong local clock does no harm.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;

use crate::{classify::status::LONGEST_WAIT, human};

/// No hint is longer than this: what says more says "never" or is nonsense.
pub const LONGEST: Duration = LONGEST_WAIT;

/// The wait that `headers` and the error's message ask for; `None` where neither says anything.
///
/// `now` is the wall clock, for answers without a `date`. Ask only about a failure: on a success such headers mean
/// nothing.
pub fn retry_after(headers: &HeaderMap, body_message: Option<&str>, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let now = text("date").and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    let mut wait = text("retry-after-ms").and_then(|ms| scaled(ms, 0.001));
    wait = wait.max(text("retry-after").and_then(|value| point(value, now)));
    wait = wait.max(body_message.and_then(in_message));
    for (name, value) in headers {
        let name = name.as_str();
        let spent = name.contains("remaining")
            && value.to_str().is_ok_and(|left| left.trim().parse().is_ok_and(|left: f64| left <= 0.0));
        if spent {
            wait = wait.max(text(&name.replace("remaining", "reset")).and_then(|reset| point(reset, now)));
        }
    }
    wait
}

/// What `x-should-retry` says; where it is there it comes before the status.
pub fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match headers.get("x-should-retry")?.to_str().ok()?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
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

/// A duration of protobuf or Go: `34.07s`, `6m0s`.
pub(super) fn delay(text: &str) -> Option<Duration> {
    human::parse_duration(text).ok().map(|delay| delay.min(LONGEST))
}

/// A plain number of seconds.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    scaled(text, 1.0)
}

fn scaled(text: &str, scale: f64) -> Option<Duration> {
    finite(text.parse::<f64>().ok()? * scale)
}

/// Nothing for what is negative or not a number; the longest hint for what is longer.
fn finite(seconds: f64) -> Option<Duration> {
    if seconds.is_nan() || seconds.is_infinite() || seconds < 0.0 {
        return None;
    }
    // Rounded up to whole milliseconds: a hint is a lower bound, and 0.29 is not exact in a float.
    let millis = (seconds * 1_000.0 - 1e-3).ceil().max(0.0);
    Some(Duration::from_millis(millis as u64).min(LONGEST))
}

/// Seconds, an epoch (told by its size), a Go duration, RFC 3339, or an HTTP date.
fn point(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(number) = text.parse::<f64>() {
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        return match number {
            number if number.is_nan() => None,
            relative if relative < 1e9 => finite(relative),
            seconds if seconds < 1e11 => finite((seconds - since_epoch).max(0.0)),
            millis if millis < 1e14 => finite((millis / 1e3 - since_epoch).max(0.0)),
            micros if micros < 1e17 => finite((micros / 1e6 - since_epoch).max(0.0)),
            nanos => finite((nanos / 1e9 - since_epoch).max(0.0)),
        };
    }
    if let Some(delay) = delay(text) {
        return Some(delay);
    }
    let at = rfc3339(text).or_else(|| httpdate::parse_http_date(text).ok())?;
    Some(at.duration_since(now).unwrap_or_default().min(LONGEST))
}

/// A point in time by RFC 3339: `2026-01-28T19:41:04Z`, with a fraction and an offset where there are any.
fn rfc3339(text: &str) -> Option<SystemTime> {
    fn number(text: &str, from: usize, to: usize) -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    }
    let mark = |at: usize, marks: &[u8]| text.as_bytes().get(at).filter(|b| marks.contains(b)).map(|_| ());
    let (year, month, day) = (number(text, 0, 4)?, number(text, 5, 7)?, number(text, 8, 10)?);
    let (hour, minute, second) = (number(text, 11, 13)?, number(text, 14, 16)?, number(text, 17, 19)?);
    mark(4, b"-").and(mark(7, b"-")).and(mark(10, b"Tt ")).and(mark(13, b":")).and(mark(16, b":"))?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let digits = &fraction[..length.min(9)];
        nanos = digits.parse::<u32>().ok()? * 10_u32.pow(9 - digits.len() as u32);
        rest = &fraction[length..];
    }
    let offset = match rest.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let seconds = number(rest, 1, 3)? * 3_600 + number(rest, 4, 6)? * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    // Days from the civil date: years begin in March, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
            - 719_469;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, nanos))
}
