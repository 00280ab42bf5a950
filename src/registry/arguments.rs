//! Reads the arguments of a call as the model wrote them, and says what is wrong with them in our own words.

use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, error::Category};

/// Why a text is no arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    Empty,
    Cut,
    Fenced,
    TrailingText,
    TrailingComma,
    Python,
    NotFinite,
    TooDeep,
    Duplicate,
    NotJson,
    /// JSON, and a string that contains an object.
    DoubleEncoded,
    NotAnObject,
}

impl Flaw {
    /// A keyword, and what was expected.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Empty => ("empty", "The arguments must be a JSON object, not nothing"),
            Self::Cut => ("cut", "The arguments must be whole: they ended in the middle"),
            Self::Fenced => ("fenced", "The arguments must be JSON alone, without a code fence"),
            Self::TrailingText => ("trailing_text", "The arguments must be one JSON object and nothing behind it"),
            Self::TrailingComma => {
                ("trailing_comma", "The arguments must be JSON, with no comma before a closing bracket")
            }
            Self::Python => {
                ("python", "The arguments must be JSON: strings in double quotes, and true, false and null")
            }
            Self::NotFinite => ("not_finite", "The arguments must have only finite numbers that JSON can hold"),
            Self::TooDeep => ("too_deep", "The arguments must not be nested so deeply"),
            Self::Duplicate => ("duplicate", "The arguments must name each property once"),
            Self::NotJson => ("json", "The arguments must be valid JSON"),
            Self::DoubleEncoded => {
                ("double_encoded", "The arguments must be a JSON object, not a string that contains one")
            }
            Self::NotAnObject => ("object", "The arguments must be a JSON object"),
        }
    }
}

/// The object that `text` is.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, Flaw> {
    match parse(text)? {
        Value::Object(object) => Ok(object),
        Value::String(inner) if matches!(parse(&inner), Ok(Value::Object(_))) => Err(Flaw::DoubleEncoded),
        _ => Err(Flaw::NotAnObject),
    }
}

/// The JSON value that `text` is, with no property named twice.
pub(super) fn parse(text: &str) -> Result<Value, Flaw> {
    if text.trim().is_empty() {
        return Err(Flaw::Empty);
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Once.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| flaw(text, &error))
}

fn flaw(text: &str, error: &serde_json::Error) -> Flaw {
    let said = error.to_string();
    let begins = |word: &str| said.starts_with(word);
    let rest = behind(text, error);
    let next = rest.trim_start();
    match () {
        () if text.trim_start().starts_with("```") => Flaw::Fenced,
        () if begins(DUPLICATE) => Flaw::Duplicate,
        () if begins("recursion limit") => Flaw::TooDeep,
        () if begins("number out of range") => Flaw::NotFinite,
        () if ["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"].iter().any(|word| next.starts_with(word)) => {
            Flaw::NotFinite
        }
        // An unfinished `-Infinity` is met behind its sign.
        () if begins("invalid number") && next.starts_with('I') => Flaw::NotFinite,
        () if error.classify() == Category::Eof => Flaw::Cut,
        () if begins("trailing comma") => Flaw::TrailingComma,
        () if begins("trailing characters") => Flaw::TrailingText,
        () if next.starts_with(['\'', 'T', 'F', 'N', '(']) => Flaw::Python,
        () => Flaw::NotJson,
    }
}

/// What stands where an error was met.
fn behind<'a>(text: &'a str, error: &serde_json::Error) -> &'a str {
    let line = text.split_inclusive('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    // The error points at the byte it was met at, or at the one before.
    let at = error.column().saturating_sub(1);
    line.get(at..).unwrap_or_default()
}

const DUPLICATE: &str = "a property is named twice";

/// Reads a value in which no property is named twice: which of two was meant cannot be told.
#[derive(Clone, Copy)]
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self)?;
            if object.insert(key, value).is_some() {
                return Err(de::Error::custom(DUPLICATE));
            }
        }
        Ok(Value::Object(object))
    }
}
