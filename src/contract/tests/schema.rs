//! The schemas say the same for machines.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use trident_lab::schema::{self, Judgement, REQUEST, STATUS, validator};

use crate::contract::Request;

fn base(operation: &str) -> Value {
    let mut request = json!({
        "schemaVersion": "1.0",
        "nodeUpdateId": "550e8400-e29b-41d4-a716-446655440000",
        "operationId": "C9D6F0A2-3B41-4e8d-9f27-1a5b6c7d8e90",
        "operation": operation,
    });
    if operation != "rollback" {
        request["targetVersion"] = json!("202606.29.0");
        request["server"] = json!("https://nebraska.example.com/v1/update");
        request["appId"] = json!("11111111-2222-3333-4444-555555555555");
        request["track"] = json!("stable");
    }
    request
}

const FIELDS: [&str; 10] = [
    "schemaVersion",
    "nodeUpdateId",
    "operationId",
    "operation",
    "targetVersion",
    "server",
    "appId",
    "track",
    "Operation",
    "force",
];

#[derive(Debug, Clone)]
enum Change {
    Remove(&'static str),
    Set(&'static str, Value),
}

/// Telling values of any field but a URL.
#[rustfmt::skip]
const TEXTS: [&str; 23] = [
    "", " ", "1.0", "1", "stage", "finalize", "rollback", "commit", "Stage", "\u{a0}", "a\u{a0}b", " a ",
    "a\tb", "\u{7f}", "a\u{9f}", "\u{85}", "\u{2028}", "\u{feff}", "00000000-0000-0000-0000-000000000000",
    "550e8400e29b41d4a716446655440000", "{550e8400-e29b-41d4-a716-446655440000}",
    "550e8400-e29b-41d4-a716-44665544000g", "urn:uuid:550e8400-e29b-41d4-a716-446655440000",
];

/// Telling values of `server`.
#[rustfmt::skip]
const URLS: [&str; 30] = [
    "https://x", "HTTPS://X/y?z#w", "https://u:p@x", "https://", "https:x", "https:/x", "https:///x",
    "https:\\\\x", "https://?x", "https://#x", " https://x", "https://x ", "https://x\n", "ht\ntps://x",
    "http://x", "file:///x", "x", "https://[::1]:443/", "https://[::1", "https://x:99999", "https://x:port",
    "https://a b", "https://%", "https://ä.example", "https:// x", "https://\u{1}x", "https://x/\u{1}",
    "https://@", "https://:443", "https://a@/b",
];

/// Values that are right somewhere, nearly right, or nothing of the kind.
fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => select([&TEXTS[..], &URLS[..]].concat()).prop_map(Value::from),
        2 => (select(vec!["a", "ä", "https://x/"]), 200..2100_usize)
            .prop_map(|(text, n)| json!(text.repeat(n / text.len() + 1))),
        1 => (250..260_usize).prop_map(|n| json!("x".repeat(n))),
        1 => (2040..2056_usize).prop_map(|n| json!(format!("https://x/{}", "y".repeat(n - 10)))),
        2 => "\\PC{0,20}".prop_map(Value::from),
        2 => "https://\\PC{0,20}".prop_map(Value::from),
        1 => select(vec![json!(null), json!(1.0), json!(true), json!([]), json!({}), json!(["stage"])]),
    ]
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        1 => select(FIELDS.to_vec()).prop_map(Change::Remove),
        3 => (select(FIELDS.to_vec()), values()).prop_map(|(name, value)| Change::Set(name, value)),
    ];
    prop::collection::vec(change, 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn schema_and_parser_agree(
        operation in select(vec!["stage", "finalize", "rollback"]),
        changes in changes(),
    ) {
        let mut request = base(operation);
        for change in changes {
            match change {
                Change::Remove(name) => drop(request.as_object_mut().unwrap().remove(name)),
                Change::Set(name, value) => request[name] = value,
            }
        }
        let text = request.to_string();
        let (parsed, judgement) = (Request::parse(&text), schema::judge(&text));
        prop_assert!(parsed.is_ok() == (judgement == Judgement::Valid), "{text}\n{judgement:?} {parsed:?}");
    }
}

