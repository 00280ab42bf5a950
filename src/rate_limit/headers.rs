//! What the headers of an answer say of the provider's own rates.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use crate::classify::wait;

/// What a provider says is left, and for how long nothing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Told {
    pub(super) requests: Option<u64>,
    pub(super) tokens: Option<u64>,
    /// Something is used up for so long.
    pub(super) wait: Option<Duration>,
}

/// Reads `x-ratelimit-*`, `anthropic-ratelimit-*` and the drafts of `RateLimit`. What is no number is not there.
pub(super) fn read(headers: &HeaderMap) -> Option<Told> {
    let mut told = Told::default();
    let mut is_said = false;
    for (name, value) in headers {
        let name = name.as_str();
        let Some(at) = name.find("ratelimit") else { continue };
        let Some(value) = value.to_str().ok().map(str::trim) else { continue };
        is_said = true;
        if name == "ratelimit" {
            told.combined(value);
            continue;
        }
        // Nothing left says when there is some again; a bucket at zero would guess.
        let (kind, Ok(left @ 1..)) = (&name[at..], value.parse::<u64>()) else { continue };
        if !kind.contains("remaining") {
            continue;
        }
        let least = |known: &mut Option<u64>| *known = Some(known.map_or(left, |known| known.min(left)));
        match () {
            // Ours counts both together: what is left of one of them says nothing of the sum.
            () if kind.contains("input") || kind.contains("output") => {}
            () if kind.contains("token") => least(&mut told.tokens),
            () if kind.contains("request") => least(&mut told.requests),
            () => {}
        }
    }
    if is_said {
        told.wait = told.wait.max(wait::window(headers, SystemTime::now()));
    }
    is_said.then_some(told)
}

impl Told {
    /// `"default";r=0;t=30`, and before that `limit=10, remaining=0, reset=30`: of which unit, they do not say.
    fn combined(&mut self, value: &str) {
        // In the newer form a comma parts several rates, in the older one the fields of the only one.
        let between = if value.contains(';') { ',' } else { '\n' };
        for rate in value.split(between) {
            let field = |keys: [&str; 2]| {
                let pairs = rate.split([',', ';']).filter_map(|pair| pair.split_once('='));
                let mut found = pairs.filter(|(key, _)| keys.contains(&key.trim()));
                found.next()?.1.trim().parse::<u64>().ok()
            };
            if let (Some(0), Some(seconds)) = (field(["r", "remaining"]), field(["t", "reset"])) {
                self.wait = self.wait.max(Some(Duration::from_secs(seconds)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (&'static [(&'static str, &'static str)], [Option<u64>; 3]);

    /// Headers, and the requests, tokens and seconds that they say.
    const CASES: [Case; 10] = [
        (&[("x-ratelimit-remaining-requests", "4"), ("x-ratelimit-remaining-tokens", "9")], [Some(4), Some(9), None]),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], [None, None, Some(360)]),
        (
            &[("anthropic-ratelimit-requests-remaining", "2"), ("anthropic-ratelimit-output-tokens-remaining", "5")],
            [Some(2), None, None],
        ),
        (
            &[
                ("date", "Wed, 28 Jan 2026 19:41:00 GMT"),
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-01-28T19:41:04Z"),
            ],
            [None, None, Some(4)],
        ),
        (&[("ratelimit-remaining", "0"), ("ratelimit-reset", "30")], [None, None, Some(30)]),
        (&[("ratelimit", "\"default\";r=0;t=30")], [None, None, Some(30)]),
        (&[("ratelimit", "limit=10, remaining=0, reset=7")], [None, None, Some(7)]),
        (&[("ratelimit", "\"a\";r=9;t=60, \"b\";r=0;t=8")], [None, None, Some(8)]),
        (&[("ratelimit", "\"a\";r=0;t=-1"), ("x-ratelimit-remaining-requests", "-3")], [None, None, None]),
        (&[("x-ratelimit-remaining-tokens", "1e9"), ("x-ratelimit-reset-tokens", "NaN")], [None, None, None]),
    ];

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn the_headers_of_providers_are_read() {
        for (pairs, expected) in CASES {
            let told = read(&headers(pairs)).expect("headers of a rate limit");
            assert_eq!([told.requests, told.tokens, told.wait.map(|wait| wait.as_secs())], expected, "{pairs:?}");
        }
        assert_eq!(read(&headers(&[("content-type", "text/plain"), ("retry-after", "3")])), None);
    }

    proptest::proptest! {
        #[test]
        fn no_header_panics(name in "(x-|anthropic-)?ratelimit(-remaining|-reset)?(-tokens)?", value in "[ -~]{0,40}") {
            let mut headers = HeaderMap::new();
            let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.insert(name, value.parse().expect("a value"));
            let _ = read(&headers);
        }
    }
}
