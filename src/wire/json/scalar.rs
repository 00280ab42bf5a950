//! What a single value says, looked at when it is needed.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, de::Visitor};

use super::Raw;

/// The JSON text of a value.
pub(in crate::wire) fn text<'a>(raw: Raw<'a>) -> &'a str {
    raw.unwrap_or("")
}

/// Whether there is something: not null, false, `""`, `[]` or `{}`.
pub(in crate::wire) fn is_filled(raw: Raw<'_>) -> bool {
    match text(raw) {
        "" | "null" | "false" | "\"\"" => false,
        long if long.len() > 64 => true,
        short => !matches!(
            short.as_bytes(),
            [b'[' | b'{', inner @ .., b']' | b'}'] if inner.iter().all(u8::is_ascii_whitespace)
        ),
    }
}

/// Whether it is `true`.
pub(in crate::wire) fn is_true(raw: Raw<'_>) -> bool {
    text(raw) == "true"
}

/// A string, unescaped; half a surrogate pair becomes U+FFFD instead of an error.
pub(in crate::wire) fn string<'a>(raw: Raw<'a>) -> Option<Cow<'a, str>> {
    let inner = text(raw).strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    if let Ok(plain) = serde_json::from_str::<String>(text(raw)) {
        return Some(Cow::Owned(plain));
    }
    struct Bytes(Vec<u8>);
    impl<'de> Deserialize<'de> for Bytes {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visit;
            impl Visitor<'_> for Visit {
                type Value = Bytes;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a string")
                }
                fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                    Ok(Bytes(bytes.to_vec()))
                }
            }
            deserializer.deserialize_bytes(Visit)
        }
    }
    let bytes = serde_json::from_str::<Bytes>(text(raw)).ok()?.0;
    Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

/// A string that is not empty.
pub(in crate::wire) fn word<'a>(raw: Raw<'a>) -> Option<Cow<'a, str>> {
    string(raw).filter(|word| !word.is_empty())
}

/// A string, or the JSON text of anything else that is there: tool arguments come as both.
pub(in crate::wire) fn string_or_json<'a>(raw: Raw<'a>) -> Option<Cow<'a, str>> {
    string(raw).or_else(|| raw.map(Cow::Borrowed))
}

/// A count: a whole number that is not negative, also where it is written as a float.
pub(in crate::wire) fn count(raw: Raw<'_>) -> Option<u64> {
    let text = text(raw);
    text.parse().ok().or_else(|| {
        let float: f64 = text.parse().ok()?;
        (float >= 0.0 && float.fract() == 0.0 && float < 9e15).then_some(float as u64)
    })
}

/// At most `max` bytes of `text`, cut between characters.
pub(in crate::wire) fn clip(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
