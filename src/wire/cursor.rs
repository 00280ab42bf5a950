//! A place in a JSON text, and the steps from there.
//!
//! What is stepped over may be of any depth. It is checked for its strings and, up to 64 deep, its brackets; only a
//! scalar that stands by itself is checked too.

use memchr::memchr2;

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

    /// The offset in the text.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.space();
        self.byte()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(())
    }

    /// Calls `each` at every value of an object, with its key.
    pub(super) fn object(&mut self, each: impl FnMut(&mut Self, &str) -> Result<(), NotJson>) -> Result<(), NotJson> {
        self.expect(b'{')?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        self.pairs(each)
    }

    /// Goes on inside an object, at the value of `key`.
    pub(super) fn object_at(
        &mut self,
        key: &str,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        each(self, key)?;
        match self.peek() {
            Some(b',') => self.at += 1,
            _ => return self.expect(b'}'),
        }
        self.pairs(each)
    }

    fn pairs(&mut self, mut each: impl FnMut(&mut Self, &str) -> Result<(), NotJson>) -> Result<(), NotJson> {
        loop {
            self.space();
            let from = self.at;
            let plain = self.skip_string()?;
            let quoted = &self.text[from..self.at];
            self.expect(b':')?;
            if plain {
                each(self, &quoted[1..quoted.len() - 1])?;
            } else {
                each(self, &super::json::string(Some(quoted)).ok_or(NotJson)?)?;
            }
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return self.expect(b'}'),
            }
        }
    }

    pub(super) fn array(&mut self, mut each: impl FnMut(&mut Self) -> Result<(), NotJson>) -> Result<(), NotJson> {
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
    pub(super) fn raw(&mut self) -> Result<&'a str, NotJson> {
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
        let bytes = self.text.as_bytes();
        let mut depth = 0_usize;
        // Which of the last 64 open brackets are braces.
        let mut braces = 0_u64;
        loop {
            let byte = *bytes.get(self.at).ok_or(NotJson)?;
            match byte {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => {
                    depth += 1;
                    braces = braces << 1 | u64::from(byte == b'{');
                }
                b'}' | b']' => {
                    if depth <= 64 && (braces & 1 == 1) != (byte == b'}') {
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
        let length = match rest {
            [b't', b'r', b'u', b'e', ..] | [b'n', b'u', b'l', b'l', ..] => 4,
            [b'f', b'a', b'l', b's', b'e', ..] => 5,
            [b'0'..=b'9' | b'-', ..] => {
                let inside = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                rest.iter().position(|byte| !inside(byte)).unwrap_or(rest.len())
            }
            _ => return Err(NotJson),
        };
        self.at += length;
        Ok(())
    }

    /// Steps over a string, and tells whether it is free of escapes.
    fn skip_string(&mut self) -> Result<bool, NotJson> {
        if self.byte() != Some(b'"') {
            return Err(NotJson);
        }
        self.at += 1;
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
#[inline]
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
