//! A schema, compiled once.

use std::collections::HashSet;

use jsonschema::{PatternOptions, Validator, paths::LocationSegment};
use serde_json::{Map, Value};

use super::facts::facts;
use crate::{
    reason::Reason,
    violation::{Violation, Violations},
};

/// A larger schema is not compiled: providers themselves take no such tool.
pub(super) const LARGEST: usize = 256 << 10;
/// More violations than this are not told.
const MOST: usize = 8;

#[derive(Debug)]
pub(super) struct Schema {
    validator: Validator,
    value: Value,
    /// The properties that it names anywhere: only these are told in a pointer.
    names: HashSet<String>,
}

impl Schema {
    /// Compiles `schema`; an error says what is wrong with it.
    pub(super) fn compile(schema: &Value) -> Result<Self, String> {
        if schema.to_string().len() > LARGEST {
            return Err(format!("is larger than {LARGEST} bytes"));
        }
        // Patterns are matched in linear time, and what is not in the schema is not fetched.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex()).offline();
        let validator = options.build(schema).map_err(|error| error.to_string())?;
        let mut names = HashSet::new();
        collect_names(schema, &mut names);
        Ok(Self { validator, value: schema.clone(), names })
    }

    pub(super) fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn violations(&self, value: &Value) -> Option<Violations> {
        if self.is_valid(value) {
            return None;
        }
        let errors = self.validator.iter_errors(value).take(MOST);
        let list = errors.map(|error| {
            let (keyword, expected) = facts(&error, &self.value);
            Violation::new(self.pointer(error.instance_path()), keyword, expected)
        });
        Some(Violations::new(Reason::SchemaViolation, list.collect()))
    }

    /// Where, as far as the schema itself names it: a model may have made up the rest.
    fn pointer(&self, path: &jsonschema::paths::Location) -> String {
        let mut pointer = String::new();
        for segment in path.into_iter() {
            match segment {
                LocationSegment::Index(index) => pointer.push_str(&format!("/{index}")),
                LocationSegment::Property(name) if self.names.contains(&*name) => {
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                }
                LocationSegment::Property(_) => break,
            }
        }
        pointer
    }
}

fn collect_names(schema: &Value, names: &mut HashSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                names.extend(properties.keys().cloned());
            }
            object.values().for_each(|inner| collect_names(inner, names));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect_names(inner, names)),
        _ => {}
    }
}

/// The same schema, taking no property that it does not name.
pub(super) fn closed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    close(&mut schema, true);
    schema
}

/// `whole` tells whether the schema says all there is to say about its value, or is one of several that do so together.
fn close(schema: &mut Value, whole: bool) {
    const COMBINED: [&str; 3] = ["allOf", "anyOf", "oneOf"];
    const APPLIED: [&str; 4] = ["if", "then", "else", "dependentSchemas"];
    let Value::Object(object) = schema else { return };
    if whole {
        close_itself(object, COMBINED.iter().chain(&APPLIED).chain(&["$ref"]).any(|word| object.contains_key(*word)));
    }
    for (word, inner) in object.iter_mut() {
        match (word.as_str(), inner) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(inner)) => {
                inner.values_mut().for_each(|inner| close(inner, true));
            }
            ("items" | "prefixItems", Value::Array(inner)) => inner.iter_mut().for_each(|inner| close(inner, true)),
            ("items" | "additionalProperties" | "contains", inner) => close(inner, true),
            (word, Value::Array(inner)) if COMBINED.contains(&word) => {
                inner.iter_mut().for_each(|inner| close(inner, false))
            }
            ("if" | "then" | "else", inner) => close(inner, false),
            _ => {}
        }
    }
}

fn close_itself(object: &mut Map<String, Value>, is_combined: bool) {
    const SAID: [&str; 3] = ["additionalProperties", "unevaluatedProperties", "patternProperties"];
    let names_properties = object.contains_key("properties");
    if SAID.iter().any(|word| object.contains_key(*word)) || (!names_properties && !is_combined) {
        return;
    }
    // What another schema beside this one names is named too.
    let word = if is_combined { "unevaluatedProperties" } else { "additionalProperties" };
    object.insert(word.to_owned(), Value::Bool(false));
}
