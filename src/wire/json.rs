//! Reads what is needed out of JSON whose fields may have any type: a wrong type is an absent value, never an error.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

/// A value that is only looked at when it is needed. `null` is `None`.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// More elements than this are not looked at.
const MAX_ITEMS: usize = 4096;

/// An object, or nothing where there is something else.
#[derive(Debug, Clone)]
pub(super) struct Obj<T>(pub(super) Option<T>);

/// The objects of an array; a lone object is an array of one.
#[derive(Debug, Clone)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for Obj<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct Tolerant<T, F>(PhantomData<(T, F)>);

trait Shape<'de, T>: Default {
    fn object(value: T) -> Self;
    fn array<A: SeqAccess<'de>>(seq: A) -> Result<Self, A::Error>;
}

impl<'de, T: Deserialize<'de>> Shape<'de, T> for Obj<T> {
    fn object(value: T) -> Self {
        Self(Some(value))
    }

    fn array<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self(None))
    }
}

impl<'de, T: Deserialize<'de>> Shape<'de, T> for List<T> {
    fn object(value: T) -> Self {
        Self(vec![value])
    }

    fn array<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut items = Vec::new();
        while items.len() < MAX_ITEMS {
            match seq.next_element::<Obj<T>>()? {
                Some(item) => items.extend(item.0),
                None => return Ok(Self(items)),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self(items))
    }
}

impl<'de, T: Deserialize<'de>, F: Shape<'de, T>> Visitor<'de> for Tolerant<T, F> {
    type Value = F;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_unit<E>(self) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<F, A::Error> {
        F::array(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<F, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(F::object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Obj<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tolerant::<T, Self>(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tolerant::<T, Self>(PhantomData))
    }
}

/// Reads the whole of `bytes`; trailing bytes that are not white space are an error.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<Obj<T>, de::value::Error> {
    serde_json::from_slice(bytes).map_err(de::Error::custom)
}

/// The JSON text of a value.
pub(super) fn text<'a>(raw: Raw<'a>) -> &'a str {
    raw.map_or("", RawValue::get)
}

/// Whether there is something: not null, false, `""`, `[]` or `{}`.
pub(super) fn is_filled(raw: Raw<'_>) -> bool {
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
pub(super) fn is_true(raw: Raw<'_>) -> bool {
    text(raw) == "true"
}

/// A string, unescaped; half a surrogate pair becomes U+FFFD instead of an error.
pub(super) fn string<'a>(raw: Raw<'a>) -> Option<Cow<'a, str>> {
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
pub(super) fn word<'a>(raw: Raw<'a>) -> Option<Cow<'a, str>> {
    string(raw).filter(|word| !word.is_empty())
}

/// A string, or the JSON text of anything else that is there: tool arguments come as both.
pub(super) fn string_or_json<'a>(raw: Raw<'a>) -> Option<Cow<'a, str>> {
    string(raw).or_else(|| raw.map(|raw| Cow::Borrowed(raw.get())))
}

/// A count: a whole number that is not negative, also where it is written as a float.
pub(super) fn count(raw: Raw<'_>) -> Option<u64> {
    let text = text(raw);
    text.parse().ok().or_else(|| {
        let float: f64 = text.parse().ok()?;
        (float >= 0.0 && float.fract() == 0.0 && float < 9e15).then_some(float as u64)
    })
}

/// At most `max` bytes of `text`, cut between characters.
pub(super) fn clip(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
