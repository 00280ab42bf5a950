//! How long the other side asks to wait, by the values of its headers: the one parser of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;

use crate::human;

/// The longest wait that is taken at its word; anything longer is held as this. A year fits every clock.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// What the server asks for in so many words: the longer of `retry-after-ms` and `retry-after`. `now` is the wall clock,
/// for answers without a `date`: a server's clock is compared with itself where it says what time it has.
pub(crate) fn asked(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let wait = text(headers, "retry-after-ms").and_then(|ms| scaled(ms, 0.001));
    wait.max(text(headers, "retry-after").and_then(|value| point(value, now_of(headers, now))))
}

/// When the latest rate-limit window opens of which nothing remains.
pub(crate) fn window(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let (now, mut wait) = (now_of(headers, now), None);
    for (name, value) in headers {
        let name = name.as_str();
        let spent = name.contains("remaining")
            && value.to_str().is_ok_and(|left| left.trim().parse().is_ok_and(|left: f64| left <= 0.0));
        if spent {
            wait = wait.max(text(headers, &name.replace("remaining", "reset")).and_then(|reset| point(reset, now)));
        }
    }
    wait
}

/// What `x-should-retry` says of sending the same request again.
pub(crate) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match text(headers, "x-should-retry")? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn now_of(headers: &HeaderMap, now: SystemTime) -> SystemTime {
    text(headers, "date").and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now)
}

/// A duration of protobuf or Go: `34.07s`, `6m0s`.
pub(crate) fn delay(text: &str) -> Option<Duration> {
    human::parse_duration(text).ok().map(|delay| delay.min(LONGEST))
}

/// A plain number of seconds.
#[cfg(feature = "wire")]
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    scaled(text, 1.0)
}

fn scaled(text: &str, scale: f64) -> Option<Duration> {
    finite(text.parse::<f64>().ok()? * scale)
}

/// Nothing for what is negative or not a number; the longest hint for what is longer.
pub(crate) fn finite(seconds: f64) -> Option<Duration> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_word_on_retrying_is_read() {
        let said = |word: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-should-retry", word.parse().expect("a header value"));
            should_retry(&headers)
        };
        assert_eq!((said("false"), said("true"), said("perhaps")), (Some(false), Some(true), None));
        assert_eq!(should_retry(&HeaderMap::new()), None);
    }

    fn wait(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", text.parse().expect("a header value"));
        headers.insert("date", "Wed, 19 Aug 2026 14:34:22 GMT".parse().expect("a header value"));
        asked(&headers, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn waits_are_seconds_or_dates_and_never_negative_or_endless() {
        assert_eq!(wait("2"), Some(Duration::from_secs(2)));
        assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("Wed, 19 Aug 2026 14:34:52 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(wait("Wed, 19 Aug 2020 14:34:52 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("1e300"), Some(LONGEST));
        for nonsense in ["-1", "NaN", "inf", "-inf", "infinity", "soon", ""] {
            assert_eq!(wait(nonsense), None, "{nonsense}");
        }
    }
}
