//! Durations as people write them: `10m`, `1h30m`, `250ms`, `1.5s`. For `#[serde(with = "crate::human")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// The units, largest first, in nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads a sum of numbers with units; a number without a unit is refused, since nobody could say what it means.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let mut nanos = 0_u128;
    if rest.is_empty() {
        return Err("expected a duration such as `10m`".to_owned());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let tail = tail.trim_start();
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("`{text}` needs units: d, h, m, s, ms, us, ns"));
        };
        let part = scaled(number, *size).ok_or_else(|| format!("`{text}` is not a duration"))?;
        nanos = nanos.checked_add(part).ok_or_else(|| format!("`{text}` is too long"))?;
        rest = tail.trim_start();
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).map_err(|_| format!("`{text}` is too long"))?;
    Ok(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

fn scaled(number: &str, size: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? * size };
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len()) as u32;
    Some(u128::from(whole) * size + fraction / 10_u128.pow(digits))
}

/// The shortest text that [`parse_duration`] reads back as the same duration.
pub(crate) fn format_duration(duration: Duration) -> String {
    let mut nanos = duration.as_nanos();
    let mut text = String::new();
    for (unit, size) in UNITS {
        if nanos >= size {
            text.push_str(&format!("{}{unit}", nanos / size));
            nanos %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_duration(*duration))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [("10m", 600_000), ("1h30m", 5_400_000), ("250ms", 250), ("1.5s", 1_500), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration(" 1h 30m "), Ok(Duration::from_secs(5_400)));
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in ["", "10", "m", "-1s", "1x", "1..s", ".5s", "1.s", "99999999999999999999s", "300000000000000000d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for duration in [Duration::ZERO, Duration::from_millis(90_061_001), Duration::new(1, 1), Duration::MAX] {
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        assert_eq!(format_duration(Duration::from_secs(600)), "10m");
    }
}
