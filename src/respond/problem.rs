//! The two forms of an answer: `application/problem+json`, and a gRPC status in the head of a response without a body.

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header};

use super::answer::Answer;

pub(crate) const PUSHBACK: &str = "grpc-retry-pushback-ms";

impl Answer {
    /// An RFC 9457 problem.
    pub(super) fn http<B: From<Bytes>>(&self) -> Response<B> {
        let mut response = Response::new(B::from(Bytes::from(self.problem())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.wait_secs() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// A trailers-only answer, in the client's own content type.
    pub(super) fn grpc<B: From<Bytes>>(&self, content_type: HeaderValue) -> Response<B> {
        let mut response = Response::new(B::from(Bytes::new()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type);
        headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from(self.grpc as u16));
        if let Ok(message) = HeaderValue::try_from(percent_encoded(&self.detail)) {
            headers.insert(HeaderName::from_static("grpc-message"), message);
        }
        if let Some(pushback) = self.pushback() {
            headers.insert(HeaderName::from_static(PUSHBACK), HeaderValue::from(pushback));
        }
        response
    }

    fn problem(&self) -> String {
        let mut json = String::with_capacity(384);
        json.push_str(r#"{"type":"about:blank","title":"#);
        quote(&mut json, self.status.canonical_reason().unwrap_or("Error"));
        let _ = write!(json, r#","status":{},"detail":"#, self.status.as_u16());
        quote(&mut json, &self.detail);
        json.push_str(r#","code":"#);
        quote(&mut json, self.code);
        if let Some(layer) = self.layer {
            json.push_str(r#","layer":"#);
            quote(&mut json, layer);
        }
        if let Some(millis) = self.wait_millis() {
            let _ = write!(json, r#","retry_after_ms":{millis}"#);
        }
        json.push('}');
        json
    }
}

/// Appends `text` as a JSON string.
pub(super) fn quote(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
}

/// `text` as a `grpc-message`: everything but printable ASCII, and `%`, as `%XX`.
pub(super) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}
