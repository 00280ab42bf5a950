//! Which words a text is made of, in 68 bytes: [`Sketch`] tells how much two texts have in common.

use std::{
    hash::{BuildHasher, Hasher},
    sync::OnceLock,
};

use hashbrown::DefaultHashBuilder;

/// So much of a result is looked at.
const LOOKED_AT: usize = 2_048;
/// So much of arguments, at either end.
const AT_EITHER_END: usize = 128;
const PLACES: usize = 32;
const EMPTY: u16 = u16::MAX;

/// The smallest hash of a word at each of 32 places (one permutation MinHash). Order and number of the words make no
/// difference. Seconds and milliseconds since 1970 are left out. Other ids are not: another target is another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sketch {
    places: [u16; PLACES],
    /// All whole numbers, in any order.
    numbers: u32,
}

impl Sketch {
    /// Of a result: of its beginning.
    pub(super) fn of(text: &str) -> Self {
        let mut sketch = Self::default();
        sketch.add(&text.as_bytes()[..text.len().min(LOOKED_AT)]);
        sketch
    }

    /// Of arguments: of both their ends.
    pub(super) fn of_ends(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut sketch = Self::default();
        if bytes.len() <= 2 * AT_EITHER_END {
            sketch.add(bytes);
        } else {
            sketch.add(&bytes[..AT_EITHER_END]);
            sketch.add(&bytes[bytes.len() - AT_EITHER_END..]);
        }
        sketch
    }

    fn add(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let begin = at;
            // Eight letters at a time are one number, so that a word costs one multiplication and not one a letter.
            let (mut hash, mut part) = (0_u64, 0_u64);
            let mut are_digits = true;
            while let Some(class @ 1..) = bytes.get(at).map(|byte| CLASSES[usize::from(*byte)]) {
                part = part << 8 | u64::from(bytes[at] | 0x20);
                are_digits &= class == DIGIT;
                at += 1;
                if (at - begin).is_multiple_of(8) {
                    hash = mix(hash ^ part);
                    part = 0;
                }
            }
            let word = &bytes[begin..at];
            let is_time = are_digits && matches!(word, [b'1', b'5'..=b'9', rest @ ..] if matches!(rest.len(), 8 | 11));
            if !word.is_empty() && !is_time {
                let mixed = mix(hash ^ part ^ (word.len() as u64) << 56);
                let place = &mut self.places[(mixed >> 59) as usize % PLACES];
                *place = (*place).min((mixed >> 32) as u16);
                if are_digits {
                    self.numbers = self.numbers.wrapping_add(mixed as u32);
                }
            }
            at += 1;
        }
    }

    /// Whether the two have the same numbers: a count that moved is something new, whatever stands around it.
    pub(super) const fn has_numbers_of(&self, other: &Self) -> bool {
        self.numbers == other.numbers
    }

    /// About how much of all words the two have in common, in percent.
    pub(super) fn likeness(&self, other: &Self) -> u32 {
        let (mut same, mut empty) = (0_u16, 0_u16);
        for (one, other) in self.places.iter().zip(&other.places) {
            same += u16::from(one == other);
            empty += u16::from(one & other == EMPTY);
        }
        let all = u32::from(PLACES as u16 - empty);
        (u32::from(same - empty) * 100).checked_div(all).unwrap_or(100)
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self { places: [EMPTY; PLACES], numbers: 0 }
    }
}

const DIGIT: u8 = 2;

/// What is part of a word. A byte of a longer character is a letter to us.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => 1,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

const fn mix(word: u64) -> u64 {
    let product = (word ^ 0xd6e8_feb8_6659_fd93) as u128 * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

/// What all digests of this process start from: they cannot be guessed from the outside.
pub(super) fn seed() -> &'static DefaultHashBuilder {
    static SEED: OnceLock<DefaultHashBuilder> = OnceLock::new();
    SEED.get_or_init(DefaultHashBuilder::default)
}

/// The digest of a name.
pub(super) fn name(name: &str) -> u64 {
    let mut hasher = seed().build_hasher();
    hasher.write(name.as_bytes());
    hasher.finish()
}
