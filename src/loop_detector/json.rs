//! The tokens of a JSON text, one after the other, each in the one form that all its spellings have.

/// A place in a JSON text.
pub(super) struct Json<'a> {
    bytes: &'a [u8],
    at: usize,
    /// A string without its escapes, or a number without its point.
    scratch: Vec<u8>,
}

/// A number: its sign, its digits without zeros at either end, and the power of ten they are times.
pub(super) struct Number<'a> {
    pub(super) is_negative: bool,
    pub(super) digits: &'a [u8],
    pub(super) power: i64,
}

impl<'a> Json<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0, scratch: Vec::new() }
    }

    /// Whether nothing but white space is left.
    pub(super) fn is_over(&mut self) -> bool {
        self.peek().is_none()
    }

    /// The next byte that is no white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Goes over the byte that was peeked at.
    pub(super) const fn step(&mut self) {
        self.at += 1;
    }

    /// Whether another member or element follows; goes over the comma before it, or over the end.
    pub(super) fn continues(&mut self, end: u8, is_first: bool) -> Option<bool> {
        if self.peek()? == end {
            self.at += 1;
            return Some(false);
        }
        if !is_first {
            self.byte(b',')?;
        }
        Some(true)
    }

    pub(super) fn colon(&mut self) -> Option<()> {
        self.peek()?;
        self.byte(b':')
    }

    pub(super) fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    /// A string without its quotes and escapes.
    pub(super) fn string(&mut self) -> Option<&[u8]> {
        self.peek()?;
        self.byte(b'"')?;
        let begin = self.at;
        self.at += plain(&self.bytes[begin..])?;
        let text = &self.bytes[begin..self.at];
        if self.byte(b'"').is_some() {
            return Some(text);
        }
        self.scratch.clear();
        self.scratch.reserve(self.bytes.len() - begin);
        self.scratch.extend_from_slice(text);
        loop {
            match self.next()? {
                b'"' => return Some(&self.scratch),
                _ => self.escape()?,
            }
            let begin = self.at;
            self.at += plain(&self.bytes[begin..])?;
            self.scratch.extend_from_slice(&self.bytes[begin..self.at]);
        }
    }

    fn escape(&mut self) -> Option<()> {
        let plain = match self.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 0x08,
            b'f' => 0x0c,
            same @ (b'"' | b'\\' | b'/') => same,
            b'u' => {
                let mut unit = self.unit()?;
                if (0xd800..0xdc00).contains(&unit) {
                    self.byte(b'\\')?;
                    self.byte(b'u')?;
                    let low = self.unit()?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                    unit = 0x1_0000 + ((unit - 0xd800) << 10) + low;
                }
                // Half of a pair is no character.
                let char = char::from_u32(unit)?;
                self.scratch.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(());
            }
            _ => return None,
        };
        self.scratch.push(plain);
        Some(())
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    }

    pub(super) fn number(&mut self) -> Option<Number<'_>> {
        let is_negative = self.byte(b'-').is_some();
        let whole = self.digits()?;
        let fraction = if self.byte(b'.').is_some() { self.digits()? } else { b"" };
        let mut power = 0;
        if self.byte(b'e').or_else(|| self.byte(b'E')).is_some() {
            let is_small = self.byte(b'-').is_some();
            let _ = is_small || self.byte(b'+').is_some();
            // A power of more digits is no number that anybody means.
            let digits = self.digits().filter(|digits| digits.len() <= 17)?;
            power = digits.iter().fold(0, |power, digit| power * 10 + i64::from(digit - b'0'));
            power = if is_small { -power } else { power };
        }
        let mut digits = whole;
        if !fraction.is_empty() {
            self.scratch.clear();
            self.scratch.extend_from_slice(whole);
            self.scratch.extend_from_slice(fraction);
            digits = &self.scratch;
        }
        let Some(begin) = digits.iter().position(|digit| *digit != b'0') else {
            return Some(Number { is_negative: false, digits: b"", power: 0 });
        };
        let end = digits.iter().rposition(|digit| *digit != b'0').map_or(begin, |last| last + 1);
        power += (digits.len() - end) as i64 - fraction.len() as i64;
        Some(Number { is_negative, digits: &digits[begin..end], power })
    }

    fn digits(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let many = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += many;
        (many > 0).then_some(&rest[..many])
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }
}

/// How many bytes come before the next quote or backslash, eight at a time; `None` where there is neither.
fn plain(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    // The lowest bit set is the high bit of the first byte that is `byte`; higher ones may be wrong.
    let hits = |word: u64, byte: u8| {
        let differs = word ^ (ONES * u64::from(byte));
        differs.wrapping_sub(ONES) & !differs & (ONES << 7)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = hits(word, b'"') | hits(word, b'\\');
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(words.len() * 8 + found)
}
