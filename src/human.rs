//! Durations as people write them in a configuration: `"10m"`, `"1h30m"`, `"1.5s"`, `"250ms"`.
//!
//! A number without a unit is refused: nobody can tell whether `30` means seconds or milliseconds.
//!
//! ```
//! use std::time::Duration;
//! use tower_belay::human::{DurationError, format_duration, parse_duration};
//!
//! assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5_400)));
//! assert_eq!(format_duration(Duration::from_millis(1_500)), "1s500ms");
//! assert_eq!(parse_duration("30"), Err(DurationError::NoUnit));
//! ```

use std::{fmt, time::Duration};

use serde::{Deserializer, Serializer, de};

/// Units from the largest to the smallest, in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// Why a text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurationError {
    /// There is nothing.
    Empty,
    /// A number has no unit behind it.
    NoUnit,
    /// Something that is neither a number nor a known unit.
    Malformed,
    /// Too long to be a [`Duration`].
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "an empty text is not a duration",
            Self::NoUnit => "a duration needs a unit, as in \"250ms\", \"10s\", \"1h30m\"",
            Self::Malformed => "not a duration; write it as \"250ms\", \"10s\", \"1h30m\"",
            Self::TooLong => "the duration is too long",
        })
    }
}

impl std::error::Error for DurationError {}

/// Reads `"10m"`, `"1h30m"`, `"250ms"`, `"1.5s"`, `"6m0s"`.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        if unit.is_empty() && number.bytes().any(|b| b.is_ascii_digit()) {
            return Err(DurationError::NoUnit);
        }
        let (_, nanos) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(DurationError::Malformed)?;
        total = total.checked_add(times(number, nanos)?).ok_or(DurationError::TooLong)?;
        rest = tail;
    }
    Ok(total)
}

/// `number` units of `nanos` each, without the rounding of a float.
fn times(number: &str, nanos: u64) -> Result<Duration, DurationError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(DurationError::Malformed);
    }
    let count: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let mut total = u128::from(count) * u128::from(nanos);
    let mut place = u128::from(nanos);
    for digit in fraction.bytes() {
        place /= 10;
        total += place * u128::from(digit - b'0');
    }
    let seconds = u64::try_from(total / 1_000_000_000).map_err(|_| DurationError::TooLong)?;
    Ok(Duration::new(seconds, (total % 1_000_000_000) as u32))
}

/// Writes what [`parse_duration`] reads back exactly: `"1h30m"`, `"1s500ms"`, `"0s"`.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_nanos();
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, nanos) in UNITS.into_iter().filter(|(unit, _)| *unit != "µs") {
        let count = rest / u128::from(nanos);
        rest %= u128::from(nanos);
        if count > 0 {
            text.push_str(&count.to_string());
            text.push_str(unit);
        }
    }
    text
}

struct Human;

impl de::Visitor<'_> for Human {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with a unit, such as \"10m\", \"1h30m\" or \"250ms\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).map_err(|why| E::custom(format_args!("{text:?}: {why}")))
    }
}

/// For `#[serde(with = "tower_belay::human")]`: writes a text.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_duration(*duration))
}

/// For `#[serde(with = "tower_belay::human")]`: reads a text, and refuses a plain number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(Human)
}

/// For `#[serde(default, with = "tower_belay::human::option")]`.
pub mod option {
    use super::*;

    /// Writes a text, or nothing.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a text, or nothing.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        struct Maybe;

        impl<'de> de::Visitor<'de> for Maybe {
            type Value = Option<Duration>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                de::Visitor::expecting(&Human, f)
            }

            fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                super::deserialize(deserializer).map(Some)
            }
        }

        deserializer.deserialize_option(Maybe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in
            [("10m", 600_000), ("1h30m", 5_400_000), ("250ms", 250), ("1.5s", 1_500), ("6m0s", 360_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("2m59.56s"), Ok(Duration::from_millis(179_560)));
        assert_eq!(parse_duration("1µs"), parse_duration("1us"));
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_its_reason() {
        for (text, why) in [
            ("", DurationError::Empty),
            ("30", DurationError::NoUnit),
            ("1h30", DurationError::NoUnit),
            ("m", DurationError::Malformed),
            ("10 m", DurationError::Malformed),
            ("-1s", DurationError::Malformed),
            ("1.2.3s", DurationError::Malformed),
            (".s", DurationError::Malformed),
            ("5 minutes", DurationError::Malformed),
            ("NaNs", DurationError::Malformed),
            ("99999999999999999999d", DurationError::TooLong),
            ("18446744073709551615d", DurationError::TooLong),
        ] {
            assert_eq!(parse_duration(text), Err(why), "{text:?}");
        }
    }

    #[test]
    fn a_configuration_takes_text_and_refuses_plain_numbers() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Config {
            #[serde(with = "crate::human")]
            wait: Duration,
            #[serde(default, with = "crate::human::option", skip_serializing_if = "Option::is_none")]
            cap: Option<Duration>,
        }
        let config: Config = toml::from_str("wait = '1h30m'\ncap = '250ms'").expect("valid");
        assert_eq!((config.wait.as_secs(), config.cap), (5_400, Some(Duration::from_millis(250))));
        assert_eq!(toml::to_string(&config).expect("writes"), "wait = \"1h30m\"\ncap = \"250ms\"\n");
        let config: Config = toml::from_str("wait = '1s'").expect("valid");
        assert_eq!(config.cap, None);
        let error = toml::from_str::<Config>("wait = 30").err().expect("no unit").to_string();
        assert!(error.contains("a duration with a unit"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(seconds in any::<u64>(), nanos in 0..1_000_000_000_u32) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse_duration(&text);
        }
    }
}
