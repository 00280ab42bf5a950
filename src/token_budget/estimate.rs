//! What a call will use, before anybody knows: [`Estimate`].

use std::{any::Any, fmt};

use bytes::Bytes;
use http::{Extensions, Request};
use http_body_util::Full;

use super::{config::EstimateRules, signal::Signal};
use crate::body::in_memory::{InMemory, readable};

/// What a request is likely to use, as far as it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Estimated {
    /// Tokens of its input; `None` where it cannot be read.
    pub input: Option<u64>,
    /// The most output that it asks for; `None` where it states no limit.
    pub max_output: Option<u64>,
}

impl Estimated {
    /// So much input, and so much output at most.
    pub fn new(input: impl Into<Option<u64>>, max_output: impl Into<Option<u64>>) -> Self {
        Self { input: input.into(), max_output: max_output.into() }
    }
}

/// Measures requests of one kind.
pub trait Estimate<Req> {
    /// Tokens of the input; `None` where it cannot be read. Not asked of a [`Call`](crate::Call) that has an
    /// [`estimate`](crate::Call::estimate).
    fn input(&self, request: &Req, rules: &EstimateRules) -> Option<u64>;

    /// The most output that it asks for; `None` where it states no limit.
    fn max_output(&self, request: &Req) -> Option<u64>;

    /// Leaves `signal` with a request that is sent although its run has to finish; by default nowhere.
    fn tell(&self, request: &mut Req, signal: Signal) {
        let _ = (request, signal);
    }
}

/// Measures HTTP requests whose body lies in memory; knows nothing of any other.
///
/// The body counts as it is, with the tool definitions in it, so many bytes a token; an image counts as an image and not
/// as its encoding. The limit on the output is read where the `wire` feature knows its name. Signals go into the
/// extensions.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByBody;

impl<Req: 'static> Estimate<Req> for ByBody {
    fn input(&self, request: &Req, rules: &EstimateRules) -> Option<u64> {
        body_of(request).map(|body| tokens(&body, rules))
    }

    fn max_output(&self, request: &Req) -> Option<u64> {
        body_of(request).and_then(|body| output_cap(&body))
    }

    fn tell(&self, request: &mut Req, signal: Signal) {
        if let Some(extensions) = extensions(request) {
            extensions.insert(signal);
        }
    }
}

fn body_of(request: &dyn Any) -> Option<InMemory<'_>> {
    macro_rules! first_of {
        ($($body:ty)*) => { $(
            if let Some(request) = request.downcast_ref::<Request<$body>>() {
                return readable(request.body());
            }
        )* };
    }
    first_of!(Bytes Full<Bytes> String Vec<u8>);
    #[cfg(feature = "reqwest")]
    {
        first_of!(reqwest::Body);
        if let Some(request) = request.downcast_ref::<reqwest::Request>() {
            return request.body().and_then(reqwest::Body::as_bytes).map(InMemory::Borrowed);
        }
    }
    None
}

fn extensions(request: &mut dyn Any) -> Option<&mut Extensions> {
    macro_rules! first_of {
        ($($body:ty)*) => { $(
            if request.is::<Request<$body>>() {
                return request.downcast_mut::<Request<$body>>().map(Request::extensions_mut);
            }
        )* };
    }
    first_of!(Bytes Full<Bytes> String Vec<u8>);
    #[cfg(feature = "reqwest")]
    first_of!(reqwest::Body);
    None
}

/// Measures requests by a closure.
///
/// ```
/// # use tower_belay::token_budget::{Estimate, EstimateRules, Estimated, estimate_fn};
/// let by_length = estimate_fn(|prompt: &String| Estimated::new(prompt.len() as u64 / 3, 500));
/// assert_eq!(by_length.input(&"x".repeat(30), &EstimateRules::default()), Some(10));
/// ```
pub fn estimate_fn<F>(estimate: F) -> EstimateFn<F> {
    EstimateFn(estimate)
}

/// Measures requests by a closure, see [`estimate_fn`].
#[derive(Clone)]
pub struct EstimateFn<F>(F);

impl<F, Req> Estimate<Req> for EstimateFn<F>
where
    F: Fn(&Req) -> Estimated,
{
    fn input(&self, request: &Req, _: &EstimateRules) -> Option<u64> {
        (self.0)(request).input
    }

    fn max_output(&self, request: &Req) -> Option<u64> {
        (self.0)(request).max_output
    }
}

