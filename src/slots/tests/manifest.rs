use serde_json::{Value, json};

use super::super::{Manifest, Mode, Slot, chain};
use super::entry;

fn parse(value: &Value) -> Result<Manifest, String> {
    parse_text(&value.to_string())
}

fn parse_text(text: &str) -> Result<Manifest, String> {
    Manifest::parse(text.as_bytes(), Slot::A).map_err(|problem| chain(&problem))
}

fn good() -> Value {
    let mut first = entry("sysext", "tools", "");
    first["source"] = json!({
        "kind": "oci", "hash": format!("sha256:{}", "a".repeat(64)), "location": "registry.example/t:1",
    });
    first["release"] = json!({ "ID": "_any", "SYSEXT_ID": "id.tools" });
    let extensions = [first, entry("sysext", "more", ""), entry("confext", "tools", "")];
    json!({
        "schemaVersion": "1.0", "slot": "a", "mode": "managed", "osVersion": "4.0.1",
        "extensions": extensions,
    })
}

#[test]
fn a_whole_one_is_understood_and_written_as_it_was() {
    let mut good = good();
    let parsed = parse(&good).unwrap();
    assert_eq!(parsed.extensions.len(), 3);
    assert!(parsed.extensions[0].required);
    assert_eq!(parsed.extensions[0].release.get("ID"), Some("_any"));
    let written = serde_json::to_value(&parsed).unwrap();
    for extension in good["extensions"].as_array_mut().unwrap() {
        extension["required"] = json!(true);
        if extension.get("release").is_none() {
            extension["release"] = json!({});
        }
    }
    assert_eq!(written, good);
}

#[test]
fn acl_is_managed() {
    let mut value = good();
    value["mode"] = json!("acl");
    let parsed = parse(&value).unwrap();
    assert_eq!(parsed.mode, Mode::Managed);
    assert_eq!(Some(parsed), parse(&good()).ok());
}

