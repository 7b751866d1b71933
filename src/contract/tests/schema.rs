//! The schemas say the same for machines.

use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use url::Url;

use crate::contract::Request;

pub(super) static STATUS: LazyLock<Validator> =
    LazyLock::new(|| validator(include_str!("../../../docs/schemas/update-status-1.0.json")));

static REQUEST: LazyLock<Validator> =
    LazyLock::new(|| validator(include_str!("../../../docs/schemas/update-request-1.0.json")));

fn validator(text: &str) -> Validator {
    jsonschema::draft202012::new(&serde_json::from_str(text).unwrap()).unwrap()
}

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

/// What a schema cannot say. There, the parser is the stricter one.
fn is_beyond_a_schema(request: &Value) -> bool {
    let text = |name: &str| request.get(name).and_then(Value::as_str).unwrap_or_default();
    // Lengths are in characters there, in bytes here.
    let wide = |name: &str, most| text(name).len() > most && text(name).chars().count() <= most;
    // A pattern is no URL parser.
    let server = text("server");
    let no_url = Url::parse(server).is_err() || server.chars().any(char::is_control);
    let lines = ["targetVersion", "appId", "track"];
    lines.into_iter().any(|name| wide(name, 256)) || wide("server", 2048) || no_url
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
        let parsed = Request::parse(&request.to_string());
        let valid = REQUEST.is_valid(&request);
        let excused = valid && is_beyond_a_schema(&request);
        prop_assert!(
            parsed.is_ok() == valid || (excused && parsed.is_err()),
            "{request}\nschema: {valid}, parser: {parsed:?}"
        );
    }
}

/// The same table is held against the admission policy, on a real API server.
#[test]
fn the_table_of_requests() {
    for row in trident_lab::tables::requests().unwrap() {
        let parsed = Request::parse(&row.text);
        assert_eq!(parsed.is_ok(), row.parser, "{}: {parsed:?}", row.name);
        if let Some(valid) = row.schema {
            let request = serde_json::from_str(&row.text).ok();
            assert_eq!(request.is_some_and(|it| REQUEST.is_valid(&it)), valid, "{}", row.name);
        }
        // The policy may be stricter than the agent, and lets pass what no expression can see, never more.
        assert!(!row.policy || row.schema == Some(true), "{}", row.name);
    }
}

#[test]
fn what_is_no_object_is_no_request_for_either() {
    for value in [json!(null), json!([]), json!("stage"), json!(1)] {
        assert!(!REQUEST.is_valid(&value));
        assert!(Request::parse(&value.to_string()).is_err());
    }
}

/// The known difference that no value shows: a validator sees one of two.
#[test]
fn a_key_that_stands_there_twice_is_the_parsers_to_refuse() {
    let text = base("rollback").to_string().replacen('{', "{\"operation\":\"rollback\",", 1);
    assert!(REQUEST.is_valid(&serde_json::from_str(&text).unwrap()));
    assert!(Request::parse(&text).is_err());
}
