//! Reads what is needed out of JSON in one pass, and steps over the rest without unescaping or storing it.
//!
//! A field of an unexpected type is an absent value, never an error; of a key that comes twice the last counts.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, de::Visitor};

pub(super) use super::cursor::{Cursor, NotJson};

/// A value as its JSON text, looked at when it is needed. `null` is `None`.
pub(super) type Raw<'a> = Option<&'a str>;

/// More elements than this are not looked at.
const MAX_ITEMS: usize = 4096;

/// What can be read at a [`Cursor`], in place: large structs are not moved about.
pub(super) trait Read<'a>: Default {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), NotJson>;

    /// Whether something was read.
    fn is_set(&self) -> bool;
}

/// An object, or nothing where there is something else.
#[derive(Debug, Clone)]
pub(super) struct Obj<T>(pub(super) Option<T>);

/// The objects of an array; a lone object is an array of one. Almost every array has one, which allocates nothing.
#[derive(Debug, Clone)]
pub(super) struct List<T> {
    first: Option<T>,
    more: Vec<T>,
}

/// A struct of the fields that are read, each with the key that it stands under.
macro_rules! object {
    ($(#[$meta:meta])* $vis:vis $name:ident { $($field:ident: $kind:ty = $key:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Default, Clone)]
        $vis struct $name<'a> { $($field: $kind,)* }

        impl<'a> $crate::wire::json::Read<'a> for $name<'a> {
            fn read(
                &mut self,
                cursor: &mut $crate::wire::json::Cursor<'a>,
            ) -> Result<(), $crate::wire::json::NotJson> {
                cursor.object(|cursor, key| self.field(cursor, key))
            }

            fn is_set(&self) -> bool {
                true
            }
        }

        impl<'a> $name<'a> {
            /// Reads the value of one key.
            fn field(
                &mut self,
                cursor: &mut $crate::wire::json::Cursor<'a>,
                key: &str,
            ) -> Result<(), $crate::wire::json::NotJson> {
                match key {
                    $($key => {
                        cursor.twice |= $crate::wire::json::Read::is_set(&self.$field);
                        $crate::wire::json::Read::read(&mut self.$field, cursor)
                    })*
                    _ => cursor.skip(),
                }
            }
        }
    };
}
pub(super) use object;

// === impl Read ===

impl<'a> Read<'a> for Raw<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), NotJson> {
        *self = Some(cursor.raw()?).filter(|text| *text != "null");
        Ok(())
    }

    fn is_set(&self) -> bool {
        self.is_some()
    }
}

impl<T> Default for Obj<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'a, T: Read<'a>> Read<'a> for Obj<T> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), NotJson> {
        if cursor.peek() == Some(b'{') {
            return self.0.insert(T::default()).read(cursor);
        }
        self.0 = None;
        cursor.skip()
    }

    fn is_set(&self) -> bool {
        self.0.is_some()
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { first: None, more: Vec::new() }
    }
}

impl<'a, T: Read<'a>> Read<'a> for List<T> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), NotJson> {
        self.first = None;
        self.more.clear();
        if cursor.peek() == Some(b'[') {
            return cursor.array(|cursor| self.item(cursor));
        }
        self.item(cursor)
    }

    fn is_set(&self) -> bool {
        !self.is_empty()
    }
}

impl<T> List<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.more)
    }

    pub(super) fn into_first(self) -> Option<T> {
        self.first
    }

    fn item<'a>(&mut self, cursor: &mut Cursor<'a>) -> Result<(), NotJson>
    where
        T: Read<'a>,
    {
        if cursor.peek() != Some(b'{') || self.more.len() >= MAX_ITEMS {
            return cursor.skip();
        }
        if self.first.is_none() {
            return self.first.insert(T::default()).read(cursor);
        }
        let at = self.more.len();
        self.more.push(T::default());
        self.more[at].read(cursor)
    }
}

impl<'a, T: Read<'a>> Read<'a> for Option<List<T>> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), NotJson> {
        *self = None;
        match cursor.peek() {
            Some(b'n') => cursor.skip(),
            _ => self.insert(List::default()).read(cursor),
        }
    }

    fn is_set(&self) -> bool {
        self.is_some()
    }
}

/// Reads the whole of `bytes`; trailing bytes that are not white space are an error.
pub(super) fn read<'a, T: Read<'a>>(bytes: &'a [u8]) -> Result<T, NotJson> {
    let mut cursor = Cursor::new(bytes)?;
    let mut value = T::default();
    value.read(&mut cursor)?;
    cursor.end()?;
    Ok(value)
}

/// Reads an object that was kept as its text.
pub(super) fn inner<'a, T: Read<'a>>(raw: Raw<'a>) -> Option<T> {
    if !text(raw).starts_with('{') {
        return None;
    }
    read::<T>(text(raw).as_bytes()).ok()
}

/// Reads like [`read`], and refuses a key that comes twice: others may count the one that we did not.
pub(super) fn read_once<'a, T: Read<'a>>(bytes: &'a [u8]) -> Result<T, NotJson> {
    let mut cursor = Cursor::new(bytes)?;
    let mut value = T::default();
    value.read(&mut cursor)?;
    cursor.end()?;
    if cursor.twice { Err(NotJson) } else { Ok(value) }
}

/// The elements of an array, whatever they are; `None` where it is no array.
pub(super) fn elements<'a>(raw: Raw<'a>) -> Option<Vec<Raw<'a>>> {
    let mut cursor = Cursor::new(text(raw).as_bytes()).ok()?;
    let mut items = Vec::new();
    let each = |cursor: &mut Cursor<'a>| cursor.raw().map(|item| items.push(Some(item)));
    cursor.array(each).ok()?;
    Some(items)
}

/// The JSON text of a value.
pub(super) fn text<'a>(raw: Raw<'a>) -> &'a str {
    raw.unwrap_or("")
}

/// Whether there is something: not null, false, `""`, `[]` or `{}`.
#[inline]
pub(super) fn is_filled(raw: Raw<'_>) -> bool {
    match raw.map(str::as_bytes) {
        None | Some(b"false" | b"\"\"") => false,
        Some([b'[' | b'{', inner @ .., _]) => inner.iter().any(|byte| !byte.is_ascii_whitespace()),
        Some(_) => true,
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
    string(raw).or_else(|| raw.map(Cow::Borrowed))
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
