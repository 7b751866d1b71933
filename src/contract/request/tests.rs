mod rules;

use proptest::prelude::*;
use serde_json::{Value, json};
use trident_lab::schema::{self, Judgement};

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

/// What the parser says, held to the schema: accepted by both, or refused by both, but for what a schema
/// cannot say.
fn problem(text: &str) -> Option<Problem> {
    let problem = Request::parse(text).err().map(|broken| broken.problem);
    let judgement = schema::judge(text);
    assert_eq!(
        problem.is_none(),
        judgement == Judgement::Valid,
        "{judgement:?} {problem:?}: {text:.300}"
    );
    problem
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

/// Unusual, and right by every rule: nothing of them is interpreted.
#[test]
fn what_keeps_every_rule_is_accepted_as_it_is() {
    let texts = [
        "$(reboot) `id` ${HOME} $$",
        "%i %n %% %H",
        "\\x2d \\n \\",
        "'\"<>&;|",
        "../../etc/passwd",
        "\u{202e}txt",
        " 1 ",
        "\u{a0}1",
        "\u{1f600}",
        "--help",
        "null",
        "0.0.0",
        &"x".repeat(256),
        &"\u{1f600}".repeat(64),
    ];
    for name in ["targetVersion", "appId", "track"] {
        for text in texts {
            let asked = with(stage(), name, json!(text));
            assert_eq!(problem(&asked), None, "{asked}");
            let request = Request::parse(&asked).unwrap();
            let update = request.work.update().unwrap();
            let read = [&update.target_version, &update.app_id, &update.track];
            assert!(read.contains(&&text.to_owned()), "{asked}");
        }
    }
    let others = [
        with(stage(), "server", json!("https://u:p@[::1]:8443/v1/update?x=y#z")),
        with(stage(), "server", json!("HTTPS://nebraska.example.com")),
        with(stage(), "operationId", json!("C9D6F0A2-3B41-4E8D-9F27-1A5B6C7D8E90")),
        with(stage(), "nodeUpdateId", json!(Id::nil().to_string())),
        with(rollback(), "server", json!("https://x")),
        with(rollback(), "track", json!("t")),
        format!(" \n\t{}\r\n", rollback()),
        rollback().to_string().replace("operation\"", "\\u006fperation\""),
    ];
    for text in others {
        assert_eq!(problem(&text), None, "{text}");
    }
}

/// What is no object at all: nothing of it can be read.
#[test]
fn what_is_no_object_names_nothing() {
    let junk = "\u{fffd}{\"operationId\":".repeat(256 * 1024 / 20);
    let whole = stage().to_string();
    #[rustfmt::skip]
    let texts = [
        "", " ", "null", "true", "1", "-0.0e9", "\"stage\"", "[]", "[{}]", "{", "{]", "{}{}", "{},", "nul",
        "{\"operation\":\"stage\"", "{'operation':'stage'}", "{operation:1}", "// x\n{}", "\u{feff}{}",
        "{\"a\":NaN}", "{\"\\udc00\":1}",
        "{\"a\":\"\n\"}", "{\"a\":\"\\u00\"}", "\0", &whole[1..], &whole[..whole.len() - 1],
        &(whole.clone() + "x"), &junk, &"[".repeat(10_000), &"{\"a\":".repeat(10_000), &"9".repeat(300_000),
    ];
    for text in texts {
        let broken = Request::parse(text).unwrap_err();
        assert!(
            matches!(broken.problem, Problem::NotAnObject(_)),
            "{text:.80}: {:?}",
            broken.problem
        );
        assert_eq!((&broken.node_update_id, &broken.operation_id), (&Id::nil(), &Id::nil()));
        assert_eq!(broken.operation, Operation::Stage);
        assert_eq!(problem(text), Some(broken.problem.clone()));
        let said = broken.problem.to_string();
        assert!(said.len() < 100 && said.contains("line "), "{said}");
    }
}

/// However large or deep a value is, the rest is read.
#[test]
fn junk_in_a_field_hides_no_other() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let objects = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let wide = format!("[{}1]", "1,".repeat(128 * 1024));
    let long = format!("\"{}\"", "x".repeat(256 * 1024));
    let digits = "9".repeat(100_000);
    let others = ["1e999", "-1e999", r#""\ud800""#, r#""\udc00\ud800""#, r#"["\ud800"]"#, &digits];
    for junk in others.map(str::to_owned).into_iter().chain([deep, objects, wide, long]) {
        let text = stage().to_string().replacen('{', &format!("{{\"junk\":{junk},"), 1);
        let broken = Request::parse(&text).unwrap_err();
        assert_eq!(broken.problem, Problem::Unknown("`junk`".into()));
        assert_eq!(broken.operation_id.to_string(), "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90");
        let text = stage().to_string().replace("\"202606.29.0\"", &junk);
        let broken = Request::parse(&text).unwrap_err();
        assert_eq!(broken.node_update_id.to_string(), "550e8400-e29b-41d4-a716-446655440000");
    }
}

#[test]
fn of_a_broken_request_what_can_be_read_is_used() {
    const NODE: &str = "550e8400-e29b-41d4-a716-446655440000";
    const STEP: &str = "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90";
    const NIL: &str = "00000000-0000-0000-0000-000000000000";
    let broken = || serde_json::from_str::<Value>(&with(rollback(), "typo", json!(1))).unwrap();
    let twice = |field: &str| broken().to_string().replacen('{', &format!("{{{field},"), 1);
    let upper = STEP.to_uppercase();
    let cases = [
        (broken().to_string(), (NODE, STEP, Operation::Rollback)),
        (without(broken(), "schemaVersion"), (NODE, STEP, Operation::Rollback)),
        (without(broken(), "nodeUpdateId"), (NIL, STEP, Operation::Rollback)),
        (without(broken(), "operationId"), (NODE, NIL, Operation::Rollback)),
        (without(broken(), "operation"), (NODE, STEP, Operation::Stage)),
        (with(broken(), "operation", json!("reboot")), (NODE, STEP, Operation::Stage)),
        (with(broken(), "operation", json!(1)), (NODE, STEP, Operation::Stage)),
        (with(broken(), "operation", json!("finalize")), (NODE, STEP, Operation::Finalize)),
        (with(broken(), "operationId", json!([STEP])), (NODE, NIL, Operation::Rollback)),
        (with(broken(), "operationId", json!("../x")), (NODE, NIL, Operation::Rollback)),
        (with(broken(), "nodeUpdateId", json!(null)), (NIL, STEP, Operation::Rollback)),
        (with(broken(), "operationId", json!(upper)), (NODE, &upper, Operation::Rollback)),
        (twice(r#""operationId":"x""#), (NODE, NIL, Operation::Rollback)),
        (twice(r#""operation":"stage""#), (NODE, STEP, Operation::Stage)),
        ("{}".to_owned(), (NIL, NIL, Operation::Stage)),
    ];
    for (text, (node, step, operation)) in cases {
        let broken = Request::parse(&text).unwrap_err();
        let read = (broken.node_update_id.to_string(), broken.operation_id.to_string());
        assert_eq!(read, (node.to_owned(), step.to_owned()), "{text}");
        assert_eq!(broken.operation, operation, "{text}");
    }
}

#[test]
fn credentials_and_queries_are_not_repeated() {
    let urls = [
        "http://user:secret@host/p?token=secret#secret",
        "https://user:secret@",
        "https://user:secret@host:99999/?secret",
        "https://host/secret?secret\n",
        "secret",
    ];
    for url in urls {
        for name in ["server", "operationId", "operation", "schemaVersion", url] {
            let text = with(stage(), name, json!(url));
            let said = Request::parse(&text).unwrap_err().problem.to_string();
            let word = said.contains("unknown field `secret`");
            assert!(word || !said.contains("secret"), "{text}: {said}");
        }
    }
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
