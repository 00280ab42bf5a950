//! One digest for all spellings of the same JSON arguments: [`Canonical`].
//!
//! Key order, white space, escapes and the forms of a number (`1`, `1.0`, `1e0`) make no difference, and no number
//! loses a digit. No tree is built: the members of an object are put in order by their hashes. What is no JSON, is too
//! long or too deep, or names a member twice is digested as the bytes it is.

use std::hash::{BuildHasher, Hasher};

use super::{json::Json, sketch::seed};

/// Arguments beyond this are digested as they are.
const LONGEST: usize = 1 << 20;
/// Nesting beyond this too.
const DEEPEST: usize = 128;

/// Digests arguments, leaving out fields that differ from call to call and mean nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Canonical {
    /// Paths of member names, at most 64 of them.
    volatile: Vec<Vec<Box<str>>>,
}

/// Values of different kinds have different digests.
#[derive(Clone, Copy)]
enum Kind {
    Raw,
    Null,
    False,
    True,
    Number,
    String,
    Array,
    Object,
}

impl Canonical {
    /// Leaves out what these dotted paths lead to. They go through arrays without naming them.
    pub(super) fn without<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let parts = |path: &'a str| path.split('.').map(Into::into).collect();
        Self { volatile: paths.into_iter().map(parts).take(64).collect() }
    }

    /// The digest of `arguments`. None at all are an empty object.
    pub(super) fn digest(&self, arguments: &str) -> u64 {
        let text = match arguments.trim_ascii() {
            "" => "{}",
            text => text,
        };
        let digest = (text.len() <= LONGEST).then(|| Digest::new(self, text).whole());
        digest.flatten().unwrap_or_else(|| of(Kind::Raw, text.as_bytes()))
    }
}

struct Digest<'a> {
    json: Json<'a>,
    volatile: &'a [Vec<Box<str>>],
    /// Name and value of the members read so far, of all objects that are open.
    members: Vec<(u64, u64)>,
}

/// Where a value stands.
#[derive(Clone, Copy)]
struct Place {
    /// In how many objects and arrays.
    depth: usize,
    /// In how many objects.
    level: usize,
    /// Which volatile paths lead here, a bit each.
    on: u64,
}

fn of(kind: Kind, bytes: &[u8]) -> u64 {
    let mut hasher = hasher(kind);
    hasher.write(bytes);
    hasher.finish()
}

fn hasher(kind: Kind) -> impl Hasher {
    let mut hasher = seed().build_hasher();
    hasher.write_u8(kind as u8);
    hasher
}

impl<'a> Digest<'a> {
    fn new(canonical: &'a Canonical, text: &'a str) -> Self {
        Self { json: Json::new(text), volatile: &canonical.volatile, members: Vec::with_capacity(8) }
    }

    fn whole(&mut self) -> Option<u64> {
        let on = u64::MAX.checked_shr(64 - self.volatile.len() as u32).unwrap_or(0);
        let digest = self.value(Place { depth: 0, level: 0, on })?;
        self.json.is_over().then_some(digest)
    }

    /// The digest of the value that begins here; `None` where there is none.
    fn value(&mut self, place: Place) -> Option<u64> {
        if place.depth > DEEPEST {
            return None;
        }
        match self.json.peek()? {
            b'{' => self.object(place),
            b'[' => self.array(place),
            b'"' => self.json.string().map(|text| of(Kind::String, text)),
            b'n' => self.json.word(b"null").map(|()| of(Kind::Null, b"")),
            b'f' => self.json.word(b"false").map(|()| of(Kind::False, b"")),
            b't' => self.json.word(b"true").map(|()| of(Kind::True, b"")),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<u64> {
        let number = self.json.number()?;
        let mut hasher = hasher(Kind::Number);
        hasher.write_u8(u8::from(number.is_negative));
        hasher.write_i64(number.power);
        hasher.write(number.digits);
        Some(hasher.finish())
    }

    fn array(&mut self, place: Place) -> Option<u64> {
        self.json.step();
        let mut hasher = hasher(Kind::Array);
        let mut is_first = true;
        while self.json.continues(b']', is_first)? {
            is_first = false;
            hasher.write_u64(self.value(Place { depth: place.depth + 1, ..place })?);
        }
        Some(hasher.finish())
    }

    fn object(&mut self, place: Place) -> Option<u64> {
        self.json.step();
        let begin = self.members.len();
        let mut is_first = true;
        while self.json.continues(b'}', is_first)? {
            is_first = false;
            let name = self.json.string()?;
            let (is_volatile, on) = follow(self.volatile, place, name);
            let name = of(Kind::String, name);
            self.json.colon()?;
            let value = self.value(Place { depth: place.depth + 1, level: place.level + 1, on })?;
            if !is_volatile {
                self.members.push((name, value));
            }
        }
        let members = &mut self.members[begin..];
        members.sort_unstable();
        // Readers differ in which of two equal names they take.
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        let mut hasher = hasher(Kind::Object);
        for (name, value) in members {
            hasher.write_u64(*name);
            hasher.write_u64(*value);
        }
        self.members.truncate(begin);
        Some(hasher.finish())
    }
}

/// Whether a volatile path ends at the member `name`, and which ones go on below it.
fn follow(volatile: &[Vec<Box<str>>], place: Place, name: &[u8]) -> (bool, u64) {
    let (mut ends, mut on, mut rest) = (false, 0, place.on);
    while rest != 0 {
        let bit = rest & rest.wrapping_neg();
        let path = &volatile[rest.trailing_zeros() as usize];
        if path.get(place.level).is_some_and(|part| part.as_bytes() == name) {
            ends |= path.len() == place.level + 1;
            on |= bit;
        }
        rest ^= bit;
    }
    (ends, on)
}
