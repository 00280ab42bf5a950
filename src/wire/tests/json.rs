//! The cursor beside `serde_json`.
//!
//! What the cursor takes and `serde_json` does not, because it is stepped over or harmless: raw control characters and
//! unknown escapes in strings, half a surrogate pair, numbers with leading zeros or without digits, commas, colons and
//! scalars that make no sense inside a nested value that is not looked at, brackets that do not match more than 64
//! deep, and any depth.

use proptest::prelude::*;
use serde_json::{Map, Number, Value};

use crate::wire::json::{self, Cursor, List, Obj, Raw};

json::object! {
    Fields {
        a: Raw<'a> = "a",
        b: Raw<'a> = "b",
        object: Obj<Inner<'a>> = "object",
        list: List<Inner<'a>> = "list",
        maybe: Option<List<Inner<'a>>> = "maybe",
    }
}

json::object! {
    Inner {
        a: Raw<'a> = "a",
        b: Raw<'a> = "b",
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["", "x", "a\"b", "\\", "\\\"", "\u{8}\u{c}\n\r\t", "\u{0}\u{1f}", "é😀\u{2028}", "{[", "}]", ",:", "null"])
            .prop_map(str::to_owned),
        2 => "\\PC{0,40}",
        1 => "[a-z\"\\\\]{0,80}",
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "object", "list", "maybe"]).prop_map(str::to_owned),
        2 => text(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| Number::from_f64(float).map_or(Value::Null, Value::Number)),
        (0_u64..1_000).prop_map(Value::from),
        text().prop_map(Value::String),
    ];
    scalar.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            2 => prop::collection::vec((key(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Writes a value in one of the many ways in which it can be written.
fn write(value: &Value, odd: bool, out: &mut String) {
    let space = if odd { " \n\t\r" } else { "" };
    let string = |text: &str, out: &mut String| {
        if !odd {
            return out.push_str(&Value::from(text).to_string());
        }
        out.push('"');
        for unit in text.encode_utf16() {
            out.push_str(&format!("\\u{unit:04X}"));
        }
        out.push('"');
    };
    out.push_str(space);
    match value {
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(item, odd, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (at, (key, value)) in fields.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                out.push_str(space);
                string(key, out);
                out.push_str(space);
                out.push(':');
                write(value, odd, out);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
    out.push_str(space);
}

/// What `serde_json` makes of the text that was read for `expected`.
fn same(raw: Raw<'_>, expected: Option<&Value>) -> Result<(), TestCaseError> {
    let expected = expected.filter(|value| !value.is_null());
    let read: Option<Value> = raw.map(|raw| serde_json::from_str(raw).expect("what was valid before"));
    prop_assert_eq!(read.as_ref(), expected);
    let string = json::string(raw);
    prop_assert_eq!(string.as_deref(), expected.and_then(Value::as_str));
    prop_assert_eq!(json::is_true(raw), expected == Some(&Value::Bool(true)));
    if let Some(number) = expected.and_then(Value::as_u64) {
        prop_assert_eq!(json::count(raw), Some(number));
    }
    let items = json::elements(raw);
    prop_assert_eq!(items.as_ref().map(Vec::len), expected.and_then(Value::as_array).map(Vec::len));
    let filled = match expected {
        None | Some(Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(_) => true,
    };
    // What is long counts as filled without a look.
    prop_assert!(json::is_filled(raw) == filled || json::text(raw).len() > 64);
    Ok(())
}

fn same_inner(inner: &Inner<'_>, expected: &Value) -> Result<(), TestCaseError> {
    same(inner.a, expected.get("a"))?;
    same(inner.b, expected.get("b"))
}

fn same_list(list: &List<Inner<'_>>, expected: Option<&Value>) -> Result<(), TestCaseError> {
    let objects: Vec<&Value> = match expected {
        Some(Value::Array(items)) => items.iter().filter(|item| item.is_object()).collect(),
        Some(object @ Value::Object(_)) => vec![object],
        _ => Vec::new(),
    };
    prop_assert_eq!(list.iter().count(), objects.len());
    list.iter().zip(objects).try_for_each(|(inner, expected)| same_inner(inner, expected))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_field_of_valid_json_is_read_as_serde_json_reads_it(value in value(), odd in any::<bool>()) {
        let mut text = String::new();
        write(&value, odd, &mut text);
        // Read back, since its floats are read to within a bit only.
        let value = serde_json::from_str::<Value>(&text).expect("valid");
        let Ok(Obj(read)) = json::read::<Obj<Fields<'_>>>(text.as_bytes()) else {
            return Err(TestCaseError::fail(format!("refused: {text}")));
        };
        prop_assert_eq!(read.is_some(), value.is_object());
        let Some(read) = read else { return Ok(()) };
        same(read.a, value.get("a"))?;
        same(read.b, value.get("b"))?;
        let object = value.get("object").filter(|object| object.is_object());
        prop_assert_eq!(read.object.0.is_some(), object.is_some());
        if let (Some(inner), Some(expected)) = (&read.object.0, object) {
            same_inner(inner, expected)?;
        }
        same_list(&read.list, value.get("list"))?;
        prop_assert_eq!(read.maybe.is_some(), value.get("maybe").is_some_and(|maybe| !maybe.is_null()));
        if let Some(list) = &read.maybe {
            same_list(list, value.get("maybe"))?;
        }
    }

    #[test]
    fn what_was_cut_is_refused(value in value(), odd in any::<bool>(), cut in any::<prop::sample::Index>()) {
        let mut text = String::new();
        write(&value, odd, &mut text);
        let text = text.trim();
        prop_assume!(matches!(value, Value::Object(_) | Value::Array(_) | Value::String(_)));
        let cut = &text.as_bytes()[..cut.index(text.len())];
        prop_assert!(json::read::<Obj<Fields<'_>>>(cut).is_err());
    }

    #[test]
    fn damage_panics_nowhere_and_all_that_serde_json_takes_is_taken(
        value in value(),
        odd in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u8>(), prop::sample::select(b"{}[]\",:\\u0 9eE-+.tfn\0\xff".to_vec())]), 1..6),
    ) {
        let mut text = String::new();
        write(&value, odd, &mut text);
        let mut bytes = text.into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let read = json::read::<Obj<Fields<'_>>>(&bytes);
        let strict = serde_json::from_slice::<Value>(&bytes);
        if let Ok(strict) = &strict {
            let Ok(Obj(read)) = read else { return Err(TestCaseError::fail("serde_json takes it")) };
            prop_assert_eq!(read.is_some(), strict.is_object());
        } else if let Ok(Obj(Some(read))) = read {
            // Whatever was taken, looking at it harms nobody.
            for raw in [read.a, read.b] {
                let _ = (json::string(raw), json::count(raw), json::elements(raw), json::is_filled(raw));
            }
        }
        if let Ok(mut cursor) = Cursor::new(&bytes) {
            let _ = cursor.skip().and_then(|()| cursor.end());
        }
    }
}

#[test]
fn what_is_taken_beyond_the_standard_is_known() {
    let taken = |text: &str| json::read::<Obj<Fields<'_>>>(text.as_bytes()).is_ok();
    for odd in
        ["{\"a\":\"\u{1}\"}", r#"{"a":"\x"}"#, r#"{"a":"\ud83d"}"#, r#"{"a":01}"#, r#"{"a":-}"#, r#"{"z":[1 2,,x]}"#]
    {
        assert!(taken(odd) && serde_json::from_str::<Value>(odd).is_err(), "{odd}");
    }
    assert!(taken(&format!("{{\"z\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000))));
    for never in [
        "",
        "{",
        "{}}",
        "{,}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a":tru}"#,
        r#"{a:1}"#,
        "{'a':1}",
        "[}",
        "{\"z\":[}}",
    ] {
        assert!(!taken(never), "{never}");
    }
    // What is unescaped must be what the standard says: an unknown escape makes the value absent.
    assert_eq!(json::string(Some(r#""\x""#)), None);
}
