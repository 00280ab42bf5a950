//! A part of a stack that may be left out: [`Setting`].

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Whether a part of a stack is there, and how it is set.
///
/// In a configuration file it is `"off"`, `"on"` (as the defaults say), or a table.
///
/// ```
/// # use tower_belay::{BulkheadConfig, stack::Setting};
/// #[derive(serde::Deserialize)]
/// struct Config { bulkhead: Setting<BulkheadConfig> }
///
/// let read = |text| toml::from_str::<Config>(text).map(|config| config.bulkhead);
/// assert_eq!(read("bulkhead = 'off'"), Ok(Setting::Off));
/// assert_eq!(read("bulkhead = { max_concurrent = 2 }"), Ok(Setting::On(BulkheadConfig::default().max_concurrent(2))));
/// assert!(read("bulkhead = { max = 2 }").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting<T> {
    /// The stack does without it.
    Off,
    /// It is there.
    On(T),
}

impl<T> Setting<T> {
    /// How it is set, if it is there.
    pub fn into_option(self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::On(config) => Some(config),
        }
    }

    /// How it is set, if it is there.
    pub const fn as_ref(&self) -> Option<&T> {
        match self {
            Self::Off => None,
            Self::On(config) => Some(config),
        }
    }
}

impl<T: Default> Default for Setting<T> {
    fn default() -> Self {
        Self::On(T::default())
    }
}

impl<T> From<T> for Setting<T> {
    fn from(config: T) -> Self {
        Self::On(config)
    }
}

impl<T: Serialize> Serialize for Setting<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::On(config) => config.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SettingVisitor(PhantomData))
    }
}

struct SettingVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for SettingVisitor<T> {
    type Value = Setting<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#""off", "on" or a table"#)
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<Self::Value, E> {
        Ok(if on { Setting::default() } else { Setting::Off })
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
        match word {
            "off" => Ok(Setting::Off),
            "on" => Ok(Setting::default()),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Setting::On)
    }
}
