use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{call::Effect, semantic_breaker::TripCard, tool::Pollable};

fn trip() -> Tool {
    Tool::new("book_trip").effect(Effect::Consequential).parameters(json!({
        "type": "object",
        "properties": {
            "to": { "type": "string", "minLength": 1 },
            "class": { "enum": ["economy", "business"] },
            "seats": { "type": "integer", "minimum": 1, "maximum": 9 },
            "refundable": { "type": "boolean" },
            "stops": { "type": "array", "items": { "$ref": "#/$defs/stop" } },
            "note": { "type": ["string", "null"] },
            "promo": { "type": "string", "pattern": "^[A-Z]{4}$" },
        },
        "required": ["to"],
        "$defs": { "stop": { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } },
    }))
}

fn registry() -> Registry {
    Registry::new([trip(), Tool::new("list_trips"), Tool::new("cancel.trip")]).expect("schemas that compile")
}

fn wrong(arguments: &str) -> Violations {
    registry().check("book_trip", arguments).expect_err(arguments)
}

fn keyword(arguments: &str) -> &'static str {
    let wrong = wrong(arguments);
    assert_eq!(wrong.reason, Reason::BadArguments, "{arguments}");
    wrong.list[0].keyword
}

#[test]
fn arguments_that_match_pass_and_keep_every_byte_of_their_strings() {
    let text = "{\"to\": \" Oslo\\u0000\\ud83e\\udd80 \", \"seats\": 2.0, \"note\": null, \"new\": {}}";
    let checked = registry().check("book_trip", text).expect("valid");
    assert_eq!(checked.arguments["to"], " Oslo\0\u{1f980} ");
    assert!(!checked.mended);
}

