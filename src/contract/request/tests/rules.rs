//! Each rule of the request table in `docs/contract.md`, broken in turn, in the parser and in the schema.

use serde_json::{Value, json};

use super::{problem, rollback, stage, with, without};
use crate::contract::request::parse::KNOWN;
use crate::contract::{Problem, Request};

const LINES: [&str; 3] = ["targetVersion", "appId", "track"];
const IDS: [&str; 2] = ["nodeUpdateId", "operationId"];

#[rustfmt::skip]
const BLANK: [&str; 7] = ["", " ", "\t", "\u{a0}", "\u{feff}", "\u{2003} ", "\u{2028}"];

#[rustfmt::skip]
const MORE_THAN_A_LINE: [&str; 10] = [
    "1\n2", "1\n", "\r1", "1\u{0}", "\u{1b}[31m1", "1\u{7f}", "1\u{9b}31m", "1\u{85}2", "1\u{2028}2", "1\u{2029}",
];

#[rustfmt::skip]
const NO_UUIDS: [&str; 20] = [
    "", "1", "c9d6f0a23b414e8d9f271a5b6c7d8e90", "{c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90}",
    "urn:uuid:c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90", "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e9",
    "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e900", "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e9g",
    " c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90", "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90\n",
    "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90.service", "../../etc/passwd", "/etc/passwd", "ssh.service", "*",
    "%i", "\\x2d", "$(reboot)", "--help", "\u{0}",
];

#[rustfmt::skip]
const NO_SERVERS: [&str; 29] = [
    "", "http://nebraska.example.com/", "HTTP://x", "file:///etc/passwd", "oci://x", "//x", "x", "https",
    "https:", "https:x", "https:/x", "https://", "https:///x", "https://?x", "https://#x", "https://@",
    "https://u:p@", "https://u:p@/x", "https://:443", "https://x:99999", "https://[::1", "https://a b",
    " https://x", "https://x\n", "ht\ntps://x", "https://x/\u{0}", "javascript:x", "https:\\\\x", "https://%",
];

/// It is refused with this, by the schema too, and says so in a few words that name the field.
fn assert_refused(text: &str, expected: &Problem) {
    assert_eq!(problem(text).as_ref(), Some(expected), "{text:.300}");
    let said = expected.to_string();
    let named = KNOWN.iter().any(|name| said.contains(&format!("`{name}`")));
    let named = named || matches!(expected, Problem::Unknown(_));
    assert!(named && said.len() < 300 && !said.chars().any(char::is_control), "{said}");
}

fn set(name: &str, value: impl Into<Value>) -> String {
    with(stage(), name, value.into())
}

#[test]
fn every_field_is_there_once_and_a_string() {
    for name in KNOWN {
        assert_refused(&without(stage(), name), &Problem::Missing(name));
        for other in [json!(null), json!(1.0), json!(true), json!([]), json!(["x"]), json!({})] {
            assert_refused(&set(name, other), &Problem::NotAString(name));
        }
        for first in [json!("x"), stage()[name].clone(), json!(null)] {
            let twice = stage().to_string().replacen('{', &format!("{{\"{name}\":{first},"), 1);
            assert_refused(&twice, &Problem::Twice(name));
        }
    }
}

#[test]
fn each_field_is_unicode_text() {
    for name in KNOWN {
        for half in [r"\ud800", r"x\udc00y", r"\ud83d\ud83d"] {
            let text = set(name, "HALF").replace("HALF", half);
            assert_eq!(
                Request::parse(&text).unwrap_err().problem,
                Problem::NotText(name),
                "{text}"
            );
        }
    }
}

#[test]
fn no_other_field_is_there() {
    let long = "x".repeat(65);
    let unknown = |shown: &str| Problem::Unknown(shown.to_owned());
    for name in ["force", "Track", "target_version", "a-b", &long[..64]] {
        assert_refused(&set(name, true), &unknown(&format!("`{name}`")));
    }
    // What may be anything is not repeated.
    for name in ["", &long, "https://u:p@h/?q", "\u{1b}[31m\n", "a b", "\u{e4}", "\u{0}"] {
        assert_refused(&set(name, "x"), &unknown("(no word)"));
    }
}

#[test]
fn version_and_operation_are_words() {
    for version in ["1.1", "1", "", "1.0 ", "1.00", "2.0"] {
        assert_refused(&set("schemaVersion", version), &Problem::SchemaVersion);
    }
    for operation in ["commit", "Stage", "stage ", "", "reboot", "stage\n"] {
        assert_refused(&set("operation", operation), &Problem::Operation);
    }
}

#[test]
fn ids_are_uuids() {
    for name in IDS {
        for id in NO_UUIDS {
            assert_refused(&set(name, id), &Problem::NotAUuid(name));
        }
    }
}

#[test]
fn the_version_the_application_and_the_track_are_lines() {
    for name in LINES {
        for blank in BLANK {
            assert_refused(&set(name, blank), &Problem::Empty(name));
        }
        for text in MORE_THAN_A_LINE {
            assert_refused(&set(name, text), &Problem::Control(name));
        }
        for long in ["x".repeat(257), "\u{e4}".repeat(129), "\u{1f600}".repeat(65)] {
            assert_refused(&set(name, long), &Problem::TooLong(name, 256));
        }
    }
}

#[test]
fn the_server_is_an_https_url_with_a_host() {
    for server in NO_SERVERS {
        assert_refused(&set("server", server), &Problem::Server);
    }
    for long in ["x".repeat(2048), "\u{e9}".repeat(1000), "\u{1f600}".repeat(600)] {
        let server = format!("https://h/{long}");
        assert_refused(&set("server", server), &Problem::TooLong("server", 2048));
    }
}

#[test]
fn a_rollback_names_no_version_and_nothing_wrong() {
    for version in [json!("1"), json!(""), json!(null), json!({})] {
        assert_refused(&with(rollback(), "targetVersion", version), &Problem::RollbackTarget);
    }
    for (name, value, expected) in [
        ("server", json!("http://x"), Problem::Server),
        ("server", json!(null), Problem::NotAString("server")),
        ("appId", json!(" "), Problem::Empty("appId")),
        ("track", json!("a\tb"), Problem::Control("track")),
    ] {
        assert_refused(&with(rollback(), name, value), &expected);
    }
}
