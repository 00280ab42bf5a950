//! Puts another body into an HTTP request, where that is possible and breaks nothing.

use http::{HeaderMap, HeaderValue, Request, header};

use crate::body::in_memory::{made_of, readable};

/// Gives `request` the body that `change` makes of its own; says whether it was changed.
///
/// Left as they are: bodies that are not in memory, encoded ones, and those that a signature covers.
pub(crate) fn rewrite<B: 'static>(request: &mut Request<B>, change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> bool {
    if is_signed(request.headers()) || request.headers().contains_key(header::CONTENT_ENCODING) {
        return false;
    }
    let Some(changed) = readable(request.body()).and_then(|body| change(&body)) else { return false };
    let length = changed.len();
    let Some(body) = made_of(changed) else { return false };
    *request.body_mut() = body;
    if request.headers().contains_key(header::CONTENT_LENGTH) {
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    true
}

/// Whether a header depends on the body.
fn is_signed(headers: &HeaderMap) -> bool {
    const OVER_THE_BODY: [&str; 6] =
        ["signature", "signature-input", "content-digest", "digest", "content-md5", "x-amz-content-sha256"];
    headers.get(header::AUTHORIZATION).is_some_and(|it| it.as_bytes().starts_with(b"AWS4"))
        || OVER_THE_BODY.iter().any(|name| headers.contains_key(*name))
}