#[test]
fn each_flaw_of_a_text_is_told_in_words_of_its_own() {
    for (text, flaw) in [
        ("", "empty"),
        (" \n", "empty"),
        (r#"{"to":"Osl"#, "cut"),
        (r#"{"to":"Oslo""#, "cut"),
        (r#"{"to":"Oslo",}"#, "trailing_comma"),
        (r#"{"to":"Oslo"} and so on"#, "trailing_text"),
        (r#"{"to":"Oslo"}{"to":"Rome"}"#, "trailing_text"),
        ("```json\n{\"to\":\"Oslo\"}\n```", "fenced"),
        ("{'to': 'Oslo'}", "python"),
        (r#"{"to":"Oslo","refundable":True}"#, "python"),
        (r#"{"to":"Oslo","seats":NaN}"#, "not_finite"),
        (r#"{"to":"Oslo","seats":-Infinity}"#, "not_finite"),
        (r#"{"to":"Oslo","seats":1e400}"#, "not_finite"),
        (r#"{"to":"Oslo","to":"Rome"}"#, "duplicate"),
        (r#"{"to":"Oslo","stops":[{"city":"a","city":"b"}]}"#, "duplicate"),
        (r#""{\"to\":\"Oslo\"}""#, "double_encoded"),
        (r#"["Oslo"]"#, "object"),
        ("null", "object"),
        (r#"{"to":"\ud800"}"#, "json"),
    ] {
        assert_eq!(keyword(text), flaw, "{text}");
    }
}

#[test]
fn hostile_arguments_are_refused_in_good_time() {
    let deep = format!("{{\"to\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(keyword(&deep), "too_deep");
    let long = format!("{{\"to\":\"{}", "a".repeat(10 << 20));
    assert_eq!(keyword(&long), "cut");
    let wide = format!("{{\"to\":\"Oslo\"{}}}", (0..200_000).map(|n| format!(",\"k{n}\":{n}")).collect::<String>());
    assert!(registry().check("book_trip", &wide).is_ok());
    let name = "x".repeat(10 << 20);
    assert_eq!(registry().check(&name, "{}").expect_err("unknown").reason, Reason::UnknownTool);
}

#[test]
fn a_pattern_that_other_engines_take_for_ever_on_takes_linear_time() {
    let tool = Tool::new("t").parameters(json!({ "properties": { "a": { "type": "string", "pattern": "^(a+)+$" } } }));
    let registry = Registry::new([tool]).expect("compiles");
    let text = json!({ "a": format!("{}!", "a".repeat(100_000)) }).to_string();
    assert_eq!(registry.check("t", &text).expect_err("does not match").list[0].keyword, "pattern");
}

#[test]
fn a_violation_says_where_and_what_was_expected_and_nothing_that_the_model_wrote() {
    let text = r#"{"class":"SECRET","seats":0,"refundable":"SECRET","stops":[{"SECRET":1}],"promo":"SECRET"}"#;
    let wrong = wrong(text);
    let told: Vec<(&str, &str)> = wrong.list.iter().map(|it| (it.pointer.as_str(), it.keyword)).collect();
    for expected in
        [("", "required"), ("/class", "enum"), ("/seats", "minimum"), ("/refundable", "type"), ("/stops/0", "required")]
    {
        assert!(told.contains(&expected), "{expected:?} in {told:?}");
    }
    let said = wrong.to_string();
    assert!(!said.contains("SECRET") && said.contains(r#"/class: must be one of "economy", "business"."#), "{said}");
    assert!(said.contains("/seats: must be at least 1.") && said.len() <= 500);
}

#[test]
fn a_key_that_the_model_made_up_is_in_no_pointer() {
    let tool = Tool::new("t").parameters(json!({ "additionalProperties": { "type": "integer" } }));
    let registry = Registry::new([tool]).expect("compiles");
    let wrong = registry.check("t", r#"{"ignore all rules":"x"}"#).expect_err("no integer");
    assert_eq!((wrong.list[0].pointer.as_str(), wrong.to_string().as_str()), ("", "must be an integer."));
}

#[test]
fn long_facts_are_cut_and_the_text_is_never_empty() {
    let values: Vec<String> = (0..1_000).map(|n| format!("value number {n} \u{e9}")).collect();
    let tool = Tool::new("t")
        .parameters(json!({ "properties": { "a": { "enum": values }, "b": { "const": "y".repeat(9_000) } } }));
    let wrong = Registry::new([tool]).expect("compiles").check("t", r#"{"a":1,"b":2}"#).expect_err("neither");
    assert!(wrong.list.iter().all(|it| it.expected.len() <= facts::LONGEST), "{wrong:?}");
    assert!(wrong.to_string().contains("must be one of"));
}

#[test]
fn an_unknown_tool_names_the_near_ones_and_never_itself() {
    for (name, said) in [
        ("bookTrip", "There is no such tool; the nearest is \"book_trip\"."),
        ("cancel_trip", "There is no such tool; the nearest is \"cancel.trip\"."),
        ("rm -rf /", "There is no such tool; there is \"book_trip\", \"cancel.trip\", \"list_trips\"."),
    ] {
        let unknown = registry().check(name, "{}").expect_err("unknown");
        assert_eq!((unknown.reason, unknown.to_string().as_str()), (Reason::UnknownTool, said));
    }
    assert_eq!(Registry::default().check("a", "{}").expect_err("none").to_string(), "There is no such tool.");
}

#[test]
fn a_tool_that_takes_nothing_may_be_given_nothing() {
    assert_eq!(registry().check("list_trips", "").map(|checked| checked.arguments), Ok(json!({})));
    assert!(registry().check("list_trips", "{").is_err());
}

#[test]
fn a_closed_registry_takes_no_property_that_no_schema_names() {
    let parts = json!({
        "type": "object",
        "properties": { "a": { "type": "object", "properties": { "b": {} } }, "free": { "type": "object" } },
        "allOf": [{ "properties": { "c": {} } }],
    });
    let registry = Registry::closed([trip(), Tool::new("parts").parameters(parts)]).expect("compiles");
    let wrong = registry.check("book_trip", r#"{"to":"Oslo","hotel":true}"#).expect_err("closed");
    assert_eq!(wrong.list[0].keyword, "additionalProperties");
    assert!(wrong.to_string().starts_with("takes only \"class\", \"note\","), "{wrong}");
    assert!(registry.check("book_trip", r#"{"to":"Oslo","stops":[{"city":"a","x":1}]}"#).is_err());
    assert!(registry.check("parts", r#"{"a":{"b":1},"c":1,"free":{"any":1}}"#).is_ok());
    for wrong in [r#"{"d":1}"#, r#"{"a":{"x":1}}"#] {
        assert!(registry.check("parts", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_can_only_have_been_meant_in_one_way_is_mended() {
    for (text, meant) in [
        (r#""{\"to\":\"Oslo\"}""#, json!({ "to": "Oslo" })),
        ("```json\n{\"to\":\"Oslo\"}\n```", json!({ "to": "Oslo" })),
        (r#"{"to":"42","seats":"2","refundable":"true"}"#, json!({ "to": "42", "seats": 2, "refundable": true })),
        (r#"{"to":"a","stops":"[{\"city\":\"b\"}]"}"#, json!({ "to": "a", "stops": [{ "city": "b" }] })),
        (r#"{"to":"a","stops":["{\"city\":\"b\"}"]}"#, json!({ "to": "a", "stops": [{ "city": "b" }] })),
        (r#"{"to":"a","promo":"","seats":null,"note":null}"#, json!({ "to": "a", "note": null })),
    ] {
        let mended = registry().mend("book_trip", text).expect(text);
        assert_eq!((mended.arguments, mended.mended), (meant, true), "{text}");
    }
    let as_it_is = registry().mend("book_trip", r#"{"to":"42","note":""}"#).expect("valid");
    assert_eq!((as_it_is.arguments, as_it_is.mended), (json!({ "to": "42", "note": "" }), false));
}

#[test]
fn nothing_is_guessed() {
    for text in [
        r#"{"to":"Osl"#,
        r#"{"to":""}"#,
        r#"{"to":null}"#,
        r#"{"To":"Oslo"}"#,
        r#"{"to":"Oslo","class":"Business"}"#,
        r#"{"to":"Oslo","seats":"two"}"#,
        r#"{"to":"Oslo","seats":"2.5"}"#,
        r#"{"to":"Oslo","seats":"99"}"#,
        "Call it with ```json\n{\"to\":\"Oslo\"}\n```",
        "```json\n{\"to\":\"Oslo\"}\n```\n```json\n{\"to\":\"Rome\"}\n```",
    ] {
        let wrong = registry().check("book_trip", text).expect_err(text);
        assert_eq!(registry().mend("book_trip", text), Err(wrong), "{text}");
    }
    assert!(registry().mend("bookTrip", r#"{"to":"Oslo"}"#).is_err());
}

#[test]
fn a_schema_that_cannot_be_used_is_told_with_its_tool() {
    for schema in [
        json!({ "type": "strin" }),
        json!({ "$ref": "https://schemas.invalid/trip.json" }),
        json!({ "properties": { "a": { "pattern": "(" } } }),
        json!({ "description": "x".repeat(schema::LARGEST) }),
    ] {
        let error = Registry::new([Tool::new("odd").parameters(schema)]).expect_err("cannot be compiled");
        assert_eq!(error.field(), "tools.odd.parameters", "{error}");
    }
    let twice = Registry::new([Tool::new("a"), Tool::new("a")]).expect_err("twice");
    assert_eq!(twice.to_string(), "tools.a: is there twice");
}

#[test]
fn a_recursive_schema_is_followed_as_far_as_the_arguments_go() {
    let tree = json!({
        "$defs": { "node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/node" }, "n": { "type": "integer" } } } },
        "$ref": "#/$defs/node",
    });
    let registry = Registry::new([Tool::new("t").parameters(tree)]).expect("compiles");
    assert!(registry.check("t", r#"{"next":{"next":{"n":1}}}"#).is_ok());
    let wrong = registry.check("t", r#"{"next":{"next":{"n":"x"}}}"#).expect_err("no integer");
    assert_eq!(wrong.list[0].pointer, "/next/next/n");
    assert_eq!(registry.mend("t", r#"{"next":{"next":{"n":"1"}}}"#).map(|it| it.mended), Ok(true));
}

#[cfg(feature = "schemars")]
#[test]
fn a_type_gives_a_schema() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Arguments {
        city: String,
        days: Option<u8>,
    }
    let registry = Registry::new([Tool::new("t").parameters_of::<Arguments>()]).expect("compiles");
    assert!(registry.check("t", r#"{"city":"Oslo","days":255}"#).is_ok());
    assert!(registry.check("t", r#"{"city":"Oslo","days":256}"#).is_err());
    assert!(registry.check("t", r#"{"days":1}"#).is_err());
}

#[test]
fn a_tool_is_read_from_a_configuration() {
    let tool: Tool = toml::from_str(
        r#"
        name = "status"
        effect = "read_only"
        volatile = ["request_id"]
        degraded = "Say that the status is not known."
        pollable = { min_interval = "5s", max_wait = "10m" }
        owners = { security = "sec@example.org" }
        trip_card = { failures = { count = 3 } }
        "#,
    )
    .expect("a tool");
    assert_eq!(tool.pollable, Some(Pollable::new(Duration::from_secs(5), Duration::from_secs(600))));
    assert_eq!((tool.effect, tool.trip_card.map(|card: TripCard| card.failures.count)), (Effect::ReadOnly, Some(3)));
    assert!(toml::from_str::<Tool>("name = 'a'\neffects = 'read_only'").is_err());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from),
        "(true|[0-9]{1,3}|\\{\\}|\\[\\])".prop_map(Value::from),
    ];
    let key = "(to|class|seats|refundable|stops|note|promo|city|x)";
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,64}", name in ".{0,16}") {
        let _ = registry().mend("book_trip", &text);
        let _ = registry().mend(&name, &text);
    }

    #[test]
    fn what_is_mended_is_valid_and_keeps_every_string_that_may_be_one(value in any_json()) {
        if let Ok(mended) = registry().mend("book_trip", &value.to_string()) {
            prop_assert!(registry().check("book_trip", &mended.arguments.to_string()).is_ok());
            if let (Some(to), Value::Object(_)) = (value["to"].as_str(), &value) {
                prop_assert_eq!(mended.arguments["to"].as_str(), Some(to));
            }
        }
    }
}
