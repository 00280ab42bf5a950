//! Digests of arguments and results.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    super::{mask, sketch::Sketch},
    *,
};

fn digest(arguments: &str) -> u64 {
    Canonical::default().digest(arguments)
}

#[test]
fn spellings_of_one_value_are_one() {
    for (one, other) in [
        (r#"{"a":1,"b":[true,null]}"#, " { \"b\" : [ true , null ] ,\n \"a\" : 1 } "),
        ("[1,10,100,0,0]", "[1.0,1e1,1E+2,-0,0.0e9]"),
        ("[0.05,-12.5]", "[5e-2,-1.25e1]"),
        (r#""\u0061\/\ud83e\udd80""#, "\"a/🦀\""),
        ("", "{}"),
    ] {
        assert_eq!(digest(one), digest(other), "{one} {other}");
    }
}

#[test]
fn different_values_are_different() {
    let all = [
        "1",
        "-1",
        "10",
        "0",
        "1.5",
        "\"1\"",
        "[1]",
        "[[1]]",
        "{}",
        "[]",
        "null",
        "true",
        "false",
        "\"\"",
        "\"null\"",
        "9007199254740993",
        "9007199254740992",
        "1e400",
        "1e401",
        "0.1",
        "0.10000000000000001",
        r#"{"a":1}"#,
        r#"{"a":"1"}"#,
        r#"{"a":{"b":1}}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":2,"b":1}"#,
        "[1,2]",
        "[2,1]",
        "[12]",
        r#"{"a":[{}]}"#,
        r#"{"a":[[]]}"#,
        "NaN",
        "Infinity",
        "{\"a\":1",
        r#"{"a":1,"a":2}"#,
        r#"{"a":2,"a":1}"#,
        r#""\ud800""#,
        r#""\ud800\u0061""#,
        "01x",
        "ls -la",
        "'a'",
        "1e99999999999999999999",
        "- 1",
        "{,}",
        "[1,]",
    ];
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            assert_ne!(digest(one), digest(other), "{one} {other}");
        }
    }
}

