//! One digest for results that differ only in what differs each time: [`result`]; and for messages of one shape:
//! [`shape`].

use std::hash::{BuildHasher, Hasher};

use super::sketch::seed;

/// Beyond this, results are digested as they are.
const LOOKED_AT: usize = 256 << 10;
/// So much of a message makes its shape.
const SHAPE: usize = 512;

/// The digest of a result without its times, durations, process ids, addresses and UUIDs.
pub(super) fn result(text: &str) -> u64 {
    let bytes = text.trim_ascii().as_bytes();
    let (head, tail) = bytes.split_at(bytes.len().min(LOOKED_AT));
    let mut hasher = seed().build_hasher();
    let (mut at, mut written) = (0, 0);
    let mut is_in_word = false;
    while at < head.len() {
        let byte = head[at];
        if !byte.is_ascii_alphanumeric() {
            is_in_word = byte == b'_';
            at += 1;
            continue;
        }
        let masked = if is_in_word { 0 } else { volatile(&head[at..]) };
        if masked > 0 {
            hasher.write(&head[written..at]);
            hasher.write_u8(0xff);
            at += masked;
            written = at;
        } else {
            at += 1;
        }
        is_in_word = true;
    }
    hasher.write(&head[written..]);
    hasher.write(tail);
    hasher.finish()
}

/// How long the volatile word is that begins here; 0 where none does.
fn volatile(text: &[u8]) -> usize {
    let length = match text[0] {
        b'0' if text.get(1) == Some(&b'x') => address(text),
        b'0'..=b'9' => uuid(text).max(time(text)).max(epoch(text)).max(duration(text)),
        b'p' | b'P' => process(text),
        b'a'..=b'f' | b'A'..=b'F' => uuid(text),
        _ => 0,
    };
    // A part of a longer word means something else.
    if text.get(length).is_some_and(u8::is_ascii_alphanumeric) { 0 } else { length }
}

fn many(text: &[u8], is: impl Fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| is(byte)).count()
}

fn digits(text: &[u8]) -> usize {
    many(text, u8::is_ascii_digit)
}

/// `0x7ffd2c3b`
fn address(text: &[u8]) -> usize {
    match many(&text[2..], u8::is_ascii_hexdigit) {
        length @ 6.. => 2 + length,
        _ => 0,
    }
}

/// `123e4567-e89b-12d3-a456-426614174000`
fn uuid(text: &[u8]) -> usize {
    let Some(text) = text.get(..36) else { return 0 };
    let is_uuid = text.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    if is_uuid { 36 } else { 0 }
}

/// `2026-01-31T12:30:05.123Z`, `2026-01-31 12:30`, `12:30:05`. A date alone is what somebody asked for.
fn time(text: &[u8]) -> usize {
    let fits = |text: &[u8], form: &[u8]| {
        let fits = |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
        text.len() >= form.len() && text.iter().zip(form).all(fits)
    };
    let mut length = 0;
    let has_date = fits(text, b"0000-00-00") && matches!(text.get(10), Some(b'T' | b' '));
    if has_date {
        length = 11;
    }
    match &text[length..] {
        rest if fits(rest, b"00:00:00") => length += 8,
        rest if has_date && fits(rest, b"00:00") => length += 5,
        _ => return 0,
    }
    if let Some(b'.' | b',') = text.get(length) {
        let part = digits(&text[length + 1..]);
        length += if part > 0 { 1 + part } else { 0 };
    }
    match &text[length..] {
        [b'Z', ..] => length + 1,
        [b'+' | b'-', rest @ ..] if fits(rest, b"00:00") => length + 6,
        [b'+' | b'-', rest @ ..] if fits(rest, b"0000") => length + 5,
        _ => length,
    }
}

/// Seconds or milliseconds since 1970, of the years 2017 to 2033.
fn epoch(text: &[u8]) -> usize {
    let length = digits(text);
    let is_epoch = matches!(length, 10 | 13) && text[0] == b'1' && text[1] >= b'5';
    match text.get(length) {
        _ if !is_epoch => 0,
        Some(b'.') => length + 1 + digits(&text[length + 1..]),
        _ => length,
    }
}

/// `12ms`, `0.31 s`, `46 seconds`
fn duration(text: &[u8]) -> usize {
    let mut length = digits(text);
    if text.get(length) == Some(&b'.') {
        length += 1 + digits(&text[length + 1..]);
    }
    length += usize::from(text.get(length) == Some(&b' '));
    let unit = many(&text[length..], u8::is_ascii_alphabetic);
    let is_unit = matches!(
        &text[length..length + unit],
        b"ns"
            | b"us"
            | b"ms"
            | b"s"
            | b"sec"
            | b"secs"
            | b"second"
            | b"seconds"
            | b"min"
            | b"mins"
            | b"minute"
            | b"minutes"
            | b"hour"
            | b"hours"
    );
    if is_unit { length + unit } else { 0 }
}

/// `pid 4711`, `PID=4711`
fn process(text: &[u8]) -> usize {
    if !text.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"pid")) {
        return 0;
    }
    let between = many(&text[3..], |byte| b" :=\"'".contains(byte));
    match digits(&text[3 + between..]) {
        0 => 0,
        length if between > 0 => 3 + between + length,
        _ => 0,
    }
}

/// The digest of what messages have in common that differ in what they quote and count. `None` where too little is
/// left to say anything.
pub(super) fn shape(text: &str) -> Option<u64> {
    let bytes = &text.as_bytes()[..text.len().min(SHAPE)];
    let mut hasher = seed().build_hasher();
    let (mut at, mut letters) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            open @ (b'\'' | b'"' | b'`' | b'[') if at == 0 || !bytes[at - 1].is_ascii_alphanumeric() => {
                let close = if open == b'[' { b']' } else { open };
                let quoted = bytes[at + 1..].iter().position(|byte| *byte == close);
                at += quoted.map_or(1, |length| length + 2);
                hasher.write_u8(b'\'');
            }
            byte if byte.is_ascii_whitespace() => at += 1,
            _ => {
                let is_word = |byte: &u8| !byte.is_ascii_whitespace() && !b"'\"`[".contains(byte);
                let length = many(&bytes[at..], is_word).max(1);
                let word = &bytes[at..at + length];
                if word.iter().any(u8::is_ascii_digit) {
                    hasher.write_u8(b'0');
                } else {
                    letters += word.len();
                    word.iter().for_each(|byte| hasher.write_u8(byte.to_ascii_lowercase()));
                }
                hasher.write_u8(b' ');
                at += length;
            }
        }
    }
    (letters >= 8).then(|| hasher.finish())
}

/// Whether a message says that the same call may fare better in a moment.
pub(super) fn is_transient(text: &str) -> bool {
    const WORDS: [&[u8]; 14] = [
        b"429",
        b"502",
        b"503",
        b"504",
        b"timeout",
        b"timed out",
        b"rate limit",
        b"too many requests",
        b"temporarily unavailable",
        b"service unavailable",
        b"overloaded",
        b"try again later",
        b"connection reset",
        b"connection refused",
    ];
    let bytes = &text.as_bytes()[..text.len().min(SHAPE)];
    let is_edge = |at: Option<&u8>| at.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    WORDS.iter().any(|word| {
        bytes.windows(word.len()).enumerate().any(|(at, window)| {
            window.eq_ignore_ascii_case(word)
                && is_edge(at.checked_sub(1).map(|before| &bytes[before]))
                && is_edge(bytes.get(at + word.len()))
        })
    })
}
