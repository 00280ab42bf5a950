//! Puts tool calls together from their fragments.

use super::{json::clip, reading::ToolCallRead};

/// More calls than this in one answer are not kept.
const MAX_CALLS: usize = 512;
/// More bytes of arguments than this in one answer are not kept.
const MAX_BYTES: usize = 8 << 20;
const MAX_NAME: usize = 1024;

/// How a fragment says which call it belongs to.
#[derive(Debug, Clone, Default)]
pub(super) struct Fragment<'a> {
    /// The position that the provider gives to the call.
    pub(super) index: Option<u64>,
    /// The id by which the *client* answers the call.
    pub(super) id: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) arguments: Option<&'a str>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    /// For each call of the reading, the key of its fragments.
    keys: Vec<Option<u64>>,
    bytes: usize,
    /// Something was left out because of a bound.
    pub(super) overflowed: bool,
}

impl Calls {
    /// Starts a call; `None` where there are too many.
    pub(super) fn start(&mut self, calls: &mut Vec<ToolCallRead>, fragment: &Fragment<'_>) -> Option<usize> {
        if calls.len() >= MAX_CALLS {
            self.overflowed = true;
            return None;
        }
        calls.push(ToolCallRead {
            id: fragment.id.map(|id| clip(id, MAX_NAME).to_owned()),
            name: clip(fragment.name.unwrap_or(""), MAX_NAME).to_owned(),
            arguments: String::new(),
        });
        self.keys.push(fragment.index);
        let at = calls.len() - 1;
        self.append(calls, at, fragment.arguments.unwrap_or(""));
        Some(at)
    }

    /// The last call that was started under this index.
    pub(super) fn at(&self, index: u64) -> Option<usize> {
        self.keys.iter().rposition(|key| *key == Some(index))
    }

    pub(super) fn append(&mut self, calls: &mut [ToolCallRead], at: usize, arguments: &str) {
        let Some(call) = calls.get_mut(at) else { return };
        if self.overflowed || self.bytes + arguments.len() > MAX_BYTES {
            self.overflowed = true;
            return;
        }
        self.bytes += arguments.len();
        call.arguments.push_str(arguments);
    }

    pub(super) fn replace(&mut self, calls: &mut [ToolCallRead], at: usize, arguments: &str) {
        let Some(call) = calls.get_mut(at) else { return };
        if call.arguments != arguments {
            self.bytes -= call.arguments.len().min(self.bytes);
            call.arguments.clear();
            self.append(calls, at, arguments);
        }
    }

    /// Adds a fragment of the chat protocol, whose dialects leave out or repeat index, id and name.
    pub(super) fn chat_fragment(&mut self, calls: &mut Vec<ToolCallRead>, fragment: &Fragment<'_>) {
        let Some(at) = self.owner(calls, fragment) else {
            self.start(calls, fragment);
            return;
        };
        let arguments = fragment.arguments.unwrap_or("");
        let call = &mut calls[at];
        let mut restarted = false;
        match fragment.name {
            Some(name) if call.name.is_empty() => call.name.push_str(clip(name, MAX_NAME)),
            Some(name) if call.name == name => {
                restarted =
                    !call.arguments.is_empty() && !arguments.is_empty() && begins_anew(&call.arguments, arguments);
            }
            Some(name) if call.arguments.is_empty() && call.name.len() + name.len() <= MAX_NAME => {
                call.name.push_str(name);
            }
            _ => {}
        }
        if call.id.is_none() {
            call.id = fragment.id.map(|id| clip(id, MAX_NAME).to_owned());
        }
        if restarted {
            self.replace(calls, at, arguments);
        } else {
            self.append(calls, at, arguments);
        }
    }

    /// The call that a chat fragment goes on with; `None` where it starts a new one.
    fn owner(&self, calls: &[ToolCallRead], fragment: &Fragment<'_>) -> Option<usize> {
        let same_id = |at: &usize| calls[*at].id.as_deref() == fragment.id;
        match (fragment.index, fragment.id) {
            (Some(index), Some(_)) => self.at(index).filter(|at| calls[*at].id.is_none() || same_id(at)),
            (Some(index), None) => self.at(index).filter(|at| {
                // Without ids, a name that comes again after whole arguments is the next call under the same index.
                fragment.name.is_none() || calls[*at].id.is_some() || !is_whole(&calls[*at].arguments)
            }),
            (None, Some(_)) => (0..calls.len()).rev().find(same_id),
            (None, None) => fragment.name.is_none().then(|| calls.len().checked_sub(1)).flatten(),
        }
    }
}

/// Whether a fragment that repeats its call's name says the arguments again from their beginning.
fn begins_anew(so_far: &str, fragment: &str) -> bool {
    fragment.starts_with(so_far) || (fragment.trim_start().starts_with('{') && is_whole(so_far))
}

pub(super) fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}