/// Whoever reads them knows where they are from and how one looks.
#[test]
fn the_schemas_keep_their_own_schema_and_explain_themselves() {
    for name in [REQUEST, STATUS] {
        let schema = schema::schema(name);
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let id = schema["$id"].as_str().unwrap();
        let of = name.trim_end_matches("-1.0.json");
        assert_eq!(id, format!("urn:trident-acl-agent:{of}:1.0"));
        assert!(schema["title"].is_string() && schema["description"].is_string(), "{name}");
        let examples = schema["examples"].as_array().unwrap();
        assert!(examples.len() >= 2, "{name}");
        let validator = validator(&schema);
        for example in examples {
            assert!(validator.is_valid(example), "{name}: {example}");
        }
        let properties = schema["properties"].as_object().unwrap();
        let shown = |field: &str| examples.iter().any(|example| example.get(field).is_some());
        for (field, property) in properties {
            assert!(property["description"].is_string(), "{name}: {field} has no description");
            assert!(shown(field), "{name}: {field} is in no example");
        }
        assert_eq!(schema["additionalProperties"], false, "{name}");
    }
}

/// The same table is held against the admission policy, on a real API server.
#[test]
fn the_table_of_requests() {
    for row in trident_lab::tables::requests().unwrap() {
        let parsed = Request::parse(&row.text);
        assert_eq!(parsed.is_ok(), row.parser, "{}: {parsed:?}", row.name);
        let judged = schema::judge(&row.text);
        assert_eq!(judged != Judgement::Invalid, row.schema, "{}", row.name);
        assert_eq!(judged == Judgement::Valid, row.parser, "{}", row.name);
        // The policy may be stricter than the agent, never more lenient than the schema.
        assert!(row.schema || !row.policy, "{}", row.name);
    }
}

#[test]
fn the_examples_are_read_by_the_program() {
    for example in schema::schema(REQUEST)["examples"].as_array().unwrap() {
        assert!(Request::parse(&example.to_string()).is_ok(), "{example}");
    }
    for example in schema::schema(STATUS)["examples"].as_array().unwrap() {
        let status = crate::contract::Status::from_json(&example.to_string()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&status.to_json()).unwrap(), *example);
    }
}

/// The least that a schema for statuses must refuse.
#[test]
fn what_no_status_may_be_is_refused() {
    let good = schema::schema(STATUS)["examples"][0].clone();
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut status = good.clone();
        change(&mut status);
        schema::check_status(&status).is_err()
    };
    assert!(!refused(&|_| ()));
    let names: Vec<_> = good.as_object().unwrap().keys().cloned().collect();
    for name in names {
        assert!(refused(&|it| it[&name] = json!(null)), "{name} is null");
        assert!(refused(&|it| it[&name] = json!(1)), "{name} is a number");
    }
    assert!(refused(&|it| it["extra"] = json!("x")));
    assert!(refused(&|it| it["code"] = json!("Paused")));
    assert!(refused(&|it| it["operation"] = json!("reboot")));
    assert!(refused(&|it| it["startedUtc"] = json!("2026-06-29T12:00:00+02:00")));
    assert!(refused(&|it| it["startedUtc"] = json!("2026-06-29 12:00:00Z")));
    assert!(refused(&|it| it["message"] = json!("x".repeat(2049))));
    assert!(refused(&|it| it["message"] = json!("\u{20ac}".repeat(1000))));
    assert!(refused(&|it| it["code"] = json!("InProgress")), "finished in progress");
    assert!(refused(&|it| drop(it.as_object_mut().unwrap().remove("finishedUtc"))));
    let error = json!({ "kind": "k", "subkind": "s" });
    assert!(refused(&|it| it["tridentError"] = error.clone()), "an error of a success");
    assert!(refused(&|it| it["operation"] = json!("rollback")), "a rollback with a target");
}
