//! The schema says the same for machines.

use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::{Manifest, Slot};
use super::entry;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let text = include_str!("../../../docs/schemas/slot-manifest-1.0.json");
    jsonschema::draft202012::new(&serde_json::from_str(text).unwrap()).unwrap()
});

fn base() -> Value {
    let mut first = entry("sysext", "tools", "");
    first["source"] = json!({ "kind": "url", "hash": format!("sha384:{}", "0".repeat(96)) });
    first["release"] = json!({ "ID": "_any" });
    let extensions = [first, entry("confext", "more", "")];
    json!({ "schemaVersion": "1.0", "slot": "a", "mode": "managed", "extensions": extensions })
}

const PLACES: [(&str, &[&str]); 4] = [
    ("", &["schemaVersion", "slot", "mode", "osVersion", "extensions", "extra"]),
    (
        "/extensions/0",
        &["kind", "id", "name", "file", "size", "sha384", "required", "source", "release", "extra"],
    ),
    ("/extensions/0/source", &["kind", "hash", "location", "extra"]),
    ("/extensions/0/release", &["ID", "id", "X_1", "", "Ä"]),
];

/// Right somewhere, nearly right, or nothing of the kind.
fn values() -> impl Strategy<Value = Value> {
    let texts = [
        "",
        "a",
        "b",
        "1.0",
        "2.0",
        "managed",
        "acl",
        "shared",
        "sysext",
        "confext",
        "cosi",
        "oci",
        "x.raw",
        "sysexts/x.raw",
        "a/b/c/d",
        "a/b/c/d/e",
        "../x",
        "/x",
        "x/",
        "x//y",
        ".x",
        "..",
        "x\u{0}",
        "x\n",
        "x y",
        "ä",
        "_any",
        "\u{85}",
        "+~@:-_.9",
    ];
    prop_oneof![
        6 => select(texts.to_vec()).prop_map(Value::from),
        2 => (select(vec!["a", "0"]), 198..258_usize).prop_map(|(text, n)| json!(text.repeat(n))),
        1 => select(vec![64, 65, 95, 96, 97]).prop_map(|n| json!("f".repeat(n))),
        1 => select(vec![("sha256:", 64), ("sha384:", 96), ("sha256:", 96), ("md5:", 32)])
            .prop_map(|(name, n)| json!(format!("{name}{}", "f".repeat(n)))),
        1 => (1020..1030_usize).prop_map(|n| json!("x".repeat(n))),
        1 => (2045..2052_usize).prop_map(|n| json!("x".repeat(n))),
        2 => select(vec![
            json!(null), json!(0), json!(-1), json!(5_000_000_000_u64), json!(u64::MAX), json!(1.5), json!(true),
            json!([]), json!({}), json!([null]), json!({"ID": "x"}),
        ]),
        1 => "\\PC{0,20}".prop_map(Value::from),
    ]
}

fn changes() -> impl Strategy<Value = Vec<(&'static str, &'static str, Option<Value>)>> {
    let place =
        select(PLACES.to_vec()).prop_flat_map(|(at, names)| (Just(at), select(names.to_vec())));
    let change = (place, prop::option::weighted(0.8, values()))
        .prop_map(|((at, name), new)| (at, name, new));
    prop::collection::vec(change, 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn schema_and_parser_agree(changes in changes()) {
        let mut manifest = base();
        for (at, name, new) in changes {
            let Some(Value::Object(place)) = manifest.pointer_mut(at) else { continue };
            match new {
                Some(new) => drop(place.insert(name.to_owned(), new)),
                None => drop(place.remove(name)),
            }
        }
        let parsed = Manifest::parse(manifest.to_string().as_bytes(), Slot::A);
        // Which directory it stands in, a schema does not know.
        let valid = SCHEMA.is_valid(&manifest) && manifest["slot"] == "a";
        prop_assert!(parsed.is_ok() == valid, "{manifest}\nschema: {valid}, parser: {parsed:?}");
    }
}
