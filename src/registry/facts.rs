//! What a schema demands, in words: nothing that a model wrote.

use std::fmt::Write as _;

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

/// A keyword, and what was expected.
pub(super) fn facts(error: &ValidationError<'_>, schema: &Value) -> (&'static str, String) {
    let (keyword, mut expected) = words(error, schema);
    clip(&mut expected);
    (keyword, expected)
}

/// No expectation is longer than this, in bytes.
pub(super) const LONGEST: usize = 160;

pub(super) fn clip(text: &mut String) {
    if text.len() > LONGEST {
        let end = (0..=LONGEST - 3).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
}

fn words(error: &ValidationError<'_>, schema: &Value) -> (&'static str, String) {
    match error.kind() {
        Kind::Type { kind } => ("type", format!("must be {}", types(kind))),
        Kind::Required { property } => ("required", format!("needs the property {property}")),
        Kind::Enum { options } => ("enum", format!("must be one of {}", list(options))),
        Kind::Constant { expected_value } => ("const", format!("must be {expected_value}")),
        Kind::AdditionalProperties { .. } => ("additionalProperties", allowed(error, schema)),
        Kind::UnevaluatedProperties { .. } => {
            ("unevaluatedProperties", "takes only properties of its schema".to_owned())
        }
        Kind::PropertyNames { .. } => ("propertyNames", "has a property whose name is not allowed".to_owned()),
        Kind::Minimum { limit } => ("minimum", format!("must be at least {limit}")),
        Kind::Maximum { limit } => ("maximum", format!("must be at most {limit}")),
        Kind::ExclusiveMinimum { limit } => ("exclusiveMinimum", format!("must be more than {limit}")),
        Kind::ExclusiveMaximum { limit } => ("exclusiveMaximum", format!("must be less than {limit}")),
        Kind::MultipleOf { multiple_of } => ("multipleOf", format!("must be a multiple of {multiple_of}")),
        Kind::MinLength { limit } => ("minLength", format!("must have at least {limit} characters")),
        Kind::MaxLength { limit } => ("maxLength", format!("must have at most {limit} characters")),
        Kind::Pattern { pattern } => ("pattern", format!("must match the pattern {pattern}")),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            ("pattern", "cannot be held to its pattern in reasonable time".to_owned())
        }
        Kind::Format { format } => ("format", format!("must be in the format {format}")),
        Kind::MinItems { limit } => ("minItems", format!("must have at least {limit} items")),
        Kind::MaxItems { limit } => ("maxItems", format!("must have at most {limit} items")),
        Kind::AdditionalItems { limit } => ("items", format!("must have at most {limit} items")),
        Kind::UnevaluatedItems { .. } => ("unevaluatedItems", "has items that its schema does not allow".to_owned()),
        Kind::UniqueItems => ("uniqueItems", "must not have an item twice".to_owned()),
        Kind::Contains => ("contains", "lacks an item that its schema demands".to_owned()),
        Kind::MinProperties { limit } => ("minProperties", format!("must have at least {limit} properties")),
        Kind::MaxProperties { limit } => ("maxProperties", format!("must have at most {limit} properties")),
        Kind::AnyOf { .. } => ("anyOf", "must be one of the forms of its schema".to_owned()),
        Kind::OneOfNotValid { .. } => ("oneOf", "must be one of the forms of its schema".to_owned()),
        Kind::OneOfMultipleValid { .. } => ("oneOf", "must be exactly one of the forms of its schema".to_owned()),
        Kind::Not { .. } => ("not", "must not be of a form that its schema excludes".to_owned()),
        Kind::FalseSchema => ("false", "is not allowed".to_owned()),
        _ => ("schema", "must match its schema".to_owned()),
    }
}

fn types(kind: &TypeKind) -> String {
    let name = |name: String| match name.as_str() {
        "integer" | "object" | "array" => format!("an {name}"),
        "null" => name,
        _ => format!("a {name}"),
    };
    match kind {
        TypeKind::Single(one) => name(one.to_string()),
        TypeKind::Multiple(many) => {
            let names: Vec<String> = many.iter().map(|one| name(one.to_string())).collect();
            names.join(" or ")
        }
    }
}

/// As many values as there is room for.
fn list(values: &Value) -> String {
    let mut text = String::new();
    for (at, value) in values.as_array().into_iter().flatten().enumerate() {
        let word = value.to_string();
        if text.len() + word.len() > LONGEST - 40 {
            text.push_str(", ...");
            break;
        }
        let comma = if at == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{word}");
    }
    text
}

/// The properties that an object may have.
fn allowed(error: &ValidationError<'_>, schema: &Value) -> String {
    let path = error.schema_path().to_string();
    let object = path.rsplit_once('/').and_then(|(object, _)| schema.pointer(object));
    let names = object.and_then(|object| object.get("properties")).and_then(Value::as_object);
    match names {
        Some(names) if !names.is_empty() => {
            format!("takes only {}", list(&names.keys().map(|name| Value::from(name.as_str())).collect()))
        }
        _ => "takes only properties of its schema".to_owned(),
    }
}
