//! Reads what is needed out of JSON in one pass, and steps over the rest without unescaping or storing it.
//!
//! A field of an unexpected type is an absent value, never an error; of a key that comes twice the last counts. What is
//! stepped over is checked for its strings, scalars and brackets only.

mod scalar;

use memchr::memchr2;

pub(super) use self::scalar::{clip, count, is_filled, is_true, string, string_or_json, text, word};

/// A value as its JSON text, looked at when it is needed. `null` is `None`.
pub(super) type Raw<'a> = Option<&'a str>;

/// More elements than this are not looked at.
const MAX_ITEMS: usize = 4096;

/// The text is not JSON, or not what it should be.
#[derive(Debug)]
pub(super) struct NotJson;

/// A place in a JSON text.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// A key that was read came twice.
    pub(super) twice: bool,
}

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
                cursor.object(|cursor, key| match key {
                    $($key => {
                        cursor.twice |= $crate::wire::json::Read::is_set(&self.$field);
                        $crate::wire::json::Read::read(&mut self.$field, cursor)
                    })*
                    _ => cursor.skip(),
                })
            }

            fn is_set(&self) -> bool {
                true
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

// === impl Cursor ===

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, NotJson> {
        let text = str::from_utf8(bytes).map_err(|_| NotJson)?;
        Ok(Self { text, at: 0, twice: false })
    }

    /// Nothing but white space is left.
    pub(super) fn end(&mut self) -> Result<(), NotJson> {
        self.space();
        if self.at == self.text.len() { Ok(()) } else { Err(NotJson) }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    pub(super) fn peek(&mut self) -> Option<u8> {
        self.space();
        self.byte()
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(())
    }

    /// Calls `each` at every value of an object, with its key.
    pub(super) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.expect(b'{')?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            let from = self.at;
            let plain = self.skip_string()?;
            let quoted = &self.text[from..self.at];
            self.expect(b':')?;
            if plain {
                each(self, &quoted[1..quoted.len() - 1])?;
            } else {
                each(self, &string(Some(quoted)).ok_or(NotJson)?)?;
            }
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return self.expect(b'}'),
            }
        }
    }

    fn array(&mut self, mut each: impl FnMut(&mut Self) -> Result<(), NotJson>) -> Result<(), NotJson> {
        self.expect(b'[')?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            each(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return self.expect(b']'),
            }
        }
    }

    /// The text of a value.
    fn raw(&mut self) -> Result<&'a str, NotJson> {
        self.space();
        let from = self.at;
        self.skip()?;
        Ok(&self.text[from..self.at])
    }

    /// Steps over a value of any kind and depth.
    pub(super) fn skip(&mut self) -> Result<(), NotJson> {
        match self.peek().ok_or(NotJson)? {
            b'"' => self.skip_string().map(|_| ()),
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_scalar(),
        }
    }

    fn skip_nested(&mut self) -> Result<(), NotJson> {
        let mut depth = 0_usize;
        // Which of the last 64 open brackets are braces.
        let mut braces = 0_u64;
        loop {
            match self.byte().ok_or(NotJson)? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                open @ (b'{' | b'[') => {
                    depth += 1;
                    braces = braces << 1 | u64::from(open == b'{');
                }
                close @ (b'}' | b']') => {
                    if depth <= 64 && (braces & 1 == 1) != (close == b'}') {
                        return Err(NotJson);
                    }
                    depth -= 1;
                    braces >>= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Ok(());
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn skip_scalar(&mut self) -> Result<(), NotJson> {
        let rest = &self.text.as_bytes()[self.at..];
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.iter().position(|byte| !inside(byte)).unwrap_or(rest.len());
        let is_number = matches!(rest.first(), Some(b'0'..=b'9' | b'-'))
            && rest[..length].iter().all(|byte| !byte.is_ascii_alphabetic() || matches!(byte, b'e' | b'E'));
        if !is_number && !matches!(&rest[..length], b"true" | b"false" | b"null") {
            return Err(NotJson);
        }
        self.at += length;
        Ok(())
    }

    /// Steps over a string, and tells whether it is free of escapes.
    fn skip_string(&mut self) -> Result<bool, NotJson> {
        self.expect(b'"')?;
        let bytes = self.text.as_bytes();
        let mut plain = true;
        loop {
            self.at = mark(bytes, self.at).ok_or(NotJson)?;
            if bytes[self.at] == b'"' {
                self.at += 1;
                return Ok(plain);
            }
            plain = false;
            // What follows the escape is ASCII, or else no end of this string; the end is found either way.
            self.at += 1;
            if bytes.get(self.at).is_none_or(|byte| !byte.is_ascii()) {
                return Err(NotJson);
            }
            self.at += 1;
        }
    }
}

/// The next quote or backslash: eight bytes at a time, and by vectors where the string is long.
fn mark(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    for _ in 0..4 {
        let Some(Ok(chunk)) = bytes.get(at..at + 8).map(<[u8; 8]>::try_from) else { break };
        let word = u64::from_le_bytes(chunk);
        let found = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found)
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