/// One change to a whole one, and a word of the refusal.
#[test]
fn what_is_hostile_or_odd_is_refused() {
    let set = |path: &str, new: Value| {
        let mut value = good();
        *value.pointer_mut(path).unwrap() = new;
        value
    };
    let add = |path: &str, name: &str, new: Value| {
        let mut value = good();
        value.pointer_mut(path).unwrap()[name] = new;
        value
    };
    let hash = "0".repeat(96);
    let long = "n".repeat(201);
    let cases = [
        ("a later version", set("/schemaVersion", json!("1.1")), "newer stager"),
        ("a number as version", set("/schemaVersion", json!(1.0)), "no manifest"),
        ("another slot's", set("/slot", json!("b")), "slot b"),
        ("no slot", set("/slot", json!("c")), "no manifest"),
        ("upper case", set("/slot", json!("A")), "no manifest"),
        ("an unknown mode", set("/mode", json!("both")), "unknown variant"),
        ("a shared set", set("/mode", json!("shared")), "mode shared"),
        ("an unknown field", add("", "extra", json!(1)), "unknown field"),
        ("an unknown field inside", add("/extensions/1", "path", json!("/x")), "unknown field"),
        (
            "an unknown field of a source",
            add("/extensions/0/source", "url", json!("x")),
            "unknown field",
        ),
        ("an unknown source", set("/extensions/0/source/kind", json!("http")), "unknown variant"),
        ("a null for a source", set("/extensions/0/source", json!(null)), "no manifest"),
        (
            "a short hash of a source",
            set("/extensions/0/source/hash", json!("sha256:aa")),
            "not a hash",
        ),
        ("upper-case digits", set("/extensions/0/sha384", json!("A".repeat(96))), "SHA-384"),
        ("a short hash", set("/extensions/0/sha384", json!("0".repeat(95))), "SHA-384"),
        (
            "a NUL in the hash",
            set("/extensions/0/sha384", json!(format!("{}\0", &hash[1..]))),
            "SHA-384",
        ),
        ("a size below zero", set("/extensions/0/size", json!(-1)), "no manifest"),
        ("a size with a point", set("/extensions/0/size", json!(1.5)), "no manifest"),
        ("a size as text", set("/extensions/0/size", json!("1")), "no manifest"),
        ("a size too large", set("/extensions/0/size", json!(1e30)), "no manifest"),
        ("up and out", set("/extensions/0/file", json!("../b/sysexts/x.raw")), "inside the slot"),
        ("up within", set("/extensions/0/file", json!("sysexts/../x.raw")), "inside the slot"),
        ("here", set("/extensions/0/file", json!("./x.raw")), "inside the slot"),
        ("absolute", set("/extensions/0/file", json!("/etc/shadow")), "inside the slot"),
        ("empty", set("/extensions/0/file", json!("")), "inside the slot"),
        ("a slash at the end", set("/extensions/0/file", json!("sysexts/")), "inside the slot"),
        ("two slashes", set("/extensions/0/file", json!("sysexts//x.raw")), "inside the slot"),
        ("a NUL", set("/extensions/0/file", json!("sysexts/x\0.raw")), "inside the slot"),
        ("too deep", set("/extensions/0/file", json!("a/b/c/d/e")), "inside the slot"),
        ("hidden", set("/extensions/0/file", json!("sysexts/.x.raw")), "inside the slot"),
        ("a name that goes up", set("/extensions/0/name", json!("..")), "not a name"),
        ("a name with a slash", set("/extensions/0/name", json!("a/b")), "not a name"),
        ("a name with a NUL", set("/extensions/0/name", json!("a\0b")), "not a name"),
        ("a name with a line", set("/extensions/0/name", json!("a\nb")), "not a name"),
        ("a name of other letters", set("/extensions/0/name", json!("ä")), "not a name"),
        ("an empty name", set("/extensions/0/name", json!("")), "not a name"),
        ("a hidden name", set("/extensions/0/name", json!(".a")), "not a name"),
        ("a long name", set("/extensions/0/name", json!(long)), "not a name"),
        ("an id that goes up", set("/extensions/0/id", json!("..")), "not a name"),
        (
            "an id twice",
            set("/extensions/1/id", json!("id.tools")),
            "id id.tools stands there twice",
        ),
        (
            "a name twice",
            set("/extensions/1/name", json!("tools")),
            "name tools stands there twice",
        ),
        (
            "a file twice",
            set("/extensions/2/file", json!("sysexts/tools.raw")),
            "file sysexts/tools.raw",
        ),
        ("a field of lower case", add("/extensions/0/release", "Id", json!("x")), "upper-case"),
        ("a field with a line", add("/extensions/0/release", "X", json!("a\nb")), "control"),
        ("a field that is a number", add("/extensions/0/release", "X", json!(1)), "no manifest"),
        ("an empty version of the OS", set("/osVersion", json!("")), "empty"),
        ("a version of the OS with a line", set("/osVersion", json!("1\n2")), "controls"),
        ("no list", set("/extensions", json!({})), "no manifest"),
        ("nothing", json!(null), "no manifest"),
        ("a list", json!([]), "no manifest"),
    ];
    for (case, value, word) in cases {
        let refused = parse(&value).expect_err(case);
        assert!(refused.contains(word), "{case}: {refused}");
        assert!(!refused.contains('\0') && !refused.contains('\n'), "{case}: {refused}");
    }
}

#[test]
fn a_key_that_stands_there_twice_is_refused_everywhere() {
    let text = good().to_string();
    for key in ["schemaVersion", "slot", "mode", "kind", "file", "sha384", "ID", "hash"] {
        let at = text.find(&format!("\"{key}\":\"")).expect(key);
        let value = at + key.len() + 4;
        let end = value + text[value..].find('"').unwrap() + 1;
        let doubled = format!("{},{}", &text[..end], &text[at..]);
        let refused = parse_text(&doubled).expect_err(key);
        assert!(refused.contains("duplicate") || refused.contains("twice"), "{key}: {refused}");
    }
}

#[test]
fn ten_thousand_entries_are_refused_at_once() {
    let many: Vec<_> = (0..10_000).map(|n| entry("sysext", &format!("n{n}"), "")).collect();
    let mut value = good();
    value["extensions"] = json!(many);
    let refused = parse(&value).unwrap_err();
    assert!(refused.contains("10000 extensions, at most 256"), "{refused}");
    value["extensions"] = json!(many[..256]);
    assert!(value.to_string().len() < 1024 * 1024 / 2);
    parse(&value).unwrap();
}

#[test]
fn the_same_id_in_another_kind_is_another_extension() {
    let mut value = good();
    value["extensions"][2]["id"] = json!("id.tools");
    parse(&value).unwrap();
}

#[test]
fn half_a_file_and_noise_are_refused() {
    let text = good().to_string();
    for end in 0..text.len() {
        assert!(parse_text(&text[..end]).is_err(), "{end}");
    }
    for text in ["", "\0\0\0\0", "null", "{}", "{\"schemaVersion\":\"1.0\"}"] {
        assert!(parse_text(text).is_err(), "{text:?}");
    }
    let deep = "[".repeat(100_000);
    assert!(parse_text(&deep).is_err());
}
