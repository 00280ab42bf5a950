use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use crate::wire::hints::{LONGEST, retry_after};

/// 2025-08-08T15:40:34Z.
const NOW: u64 = 1_754_667_634;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).expect("a name"), HeaderValue::from_str(value).expect("a value"))
    };
    pairs.iter().map(pair).collect()
}

fn wait(pairs: &[(&str, &str)]) -> Option<u64> {
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    retry_after(&headers(pairs), None, now).map(|wait| wait.as_millis() as u64)
}

fn said(message: &str) -> Option<u64> {
    retry_after(&HeaderMap::new(), Some(message), SystemTime::UNIX_EPOCH).map(|wait| wait.as_millis() as u64)
}

#[test]
fn every_form_of_retry_after_is_read() {
    for (value, want) in [
        ("17", Some(17_000)),
        ("0.29", Some(290)),
        ("0", Some(0)),
        ("Fri, 08 Aug 2025 15:41:00 GMT", Some(26_000)),
        ("Fri, 08 Aug 2025 15:00:00 GMT", Some(0)),
        ("277403", Some(277_403_000)),
        ("99999999999999999999", Some(LONGEST.as_millis() as u64)),
        ("-5", None),
        ("NaN", None),
        ("inf", None),
        ("soon", None),
        ("", None),
    ] {
        assert_eq!(wait(&[("retry-after", value)]), want, "{value:?}");
    }
    assert_eq!(wait(&[("retry-after-ms", "1500.5")]), Some(1_501));
    assert_eq!(wait(&[("retry-after-ms", "0"), ("retry-after", "1")]), Some(1_000));
    assert_eq!(wait(&[("retry-after-ms", "1e400"), ("retry-after", "1")]), Some(1_000));
}

#[test]
fn only_dimensions_of_which_nothing_remains_count_and_the_latest_wins() {
    let openai = [
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "6m0s"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "4ms"),
        ("x-ratelimit-remaining-images", "5"),
        ("x-ratelimit-reset-images", "24h0m0s"),
        ("retry-after", "1"),
    ];
    assert_eq!(wait(&openai), Some(360_000));
    let anthropic = [
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2025-08-08T15:41:00Z"),
        ("anthropic-ratelimit-output-tokens-remaining", "100"),
        ("anthropic-ratelimit-output-tokens-reset", "2025-08-08T16:41:00Z"),
    ];
    assert_eq!(wait(&anthropic), Some(26_000));
    for (reset, want) in [
        ("1754667660000", 26_000),
        ("1754667660", 26_000),
        ("26", 26_000),
        ("26s", 26_000),
        ("2025-08-08T17:41:00.250+02:00", 26_250),
        ("2025-08-08T15:00:00Z", 0),
    ] {
        assert_eq!(wait(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)]), Some(want), "{reset}");
    }
    assert_eq!(wait(&[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "26")]), None);
    assert_eq!(wait(&[]), None);
}

#[test]
fn times_are_measured_from_the_answers_own_date() {
    let pairs = [("date", "Fri, 08 Aug 2025 15:40:50 GMT"), ("retry-after", "Fri, 08 Aug 2025 15:41:00 GMT")];
    assert_eq!(wait(&pairs), Some(10_000));
}

#[test]
fn a_wait_is_found_in_the_words_of_a_message() {
    for (message, want) in [
        ("Rate limit reached. Please try again in 17s. Visit", Some(17_000)),
        ("try again in 450ms", Some(450)),
        ("Try again in 6m0s", Some(360_000)),
        ("try again in 1m23.5s.", Some(83_500)),
        ("Please try again in 7m12.48s", Some(432_480)),
        ("Please retry after 26 seconds.", Some(26_000)),
        ("Please retry in 34.07s", Some(34_070)),
        ("try again in 1 hour 5 minutes", Some(3_900_000)),
        ("try again in 2h", Some(7_200_000)),
        ("please wait a moment and try again", None),
        ("try again in a moment", None),
        ("try again in 20", None),
        ("try again in 1.2.3s", None),
        ("try again in ", None),
        ("\u{130}\u{130} try again in 5s\u{1F600}", Some(5_000)),
    ] {
        assert_eq!(said(message), want, "{message:?}");
    }
}

proptest! {
    #[test]
    fn no_value_panics_or_is_longer_than_the_longest(
        value in prop_oneof!["[ -~]{0,30}", "[0-9eE.+-]{1,25}", "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,12})?(Z|[+-][0-9]{2}:[0-9]{2})"],
        now in any::<u32>(),
    ) {
        let pairs = [("retry-after", &*value), ("retry-after-ms", &value), ("x-remaining", "0"), ("x-reset", &value)];
        let wait = retry_after(&headers(&pairs), Some(&format!("try again in {value}s")), UNIX_EPOCH + Duration::from_secs(now.into()));
        prop_assert!(wait.is_none_or(|wait| wait <= LONGEST));
    }
}