#[test]
fn hostile_arguments_are_digested_in_their_time() {
    let deep = "[".repeat(10_000);
    let deep_object = "{\"a\":".repeat(10_000);
    let members: String = (0..400_000).map(|n| format!("\"k{n}\":{n},")).collect();
    let long = format!("{{{}\"z\":0}}", members);
    let zeros = format!("[1{}]", "0".repeat(10 << 20));
    let quotes = "\"\\".repeat(5 << 20);
    let begun = tokio::time::Instant::now();
    for hostile in [&deep, &deep_object, &long, &zeros, &quotes, &"{\"a\":1,".repeat(100_000), &"\\u".repeat(500_000)] {
        assert_eq!(digest(hostile), digest(hostile));
        assert_eq!(mask::result(hostile), mask::result(hostile));
        let _ = (mask::shape(hostile), mask::is_transient(hostile), Sketch::of(hostile));
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(digest(&"[".repeat(100)), digest(&"[".repeat(100)));
}

#[test]
fn volatile_fields_are_left_out_wherever_their_path_leads() {
    let canonical = Canonical::without(["id", "meta.sent_at", "items.nonce"]);
    let same = |one: &str, other: &str| canonical.digest(one) == canonical.digest(other);
    assert!(same(r#"{"id":1,"q":"x"}"#, r#"{"q":"x","id":"other"}"#));
    assert!(same(r#"{"id":1,"q":"x"}"#, r#"{"q":"x"}"#));
    assert!(same(r#"{"meta":{"sent_at":1,"by":2}}"#, r#"{"meta":{"by":2,"sent_at":9}}"#));
    assert!(same(r#"{"items":[{"nonce":1,"n":1},{"nonce":2}]}"#, r#"{"items":[{"nonce":3,"n":1},{}]}"#));
    assert!(!same(r#"{"sent_at":1}"#, r#"{"sent_at":2}"#));
    assert!(!same(r#"{"q":{"id":1}}"#, r#"{"q":{"id":2}}"#));
    assert!(!same(r#"{"meta":1}"#, r#"{"meta":2}"#));
}

#[test]
fn what_differs_each_time_is_not_in_a_result() {
    for (one, other) in [
        ("done at 2026-01-31T12:30:05.123Z", "done at 2026-02-01T00:00:00+01:00"),
        ("[12:30:05] ok", "[23:59:59.999] ok"),
        ("took 12ms", "took 8.5 s"),
        ("visited 9 seconds ago", "visited 46 seconds ago"),
        ("pid 4711 exited", "pid 12 exited"),
        ("{\"pid\": 4711}", "{\"pid\": 4712}"),
        ("<Job at 0x7ffd2c3b>", "<Job at 0x55aa00112233>"),
        ("id 123e4567-e89b-12d3-a456-426614174000.", "id ffffffff-e89b-12d3-a456-426614174000."),
        ("{\"ts\":1767225600}", "{\"ts\":1767225601}"),
        ("text\n", "text"),
    ] {
        assert_eq!(mask::result(one), mask::result(other), "{one} {other}");
    }
    for (one, other) in [
        ("3 passed", "4 passed"),
        ("on 2026-01-31", "on 2026-02-01"),
        ("5 seats", "6 seats"),
        ("flight HAT215", "flight HAT216"),
        ("commit 4e9d71e19b82", "commit f54e14906b27"),
        ("rapid 4", "rapid 5"),
        ("0xff", "0xfe"),
        ("x12ms", "x13ms"),
    ] {
        assert_ne!(mask::result(one), mask::result(other), "{one} {other}");
    }
}

#[test]
fn messages_of_one_shape_differ_in_what_they_quote_and_count() {
    assert_eq!(mask::shape("Unknown column 'a' in 'field list'"), mask::shape("Unknown column 'b.c' in 'where'"));
    assert_eq!(mask::shape("Error: plan P1006 not found"), mask::shape("Error: plan P1007  not found"));
    assert_ne!(mask::shape("Error: plan P1006 not found"), mask::shape("Error: line P1006 not found"));
    assert_eq!(mask::shape("error 7"), None);
    assert!(mask::is_transient("Error: 503 Service Unavailable") && !mask::is_transient("line 5031: no such file"));
}

#[test]
fn likeness_is_of_words() {
    let of = Sketch::of;
    assert_eq!(of("please unzip the file").likeness(&of("the file, please: unzip!")), 100);
    assert!(of("unzip the file at /tmp/a.zip").likeness(&of("list all orders of customer 7")) < 30);
    assert_eq!(of(r#"{"at":1767225600}"#).likeness(&of(r#"{"at":1767225999}"#)), 100);
    assert!(of(r##"{"order_id":"#W3947049"}"##).likeness(&of(r##"{"order_id":"#W8488728"}"##)) < 60);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |n| n.is_finite().then(|| json!(n))),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec(("\\PC{0,4}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Another spelling: members backwards, white space, escapes, other forms of whole numbers.
fn spelled(value: &Value) -> String {
    let text = |text: &str| {
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("\"{escaped}\"")
    };
    match value {
        Value::Array(items) => format!("[ {} ]", items.iter().map(spelled).collect::<Vec<_>>().join(" ,\n")),
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().rev().map(|(name, value)| format!("{} :\t{}", text(name), spelled(value))).collect();
            format!("{{ {} }}", members.join(" , "))
        }
        Value::String(string) => text(string),
        Value::Number(number) if number.is_f64() => number.to_string(),
        Value::Number(number) => format!("{number}.000e0"),
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn a_value_has_one_digest_however_it_is_spelled(value in value()) {
        let spelled = spelled(&value);
        prop_assert_eq!(digest(&value.to_string()), digest(&spelled), "{} {}", value, spelled);
    }

    #[test]
    fn two_values_have_two_digests(one in value(), other in value()) {
        prop_assume!(one != other);
        prop_assert_ne!(digest(&one.to_string()), digest(&other.to_string()), "{} {}", one, other);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}", json in "[\\[\\]{}\":,\\\\u0-9eE.+\\-a-f ]{0,60}") {
        for text in [&text, &json] {
            let _ = (digest(text), mask::result(text), mask::shape(text), mask::is_transient(text), Sketch::of(text));
        }
    }
}
