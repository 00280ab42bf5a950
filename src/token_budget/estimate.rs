//! What a call will use, before anybody knows: [`Estimate`].

use std::{any::Any, fmt};

use bytes::Bytes;
use http::{Extensions, Request};
use http_body_util::Full;

use super::{config::EstimateRules, signal::Signal};
use crate::body::in_memory::readable;

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

/// Measures requests of one kind. A [`Call`](crate::Call) with an [`estimate`](crate::Call::estimate) has its input
/// from there.
pub trait Estimate<Req> {
    /// What `request` is likely to use.
    fn estimate(&self, request: &Req, rules: &EstimateRules) -> Estimated;

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
    fn estimate(&self, request: &Req, rules: &EstimateRules) -> Estimated {
        let request = request as &dyn Any;
        macro_rules! first_of {
            ($($body:ty)*) => { $(
                if let Some(request) = request.downcast_ref::<Request<$body>>() {
                    return readable(request.body()).map_or_else(Estimated::default, |body| measure(&body, rules));
                }
            )* };
        }
        first_of!(Bytes Full<Bytes> String Vec<u8>);
        #[cfg(feature = "reqwest")]
        {
            first_of!(reqwest::Body);
            if let Some(request) = request.downcast_ref::<reqwest::Request>() {
                let body = request.body().and_then(reqwest::Body::as_bytes);
                return body.map_or_else(Estimated::default, |body| measure(body, rules));
            }
        }
        Estimated::default()
    }

    fn tell(&self, request: &mut Req, signal: Signal) {
        if let Some(extensions) = extensions(request) {
            extensions.insert(signal);
        }
    }
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
/// assert_eq!(by_length.estimate(&"x".repeat(30), &EstimateRules::default()), Estimated::new(10, 500));
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
    fn estimate(&self, request: &Req, _: &EstimateRules) -> Estimated {
        (self.0)(request)
    }
}

impl<F> fmt::Debug for EstimateFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EstimateFn").finish_non_exhaustive()
    }
}

// === what a body says ===

fn measure(body: &[u8], rules: &EstimateRules) -> Estimated {
    let (encoded, images) = pictures(body);
    let text = (body.len() - encoded) as u64;
    let images = (images as u64).saturating_mul(rules.image_tokens);
    Estimated {
        input: Some(text.div_ceil(rules.bytes_per_token.max(1)).saturating_add(images)),
        max_output: output_cap(body),
    }
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
    let types: [&[u8]; 3] = [b"\"image_url\"", b"\"input_image\"", b"\"image\""];
    let after_type = |at: usize| {
        let before = body[..at].trim_ascii_end();
        before.strip_suffix(b":").is_some_and(|before| before.trim_ascii_end().ends_with(b"\"type\""))
    };
    let count = |word: &[u8]| {
        let found = body.windows(word.len()).enumerate().filter(|(_, window)| *window == word);
        found.filter(|(at, _)| after_type(*at)).count()
    };
    types.into_iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(body: &str) -> Estimated {
        ByBody.estimate(&Request::new(body.to_owned()), &EstimateRules::default())
    }

    #[test]
    fn a_body_counts_with_its_tools_and_is_rounded_up() {
        let body = r#"{"messages":[],"tools":[{"name":"a tool with a long description"}]}"#;
        assert_eq!(measured(body), Estimated::new((body.len() as u64).div_ceil(3), None));
    }

    #[cfg(feature = "wire")]
    #[test]
    fn the_limit_on_the_output_is_what_the_request_states() {
        for body in [
            r#"{"max_tokens":300}"#,
            r#"{"max_completion_tokens":300,"max_tokens":null}"#,
            r#"{"max_output_tokens":300}"#,
            r#"{"generationConfig":{"maxOutputTokens":300}}"#,
        ] {
            assert_eq!(measured(body).max_output, Some(300), "{body}");
        }
        for body in [r#"{"messages":[{"max_tokens":5}]}"#, r#"{"max_tokens":"5"}"#, "not json"] {
            assert_eq!(measured(body).max_output, None, "{body}");
        }
    }

    #[test]
    fn a_picture_is_a_picture_and_not_its_encoding() {
        let data = "iVBORw0KGgo".repeat(10_000);
        let inline = format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
        let linked = r#"[{"type": "image", "source": {"type": "url"}}, {"type":"input_image"}]"#;
        let input = |body: &str| measured(body).input.expect("readable");
        assert!((1_600..1_700).contains(&input(&inline)), "{}", input(&inline));
        assert!((3_200..3_300).contains(&input(linked)), "{}", input(linked));
        assert!(input(r#"{"content":"the \"image\" of the type \"image_url\""}"#) < 30);
    }

    #[test]
    fn what_cannot_be_read_is_not_nothing() {
        assert_eq!(ByBody.estimate(&7_u32, &EstimateRules::default()).input, None);
        let body = http_body_util::Empty::<Bytes>::new();
        assert_eq!(ByBody.estimate(&Request::new(body), &EstimateRules::default()).input, None);
    }
}
