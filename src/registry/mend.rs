//! Mends arguments where the schema allows nothing else.

use serde_json::{Map, Value};

use super::{arguments, schema::Schema};

/// Arguments that are encoded more often than this are not read.
const ENCODED: usize = 3;
/// Schemas are followed so deep, and no deeper.
const DEPTH: usize = 32;

/// The object that was meant by `text`; `None` where that would have to be guessed. It still has to be validated.
pub(super) fn mended(schema: &Schema, text: &str) -> Option<Value> {
    let mut object = whole(text)?;
    mend(&mut object, schema.value(), schema.value(), DEPTH);
    Some(object)
}

/// An object that was written as a string, or in one fence and nothing around it.
fn whole(text: &str) -> Option<Value> {
    let mut value = arguments::parse(unfenced(text)).ok()?;
    for _ in 0..ENCODED {
        match value {
            Value::Object(_) => return Some(value),
            Value::String(inner) => value = arguments::parse(&inner).ok()?,
            _ => return None,
        }
    }
    None
}

fn unfenced(text: &str) -> &str {
    let inside = || {
        let inside = text.trim().strip_prefix("```")?.strip_suffix("```")?;
        let (language, inside) = inside.split_once('\n')?;
        (matches!(language.trim(), "" | "json" | "JSON") && !inside.contains("```")).then_some(inside)
    };
    inside().unwrap_or(text)
}

fn mend(value: &mut Value, schema: &Value, root: &Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let Some(schema) = resolved(schema, root) else { return };
    if let Value::String(text) = value
        && let Some(meant) = meant(text, schema)
    {
        *value = meant;
    }
    match (value, schema) {
        (Value::Object(object), Value::Object(schema)) => {
            let Some(Value::Object(properties)) = schema.get("properties") else { return };
            prune(object, properties, schema.get("required"), root);
            for (name, inner) in object.iter_mut() {
                if let Some(schema) = properties.get(name) {
                    mend(inner, schema, root, depth);
                }
            }
        }
        (Value::Array(items), Value::Object(schema)) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| mend(item, schema, root, depth));
            }
        }
        _ => {}
    }
}

/// Follows a reference within the document.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Value> {
    let mut schema = schema;
    for _ in 0..ENCODED {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(pointer) => schema = root.pointer(pointer.strip_prefix('#')?)?,
            None => return Some(schema),
        }
    }
    None
}

/// What a string stands for where no string is allowed, and one type is.
fn meant(text: &str, schema: &Value) -> Option<Value> {
    let only = schema.get("type")?.as_str()?;
    let value = arguments::parse(text).ok()?;
    let fits = match only {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "number" | "integer" => value.is_number(),
        _ => false,
    };
    fits.then_some(value)
}

/// Leaves out what says nothing, where it may be left out and may not say nothing.
fn prune(object: &mut Map<String, Value>, properties: &Map<String, Value>, required: Option<&Value>, root: &Value) {
    let is_required = |name: &str| {
        required.and_then(Value::as_array).is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)))
    };
    object.retain(|name, value| {
        let says_nothing = value.is_null() || value.as_str() == Some("");
        let Some(schema) = properties.get(name).and_then(|schema| resolved(schema, root)) else { return true };
        if !says_nothing || is_required(name) {
            return true;
        }
        Schema::compile(schema).is_ok_and(|schema| schema.is_valid(value))
    });
}
