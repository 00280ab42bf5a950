//! Bodies that lie in memory as a whole, known by their type: read, copied, taken and made anew.

use std::{
    any::{Any, TypeId},
    ops::Deref,
};

use bytes::Bytes;
use http_body_util::{Empty, Full};

/// The bytes of a body that lies in memory as a whole.
#[derive(Debug)]
pub(crate) enum InMemory<'a> {
    Borrowed(&'a [u8]),
    Shared(Bytes),
}

impl Deref for InMemory<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A body that lies in memory as a whole, known by its type.
pub(crate) fn readable<B: 'static>(body: &B) -> Option<InMemory<'_>> {
    let body = body as &dyn Any;
    if let Some(bytes) = body.downcast_ref::<Bytes>() {
        return Some(InMemory::Borrowed(bytes));
    }
    if let Some(full) = body.downcast_ref::<Full<Bytes>>() {
        return Some(InMemory::Shared(full.clone().into_inner().unwrap_or_default()));
    }
    if let Some(text) = body.downcast_ref::<String>() {
        return Some(InMemory::Borrowed(text.as_bytes()));
    }
    if let Some(bytes) = body.downcast_ref::<Vec<u8>>() {
        return Some(InMemory::Borrowed(bytes));
    }
    #[cfg(feature = "reqwest")]
    if let Some(body) = body.downcast_ref::<reqwest::Body>() {
        return body.as_bytes().map(InMemory::Borrowed);
    }
    (body.is::<()>() || body.is::<Empty<Bytes>>()).then_some(InMemory::Borrowed(&[]))
}

/// The bytes of such a body, taken out of it; any other body comes back.
pub(crate) fn taken<B: 'static>(body: B) -> Result<Bytes, B> {
    let mut body = Some(body);
    let slot = &mut body as &mut dyn Any;
    if let Some(full) = slot.downcast_mut::<Option<Full<Bytes>>>() {
        return Ok(full.take().and_then(Full::into_inner).unwrap_or_default());
    }
    if let Some(bytes) = slot.downcast_mut::<Option<Bytes>>() {
        return Ok(bytes.take().unwrap_or_default());
    }
    if let Some(text) = slot.downcast_mut::<Option<String>>() {
        return Ok(text.take().unwrap_or_default().into());
    }
    if let Some(bytes) = slot.downcast_mut::<Option<Vec<u8>>>() {
        return Ok(bytes.take().unwrap_or_default().into());
    }
    match body {
        Some(body) if !is_in_memory::<B>() => Err(body),
        _ => Ok(Bytes::new()),
    }
}

/// Whether bodies of this type lie in memory as a whole.
pub(crate) fn is_in_memory<B: 'static>() -> bool {
    let kind = TypeId::of::<B>();
    kind == TypeId::of::<Full<Bytes>>()
        || kind == TypeId::of::<Bytes>()
        || kind == TypeId::of::<String>()
        || kind == TypeId::of::<Vec<u8>>()
        || kind == TypeId::of::<Empty<Bytes>>()
        || kind == TypeId::of::<()>()
}

/// A value of type `T`, if that is what `B` is.
fn same<T: 'static, B: 'static>(value: T) -> Option<B> {
    (&mut Some(value) as &mut dyn Any).downcast_mut::<Option<B>>()?.take()
}

/// Puts other bytes into a body of one of the types that hold bytes.
#[cfg(feature = "wire")]
pub(crate) fn made_of<B: 'static>(bytes: Vec<u8>) -> Option<B> {
    let kind = TypeId::of::<B>();
    match () {
        () if kind == TypeId::of::<Bytes>() => same(Bytes::from(bytes)),
        () if kind == TypeId::of::<Full<Bytes>>() => same(Full::new(Bytes::from(bytes))),
        () if kind == TypeId::of::<String>() => same(String::from_utf8(bytes).ok()?),
        () if kind == TypeId::of::<Vec<u8>>() => same(bytes),
        #[cfg(feature = "reqwest")]
        () if kind == TypeId::of::<reqwest::Body>() => same(reqwest::Body::from(bytes)),
        () => None,
    }
}

/// A copy of a body of one of the types that [`readable`] knows.
pub(crate) fn copied<B: 'static>(body: &B) -> Option<B> {
    fn as_is<T: Clone + 'static, B: 'static>(body: &dyn Any) -> Option<B> {
        same(body.downcast_ref::<T>()?.clone())
    }
    let body = body as &dyn Any;
    #[cfg(feature = "reqwest")]
    if let Some(body) = body.downcast_ref::<reqwest::Body>() {
        return same(reqwest::Body::from(body.as_bytes()?.to_vec()));
    }
    as_is::<Bytes, B>(body)
        .or_else(|| as_is::<Full<Bytes>, B>(body))
        .or_else(|| as_is::<String, B>(body))
        .or_else(|| as_is::<Vec<u8>, B>(body))
        .or_else(|| as_is::<(), B>(body))
        .or_else(|| as_is::<Empty<Bytes>, B>(body))
}