impl<F> fmt::Debug for EstimateFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EstimateFn").finish_non_exhaustive()
    }
}

// === what a body says ===

fn tokens(body: &[u8], rules: &EstimateRules) -> u64 {
    let (encoded, images) = pictures(body);
    let text = (body.len() - encoded) as u64;
    let images = (images as u64).saturating_mul(rules.image_tokens);
    text.div_ceil(rules.bytes_per_token.max(1)).saturating_add(images)
}

#[cfg(feature = "wire")]
fn output_cap(body: &[u8]) -> Option<u64> {
    crate::wire::output_cap(body)
}

#[cfg(not(feature = "wire"))]
const fn output_cap(_: &[u8]) -> Option<u64> {
    None
}

/// No word of any language is as long, and every picture that is worth sending is longer.
const SHORTEST_PICTURE: usize = 1_024;

/// How many bytes are encoded pictures (or other files), and how many pictures there are, linked ones too.
fn pictures(body: &[u8]) -> (usize, usize) {
    let is_encoded = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
    let runs = body.split(|byte| !is_encoded(byte)).filter(|run| run.len() >= SHORTEST_PICTURE);
    let (encoded, inline) = runs.fold((0, 0), |(bytes, count), run| (bytes + run.len(), count + 1));
    let linked = linked_pictures(body);
    (encoded, inline.max(linked))
}

/// Parts of a message that are pictures, by what OpenAI and Anthropic call them.
fn linked_pictures(body: &[u8]) -> usize {
    const TYPES: [&[u8]; 3] = [b"\"image_url\"", b"\"input_image\"", b"\"image\""];
    let is_picture = |at: &usize| {
        let Some(rest) = body[*at..].strip_prefix(b"\"type\"") else { return false };
        let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { return false };
        TYPES.iter().any(|kind| value.trim_ascii_start().starts_with(kind))
    };
    // Inside of a text every quote has a backslash before it.
    let quotes = body.iter().enumerate().filter(|(at, byte)| **byte == b'"' && (*at == 0 || body[at - 1] != b'\\'));
    quotes.map(|(at, _)| at).filter(is_picture).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(body: &str) -> u64 {
        ByBody.input(&Request::new(body.to_owned()), &EstimateRules::default()).expect("readable")
    }

    #[test]
    fn a_body_counts_with_its_tools_and_is_rounded_up() {
        let body = r#"{"messages":[],"tools":[{"name":"a tool with a long description"}]}"#;
        assert_eq!(input(body), (body.len() as u64).div_ceil(3));
    }

    #[cfg(feature = "wire")]
    #[test]
    fn the_limit_on_the_output_is_what_the_request_states() {
        let cap = |body: &str| ByBody.max_output(&Request::new(body.to_owned()));
        for body in [
            r#"{"max_tokens":300}"#,
            r#"{"max_completion_tokens":300,"max_tokens":null}"#,
            r#"{"max_output_tokens":300}"#,
            r#"{"max_tokens":100,"n":3}"#,
            r#"{"generationConfig":{"maxOutputTokens":300}}"#,
        ] {
            assert_eq!(cap(body), Some(300), "{body}");
        }
        for body in [r#"{"messages":[{"max_tokens":5}]}"#, r#"{"max_tokens":"5"}"#, "not json"] {
            assert_eq!(cap(body), None, "{body}");
        }
    }

    #[test]
    fn a_picture_is_a_picture_and_not_its_encoding() {
        let data = "iVBORw0KGgo".repeat(10_000);
        let inline = format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
        let linked = r#"[{"type": "image", "source": {"type": "url"}}, {"type":"input_image"}]"#;
        assert!((1_600..1_700).contains(&input(&inline)), "{}", input(&inline));
        assert!((3_200..3_300).contains(&input(linked)), "{}", input(linked));
        assert!(input(r#"{"content":"{\"type\":\"image\"}"}"#) < 30);
    }

    #[test]
    fn what_cannot_be_read_is_not_nothing() {
        assert_eq!(ByBody.input(&7_u32, &EstimateRules::default()), None);
        let body = http_body_util::Empty::<Bytes>::new();
        assert_eq!(ByBody.input(&Request::new(body), &EstimateRules::default()), None);
    }
}
