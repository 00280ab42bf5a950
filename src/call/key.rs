//! Keys of state: the names of a call that one scope asks for, compared name by name and never by hash alone.

use std::fmt;

use super::{
    Call, Names,
    scope::{NAMES, Name, Scope},
};

/// A key of one scope, borrowed from a call: compared name by name, never by hash alone.
#[derive(Clone, Copy)]
pub(crate) struct KeyRef<'a> {
    names: Option<&'a Names>,
    bits: u16,
    /// Which of the names that the scope asks for the call has.
    set: u8,
    hash: u64,
}

/// Marks the state that keys of a tenant share when there is no room for their own.
const OVERFLOW: u16 = 0x100;

impl<'a> KeyRef<'a> {
    #[inline]
    pub(crate) fn new(call: &'a Call, scope: Scope) -> Self {
        Self::of(call.names.as_deref(), scope.key_bits())
    }

    /// The state that keys of this tenant share when there is no room for their own.
    pub(crate) fn overflow_of_tenant(call: &'a Call) -> Self {
        Self::of(call.names.as_deref(), Scope::TENANT.key_bits() | OVERFLOW)
    }

    /// The state that everybody shares when there is no room even for tenants.
    pub(crate) fn overflow_of_all() -> Self {
        Self::of(None, OVERFLOW)
    }

    #[inline]
    fn of(names: Option<&'a Names>, bits: u16) -> Self {
        let mut hash = u64::from(bits) ^ 0x9e37_79b9_7f4a_7c15;
        let mut set = 0;
        if let Some(names) = names {
            set = bits as u8 & names.set;
            let mut rest = set;
            while rest != 0 {
                let index = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let part = names.hashes[index].rotate_left(index as u32 * 8);
                hash = (hash ^ part).wrapping_mul(0xd6e8_feb8_6659_fd93);
                hash ^= hash >> 32;
            }
        }
        Self { names, bits, set, hash }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    fn part(&self, index: usize) -> Option<&'a str> {
        let names = self.names?;
        let (start, end) = names.spans[index];
        (self.set & (1 << index) != 0).then(|| &names.text[start as usize..end as usize])
    }

    /// The tenant that the key nests under.
    pub(crate) fn tenant(&self) -> &'a str {
        self.part(Name::Tenant as usize).unwrap_or("")
    }

    pub(crate) fn to_owned(self) -> KeyBuf {
        let mut text = String::new();
        let mut ends = [u32::MAX; NAMES];
        for (index, end) in ends.iter_mut().enumerate() {
            if let Some(part) = self.part(index) {
                text.push_str(part);
                *end = text.len() as u32;
            }
        }
        KeyBuf { text: text.into_boxed_str(), ends, bits: self.bits, set: self.set, hash: self.hash }
    }
}

/// A key of one scope that owns its names.
#[derive(Clone)]
pub(crate) struct KeyBuf {
    text: Box<str>,
    /// Where each name ends; `u32::MAX` where it is absent.
    ends: [u32; NAMES],
    bits: u16,
    set: u8,
    hash: u64,
}

impl KeyBuf {
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) const fn is_overflow(&self) -> bool {
        self.bits & OVERFLOW != 0
    }

    pub(crate) fn tenant(&self) -> &str {
        match self.ends[Name::Tenant as usize] {
            u32::MAX => "",
            end => &self.text[..end as usize],
        }
    }

    #[inline]
    pub(crate) fn is(&self, key: &KeyRef<'_>) -> bool {
        if self.hash != key.hash || self.bits != key.bits || self.set != key.set {
            return false;
        }
        let Some(names) = key.names else { return true };
        let (stored, given) = (self.text.as_bytes(), names.text.as_bytes());
        let (mut start, mut rest) = (0, key.set);
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let (from, to) = names.spans[index];
            let end = self.ends[index] as usize;
            // A name that would lie outside of its text is in no key.
            match (stored.get(start..end), given.get(from as usize..to as usize)) {
                (Some(stored), Some(given)) if stored == given => start = end,
                _ => return false,
            }
        }
        true
    }
}

impl fmt::Display for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut start = 0;
        let mut first = true;
        for ((_, word), end) in Name::WORDS.iter().zip(self.ends) {
            if end != u32::MAX {
                let value = Shown(&self.text[start..end as usize]);
                write!(f, "{}{word}={value}", if first { "" } else { " " })?;
                start = end as usize;
                first = false;
            }
        }
        if first { f.write_str("all") } else { Ok(()) }
    }
}

/// A name as it may stand in a line of text: quoted where it could be taken for more than a name.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/#@+~%$!*".contains(c);
        if !self.0.is_empty() && self.0.chars().all(is_plain) {
            f.write_str(self.0)
        } else {
            fmt::Debug::fmt(self.0, f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call: &Call, scope: Scope) -> KeyBuf {
        KeyRef::new(call, scope).to_owned()
    }

    #[test]
    fn names_that_run_together_are_different_keys() {
        let scope = Scope::TARGET | Scope::OPERATION;
        let a = Call::to("ab").operation("c");
        let b = Call::to("a").operation("bc");
        assert!(!key(&a, scope).is(&KeyRef::new(&b, scope)));
        assert!(key(&a, scope).is(&KeyRef::new(&a.clone(), scope)));
    }

    #[test]
    fn an_absent_name_is_not_an_empty_one() {
        let empty = Call::to("crm").operation("");
        let absent = Call::to("crm");
        let scope = Scope::TARGET | Scope::OPERATION;
        assert!(!key(&empty, scope).is(&KeyRef::new(&absent, scope)));
    }

    #[test]
    fn every_scope_but_global_nests_under_the_tenant() {
        let a = Call::to("crm").tenant("a");
        let b = Call::to("crm").tenant("b");
        assert!(!key(&a, Scope::TARGET).is(&KeyRef::new(&b, Scope::TARGET)));
        assert!(key(&a, Scope::GLOBAL).is(&KeyRef::new(&b, Scope::GLOBAL)));
    }
}
