use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::contract::Problem;

fn stage() -> Value {
    json!({
        "schemaVersion": "1.0",
        "nodeUpdateId": "550e8400-e29b-41d4-a716-446655440000",
        "operationId": "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90",
        "operation": "stage",
        "targetVersion": "202606.29.0",
        "server": "https://nebraska.example.com/v1/update",
        "appId": "11111111-2222-3333-4444-555555555555",
        "track": "pin-202606.29.0",
    })
}

fn rollback() -> Value {
    json!({
        "schemaVersion": "1.0",
        "nodeUpdateId": "550e8400-e29b-41d4-a716-446655440000",
        "operationId": "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90",
        "operation": "rollback",
    })
}

fn with(mut base: Value, name: &str, value: Value) -> String {
    base[name] = value;
    base.to_string()
}

fn without(mut base: Value, name: &str) -> String {
    base.as_object_mut().unwrap().remove(name);
    base.to_string()
}

fn problem(text: &str) -> Problem {
    Request::parse(text).unwrap_err().problem
}

#[test]
fn good_requests_survive_the_state_file() {
    for text in
        [stage().to_string(), with(stage(), "operation", json!("finalize")), rollback().to_string()]
    {
        let request = Request::parse(&text).unwrap();
        let stored = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&stored).unwrap(), request);
    }
}

#[test]
fn each_rule_broken_in_turn_names_its_field() {
    let cases = [
        (with(stage(), "schemaVersion", json!("1.1")), Problem::SchemaVersion),
        (with(stage(), "schemaVersion", json!(1.0)), Problem::NotAString("schemaVersion")),
        (without(stage(), "nodeUpdateId"), Problem::Missing("nodeUpdateId")),
        (
            with(stage(), "operationId", json!("c9d6f0a23b414e8d9f271a5b6c7d8e90")),
            Problem::NotAUuid("operationId"),
        ),
        (with(stage(), "operationId", json!("../../etc/passwd")), Problem::NotAUuid("operationId")),
        (with(stage(), "operation", json!("commit")), Problem::Operation),
        (with(stage(), "targetVersion", json!("")), Problem::Empty("targetVersion")),
        (with(stage(), "targetVersion", json!(null)), Problem::NotAString("targetVersion")),
        (with(stage(), "targetVersion", json!("1\n2")), Problem::Control("targetVersion")),
        (without(stage(), "server"), Problem::Missing("server")),
        (with(stage(), "server", json!("http://nebraska.example.com/")), Problem::Server),
        (with(stage(), "server", json!("https://")), Problem::Server),
        (with(stage(), "server", json!("file:///etc/passwd")), Problem::Server),
        (without(stage(), "appId"), Problem::Missing("appId")),
        (with(stage(), "track", json!(" ")), Problem::Empty("track")),
        (with(stage(), "track", json!("x".repeat(257))), Problem::TooLong("track", 256)),
        (with(stage(), "force", json!(true)), Problem::Unknown("force".into())),
        (with(rollback(), "targetVersion", json!("1")), Problem::RollbackTarget),
        (with(rollback(), "server", json!("http://x")), Problem::Server),
    ];
    for (text, expected) in cases {
        assert_eq!(problem(&text), expected, "{text}");
    }
}

#[test]
fn a_key_twice_is_refused_and_its_id_is_not_guessed() {
    let text = rollback().to_string().replacen(
        '{',
        "{\"operationId\":\"00000000-0000-0000-0000-000000000001\",",
        1,
    );
    let broken = Request::parse(&text).unwrap_err();
    assert_eq!(broken.problem, Problem::Twice("operationId"));
    assert_eq!(broken.operation_id, Id::nil());
    assert_eq!(broken.operation, Operation::Rollback);
}

#[test]
fn what_can_be_read_of_a_broken_request_is_kept() {
    let broken = Request::parse(&without(stage(), "server")).unwrap_err();
    assert_eq!(broken.operation_id.to_string(), "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90");
    let nothing = Request::parse("[]").unwrap_err();
    assert_eq!((nothing.operation_id, nothing.operation), (Id::nil(), Operation::Stage));
}

#[test]
fn credentials_are_not_repeated() {
    for server in ["http://user:secret@host/p?token=secret", "https://user:secret@"] {
        let broken = Request::parse(&with(stage(), "server", json!(server))).unwrap_err();
        assert!(!broken.problem.to_string().contains("secret"));
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(matches!(problem(&deep), Problem::NotAnObject(_)));
}

#[test]
fn ids_compare_by_value_and_print_as_given() {
    let upper = Id::parse("C9D6F0A2-3B41-4E8D-9F27-1A5B6C7D8E90").unwrap();
    let lower = Id::parse("c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90").unwrap();
    assert_eq!(upper, lower);
    assert_ne!(upper.to_string(), lower.to_string());
    assert_eq!(upper.canonical(), lower.canonical());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = Request::parse(&text);
    }

    #[test]
    fn no_object_panics(name in "[a-zA-Z]{1,14}", value in "\\PC{0,40}") {
        let _ = Request::parse(&with(stage(), &name, json!(value)));
    }
}

#[test]
fn a_server_that_grows_when_it_is_escaped_is_too_long() {
    let server = format!("https://h/{}", "\u{e9}".repeat(1000));
    assert!(server.len() < 2048);
    let text = with(stage(), "server", json!(server));
    assert_eq!(problem(&text), Problem::TooLong("server", 2048));
}

proptest! {
    /// One that cannot be read again would cost the whole state.
    #[test]
    fn whatever_is_accepted_survives_the_state_file(
        server in "https://[ -~\u{e9}\u{20ac}]{1,40}(/\\PC{0,700})?",
        text in "\\PC{0,300}",
    ) {
        let asked = with(stage(), "server", json!(server));
        let asked = with(serde_json::from_str(&asked).unwrap(), "track", json!(text));
        if let Ok(request) = Request::parse(&asked) {
            let stored = serde_json::to_string(&request).unwrap();
            prop_assert_eq!(serde_json::from_str::<Request>(&stored).unwrap(), request);
        }
    }
}
