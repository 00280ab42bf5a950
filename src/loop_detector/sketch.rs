//! Which words a text is made of, in 64 bytes: [`Sketch`] tells how much two texts have in common.

use std::{
    hash::{BuildHasher, Hasher},
    sync::OnceLock,
};

use hashbrown::DefaultHashBuilder;

/// Words beyond this are not looked at.
const LOOKED_AT: usize = 2_048;
const PLACES: usize = 32;
const EMPTY: u16 = u16::MAX;

/// The smallest hash of a word at each of 32 places (one permutation MinHash). Order and number of the words make no
/// difference. Seconds and milliseconds since 1970 are left out. Other ids are not: another target is another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sketch([u16; PLACES]);

impl Sketch {
    pub(super) fn of(text: &str) -> Self {
        let bytes = &text.as_bytes()[..text.len().min(LOOKED_AT)];
        let mut places = [EMPTY; PLACES];
        let (mut hash, mut length, mut digits, mut first) = (0_u64, 0, 0, [0; 2]);
        for byte in bytes.iter().chain(b" ") {
            // A byte of a longer character is a letter to us.
            if byte.is_ascii_alphanumeric() || !byte.is_ascii() {
                hash = (hash ^ u64::from(byte | 0x20)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
                if length < 2 {
                    first[length] = *byte;
                }
                length += 1;
                digits += usize::from(byte.is_ascii_digit());
                continue;
            }
            let is_time = length == digits && matches!(length, 10 | 13) && first[0] == b'1' && first[1] >= b'5';
            if length > 0 && !is_time {
                let mixed = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
                let place = &mut places[(mixed >> 59) as usize % PLACES];
                *place = (*place).min((mixed >> 32) as u16);
            }
            (hash, length, digits) = (0, 0, 0);
        }
        Self(places)
    }

    /// About how much of all words the two have in common, in percent.
    pub(super) fn likeness(&self, other: &Self) -> u32 {
        let pairs = self.0.iter().zip(&other.0).filter(|(a, b)| **a != EMPTY || **b != EMPTY);
        let (all, same) = pairs.fold((0, 0), |(all, same), (a, b)| (all + 1, same + u32::from(a == b)));
        if all == 0 { 100 } else { same * 100 / all }
    }
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
