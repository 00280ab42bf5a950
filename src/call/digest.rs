//! Names that are too long or secret, and the hashes of all.

use std::{
    borrow::Cow,
    hash::{BuildHasher, Hasher},
    sync::OnceLock,
};

use hashbrown::DefaultHashBuilder;

/// The beginning of a name that is too long, with a digest of all of it.
pub(super) fn cut(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 256;
    if name.len() <= LONGEST {
        return Cow::Borrowed(name);
    }
    let digest = keyed_digest(name.as_bytes());
    let mut end = LONGEST - digest.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut cut = String::with_capacity(LONGEST);
    cut.push_str(&name[..end]);
    cut.push_str(str::from_utf8(&digest).unwrap_or_default());
    Cow::Owned(cut)
}

/// `#` and a hash in hexadecimal digits, keyed for this process.
pub(super) fn keyed_digest(bytes: &[u8]) -> [u8; 17] {
    let hash = secret_seed().hash_one(bytes);
    let digit = |at: u32| char::from_digit((hash >> (60 - 4 * at)) as u32 & 0xf, 16).unwrap_or('0') as u8;
    let mut digest = [b'#'; 17];
    digest[1..].iter_mut().zip(0..).for_each(|(byte, at)| *byte = digit(at));
    digest
}

pub(super) fn hash_name(value: &str) -> u64 {
    static SEED: OnceLock<DefaultHashBuilder> = OnceLock::new();
    let mut hasher = SEED.get_or_init(DefaultHashBuilder::default).build_hasher();
    hasher.write(value.as_bytes());
    hasher.finish()
}

/// SipHash with a random key: what it hashes cannot be guessed from the outside.
pub(super) fn secret_seed() -> &'static std::hash::RandomState {
    static SEED: OnceLock<std::hash::RandomState> = OnceLock::new();
    SEED.get_or_init(std::hash::RandomState::new)
}
