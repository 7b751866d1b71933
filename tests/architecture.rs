//! Holds `src/` to the rooms and doors of `docs/architecture.md`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "architecture/effects.rs"]
mod effects;
#[path = "architecture/scan.rs"]
mod scan;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use scan::{Named, Scan, scan};

/// One room: a directory or a file in `src/`.
struct Room {
    name: &'static str,
    /// The other rooms that it may import.
    imports: &'static [&'static str],
    /// Paths that it must never see, functions of any type that it must never call (`::name`), and words
    /// that it must never use.
    never: &'static [&'static str],
}

const ROOMS: [Room; 15] = [
    Room {
        name: "contract",
        imports: &[],
        never: &["tokio", "std::fs", "std::io", "std::net", "std::process", "rustix", "async"],
    },
    Room {
        name: "decide",
        imports: &["contract", "state"],
        never: &[
            "tokio",
            "futures_util",
            "async",
            "await",
            "tracing",
            "std::fs",
            "std::io",
            "std::net",
            "std::env",
            "std::process",
            "std::thread",
            "rustix",
            "fastrand",
            "jiff",
            "Instant",
            "SystemTime",
            "::now",
            "crate::state::Store",
            "crate::state::StoreError",
            "crate::state::OperationLock",
            "crate::state::replace",
        ],
    },
    Room { name: "steps", imports: &[], never: &["tokio", "tracing"] },
    Room { name: "state", imports: &["contract", "steps"], never: &["tokio", "async"] },
    Room {
        name: "slots",
        imports: &[],
        never: &["tokio", "futures_util", "async", "await", "std::net"],
    },
    Room { name: "fetch", imports: &["slots"], never: &["trident_acl_agent"] },
    Room { name: "config", imports: &["contract"], never: &["tokio", "async"] },
    Room { name: "host", imports: &["config"], never: &[] },
    Room { name: "kubernetes", imports: &["contract", "config", "steps"], never: &[] },
    Room { name: "systemd", imports: &["contract", "config", "steps"], never: &[] },
    Room { name: "trident", imports: &["contract", "config", "steps"], never: &[] },
    Room { name: "omaha", imports: &["contract", "config", "steps"], never: &[] },
    Room {
        name: "watch",
        imports: &["contract", "decide", "state", "config", "host", "kubernetes", "systemd"],
        never: &[],
    },
    Room {
        name: "operate",
        imports: &["contract", "decide", "state", "config", "host", "trident", "omaha", "slots"],
        never: &[],
    },
    Room {
        name: "check",
        imports: &["contract", "config", "host", "kubernetes", "trident", "omaha"],
        never: &[],
    },
];

/// The crates by which a neighbour is reached, and the one room that uses them.
const DOORS: [(&str, &str); 13] = [
    ("kube", "kubernetes"),
    ("k8s_openapi", "kubernetes"),
    ("zbus", "systemd"),
    ("zbus_systemd", "systemd"),
    ("libsystemd", "systemd"),
    ("tonic", "trident"),
    ("tonic_prost", "trident"),
    ("prost", "trident"),
    ("prost_types", "trident"),
    ("hyper_util", "trident"),
    ("tower", "trident"),
    ("reqwest", "omaha"),
    ("quick_xml", "omaha"),
];

/// What a room may take of another's door: no call goes through these.
const HARMLESS: [(&str, &str); 4] = [
    // Another program, which has no neighbour to keep apart.
    ("fetch", "reqwest"),
    ("kubernetes", "hyper_util::client::proxy::matcher::Matcher"),
    ("watch", "kube::runtime::watcher::DefaultBackoff"),
    ("watch", "kube::runtime::utils::Backoff"),
];

/// Without its tests.
const MAX_LINES: usize = 400;

/// What is wrong with one file of a room, a sentence each.
fn breaches(room: &Room, scan: &Scan) -> Vec<String> {
    let words = scan.words.iter().filter(|(word, _)| room.never.contains(&word.as_str()));
    let words = words.map(|(word, line)| format!("{line}: `{word}` in {}", room.name));
    let named = scan.named.iter().filter_map(|named| breach(room, named));
    let renamed =
        scan.words.windows(2).filter(|pair| pair[0].0 == "extern" && pair[1].0 == "crate");
    let renamed = renamed.map(|pair| format!("{}: a crate under another name", pair[0].1));
    named.chain(words).chain(renamed).collect()
}

fn breach(room: &Room, named: &Named) -> Option<String> {
    let (name, text, line) = (room.name, named.text(), named.line);
    if HARMLESS.iter().any(|(room, path)| *room == name && goes_through(named, path)) {
        return None;
    }
    let door = DOORS.iter().find(|(outside, door)| *door != name && reaches(named, outside));
    if let Some((_, door)) = door {
        return Some(format!("{line}: {text} in {name}: it is {door}'s door"));
    }
    let calls = |never: &str| never.strip_prefix("::") == named.path.last().map(String::as_str);
    let sees = |never: &str| never.contains("::") && reaches(named, never);
    if room.never.iter().any(|never| calls(never) || sees(never)) {
        return Some(format!("{line}: {text} must never be seen in {name}"));
    }
    match named.path.first().map(String::as_str) {
        Some("crate") => match named.path.get(1).map(String::as_str) {
            None | Some("*") => Some(format!("{line}: {name} takes the whole crate")),
            Some(other) if other == name || room.imports.contains(&other) => None,
            Some(other) => Some(format!("{line}: {text}: {name} must not import {other}")),
        },
        Some("trident_lab") => Some(format!("{line}: the lab is not shipped")),
        _ => None,
    }
}

fn goes_through(named: &Named, target: &str) -> bool {
    let target: Vec<_> = target.split("::").collect();
    named.path.iter().map(String::as_str).take(target.len()).eq(target)
}

/// Whether a path goes through `target`, or imports a part of the way from which the rest is short.
fn reaches(named: &Named, target: &str) -> bool {
    let way = named.path.iter().map(String::as_str).filter(|part| *part != "*");
    let hides = way.clone().eq(target.split("::").take(way.count()));
    goes_through(named, target) || (named.imported && hides)
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.extension().is_some_and(|it| it == "rs") {
            _ if path.is_dir() => files.extend(rust_files(&path)),
            true => files.push(path),
            false => {}
        }
    }
    files.sort();
    files
}

/// Every shipped file below `src/`, by its path there.
fn shipped() -> Vec<(String, String)> {
    let relative = |path: &Path| path.strip_prefix(source()).unwrap().display().to_string();
    let files = rust_files(&source()).into_iter();
    let files = files.map(|path| (relative(&path), std::fs::read_to_string(&path).unwrap()));
    files
        .filter(|(path, _)| !path.split('/').any(|part| matches!(part, "tests" | "tests.rs")))
        .collect()
}

fn module(path: &str) -> Vec<&str> {
    let path = path.trim_end_matches(".rs");
    path.split('/').filter(|part| !matches!(*part, "mod" | "lib")).collect()
}

fn room_of(path: &str) -> Option<&'static Room> {
    let name = path.trim_end_matches(".rs").split('/').next()?;
    ROOMS.iter().find(|room| room.name == name)
}

#[test]
fn every_room_imports_only_what_it_may() {
    let mut found = Vec::new();
    for (path, text) in shipped() {
        if let Some(room) = room_of(&path) {
            let scan = scan(&text, &module(&path));
            found.extend(breaches(room, &scan).into_iter().map(|it| format!("src/{path}:{it}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Where the wall clock is read, and what for. It jumps: whatever waits or orders goes by another one.
const WALL_CLOCK: [(&str, &str, &str); 7] = [
    ("contract/time.rs", "Timestamp::now", "the one home"),
    (
        "omaha/cookie.rs",
        "Timestamp::now",
        "a cookie that its server takes back by a date of the past",
    ),
    (
        "omaha/http.rs",
        "Timestamp::now",
        "a Retry-After that is a date; what comes of it is bounded",
    ),
    ("operate/commit.rs", "Utc::now", "the times in a status"),
    ("operate/record.rs", "Utc::now", "the times in a status"),
    ("watch/act.rs", "Utc::now", "the times in a status"),
    ("watch/look.rs", "Utc::now", "the times in a status, and a process's first heartbeat"),
];

/// What tells the wall clock's time: of now, or of a file's last change.
const TELLS_TIME: [&str; 8] = [
    "Utc::now",
    "Timestamp::now",
    "Zoned::now",
    "SystemTime",
    "Realtime",
    ".modified()",
    ".accessed()",
    ".created()",
];

#[test]
fn nothing_waits_by_the_wall_clock() {
    let mut found = BTreeSet::new();
    for (path, text) in shipped() {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = code.collect::<Vec<_>>().join("\n");
        let told = TELLS_TIME.iter().filter(|it| code.contains(*it));
        found.extend(told.map(|it| (path.clone(), (*it).to_owned())));
    }
    let known = WALL_CLOCK.iter().map(|(path, what, _)| ((*path).to_owned(), (*what).to_owned()));
    let known: BTreeSet<_> = known.collect();
    assert_eq!(found, known, "a new reader of the wall clock needs a row that says what for");
}

#[test]
fn every_room_is_in_the_table_and_on_the_map() {
    let entries = std::fs::read_dir(source()).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let rooms = names.map(|name| name.trim_end_matches(".rs").to_owned());
    let on_disk: BTreeSet<_> =
        rooms.filter(|name| !matches!(name.as_str(), "lib" | "bin")).collect();
    let in_table: BTreeSet<_> = ROOMS.iter().map(|room| room.name.to_owned()).collect();
    assert_eq!(on_disk, in_table, "a new room needs a row that says what it may import");
    let map = std::fs::read_to_string(source().join("lib.rs")).unwrap();
    let linked = in_table.into_iter().filter(|room| room != FETCH).collect();
    assert_eq!(map_of(&map), Ok(linked));
}

/// A package of its own that the agent does not link.
const FETCH: &str = "fetch";

/// Rooms that are packages of their own, as the map has them.
const PACKAGES: [(&str, &str); 1] = [("pub use trident_slots as slots;", "slots")];

/// The rooms that a crate root declares, if it is a map: one documented line per room, and no code.
fn map_of(text: &str) -> Result<BTreeSet<String>, String> {
    let mut rooms = BTreeSet::new();
    let mut documented = false;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("//!")) {
        let room = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';'));
        let package = PACKAGES.iter().find(|(text, _)| *text == line).map(|(_, room)| *room);
        let room = room.or(package);
        match room {
            Some(room) if documented => drop(rooms.insert(room.to_owned())),
            None if line.starts_with("/// ") && !documented => {}
            _ => return Err(format!("not a documented line for one room: {line}")),
        }
        documented = room.is_none();
    }
    Ok(rooms)
}

#[test]
fn no_file_is_long() {
    for (path, text) in shipped() {
        let lines = scan(&text, &module(&path)).lines;
        assert!(lines <= MAX_LINES, "src/{path} has {lines} lines without its tests");
    }
}

/// What a package of the workspace depends on, as cargo has it.
fn dependencies(package: &str) -> Vec<serde_json::Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|it| it["name"] == package).unwrap();
    found["dependencies"].as_array().unwrap().clone()
}

/// Whatever is linked into the initrd's program is one of these, or comes with one.
#[test]
fn the_loader_links_no_runtime_and_no_network() {
    let dependencies = dependencies("trident-slots");
    let linked = dependencies.iter().filter(|it| it["kind"].is_null());
    let linked: BTreeSet<_> = linked.map(|it| it["name"].as_str().unwrap()).collect();
    let allowed = ["lexopt", "rustix", "serde", "serde_json", "sha2", "thiserror"];
    assert_eq!(linked, BTreeSet::from(allowed));
    let loader = shipped().into_iter().find(|(path, _)| path == "bin/trident-slot-loader.rs");
    assert!(!loader.unwrap().1.contains("trident_acl_agent"));
}

/// What a stager gets images with is neither the agent's nor the loader's.
#[test]
fn only_the_stager_links_what_fetches_images() {
    let manifest = |package: &str| -> BTreeSet<String> {
        let all = dependencies(package).into_iter().filter(|it| it["kind"].is_null());
        all.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let own = ["oci-client", "ruzstd", "tar"];
    let fetch = manifest("trident-fetch");
    assert!(own.iter().all(|it| fetch.contains(*it)), "{fetch:?}");
    for package in [env!("CARGO_PKG_NAME"), "trident-slots"] {
        let linked = manifest(package);
        let own = own.into_iter().chain(["trident-fetch"]);
        let found: Vec<_> = own.filter(|it| linked.contains(*it)).collect();
        assert!(found.is_empty(), "{package}: {found:?}");
    }
    // What both need is of one version, so that it is built once.
    for name in ["reqwest", "tokio", "rustls", "clap", "serde-saphyr"] {
        let of = |package: &str| {
            let found = dependencies(package).into_iter().find(|it| it["name"] == name).unwrap();
            found["req"].clone()
        };
        assert_eq!(of("trident-fetch"), of(env!("CARGO_PKG_NAME")), "{name}");
    }
}

#[test]
fn the_lab_is_for_tests_only() {
    let dependencies = dependencies(env!("CARGO_PKG_NAME"));
    let lab: Vec<_> = dependencies.iter().filter(|it| it["name"] == "trident-lab").collect();
    assert!(!lab.is_empty() && lab.iter().all(|it| it["kind"] == "dev"), "{lab:?}");
    for (path, text) in shipped() {
        let named = scan(&text, &module(&path)).named;
        assert!(named.iter().all(|it| it.path[0] != "trident_lab"), "src/{path}");
    }
}

/// What the table says of a made-up text in a room.
fn judged(room: &str, text: &str) -> Vec<String> {
    let room = ROOMS.iter().find(|it| it.name == room).unwrap();
    breaches(room, &scan(text, &[room.name, "inner"]))
}

#[test]
fn each_kind_of_breach_is_seen() {
    let table = [
        ("contract", "use crate::state::State;"),
        ("contract", "fn f() { crate::state::replace(p, b) }"),
        ("contract", "use super::super::decide;"),
        ("contract", "fn f() { super::super::decide::decide(v) }"),
        ("contract", "mod deep { fn f() { super::super::super::watch::run() } }"),
        ("contract", "use self::super::super::watch::run;"),
        ("contract", "use std::{fmt, fs};"),
        ("contract", "fn f() { tokio::spawn(g()); }"),
        ("contract", "use tokio as quiet;"),
        ("contract", "async fn f() {}"),
        ("contract", "use crate as everything;"),
        ("contract", "use super::super::{self as everything};"),
        ("contract", "use crate::*;"),
        ("contract", "extern crate self as everything;"),
        ("contract", "type A = trident_acl_agent::state::State;"),
        ("slots", "async fn f() {}"),
        ("slots", "use crate::contract::chain;"),
        ("slots", "fn f() { reqwest::get(x) }"),
        ("decide", "use crate::{contract::{Code, Id}, config::Config};"),
        ("decide", "use crate::{contract::Id, r#watch::run};"),
        ("decide", "use crate::state::{State, Store};"),
        ("decide", "use crate::state::*;"),
        ("decide", "use crate::state as memory;"),
        ("decide", "fn f() { tracing::info!(\"x\") }"),
        ("decide", "use std::time::Instant;"),
        ("decide", "fn f() { std::time::SystemTime::UNIX_EPOCH }"),
        ("decide", "fn f() { let now = Utc::now(); }"),
        ("decide", "use std::fs::File;"),
        ("decide", "use std::*;"),
        ("decide", "fn f() { ::std::fs::read(p) }"),
        ("state", "use crate::kubernetes::NodeApi;"),
        ("state", "fn f(e: kube::Error) {}"),
        ("config", "use crate::host::Host;"),
        ("kubernetes", "use crate::systemd::Systemd;"),
        ("kubernetes", "use crate::state::State;"),
        ("omaha", "use crate::decide::Verdict;"),
        ("trident", "use reqwest::Client;"),
        ("watch", "use crate::trident::Trident;"),
        ("watch", "use kube::{Api, runtime::watcher::DefaultBackoff};"),
        ("operate", "use crate::kubernetes::NodeApi;"),
        ("operate", "use zbus_systemd::systemd1;"),
        ("operate", "#[cfg(test)] mod tests {} use crate::systemd::Systemd;"),
        ("operate", "fn f() { \"\\\"\"; '\"'; crate::systemd::f() }"),
        ("operate", "use trident_lab::lab::Lab;"),
    ];
    for (room, text) in table {
        assert!(!judged(room, text).is_empty(), "not seen in {room}: {text}");
    }
}

#[test]
fn what_is_allowed_is_left_alone() {
    let table = [
        ("contract", "use super::{Id, message::Message}; use std::fmt; use serde::Serialize;"),
        ("contract", "// use tokio::fs;\n/* crate::watch /* tokio */ */ fn f() { \"tokio::fs\" }"),
        ("contract", "fn f<'a>(x: &'a str) { r#\"crate::watch::run()\"#; 'x'; b'\\''; }"),
        ("contract", "#[cfg(test)]\nmod tests { use std::fs; use crate::watch; fn f() { {} } }"),
        ("decide", "use crate::contract::{Code, Id}; use crate::state::{InFlight, State};"),
        ("decide", "use std::time::Duration; fn f(now: Utc) -> Utc { view.now }"),
        ("decide", "mod deep { use super::act; use super::super::act::f; }"),
        ("state", "use crate::contract::Id; use std::fs::File; use super::record::State;"),
        ("watch", "use kube::runtime::watcher::DefaultBackoff; use tokio::time::Instant;"),
        ("operate", "fn f() -> impl Fn() + use<> { crate::trident::f; }"),
    ];
    for (room, text) in table {
        assert_eq!(judged(room, text), Vec::<String>::new(), "{room}: {text}");
    }
}

#[test]
fn a_crate_root_with_code_is_no_map() {
    let good = "//! The map.\n\n/// A room.\npub mod contract;\n";
    assert_eq!(map_of(good), Ok(BTreeSet::from(["contract".to_owned()])));
    let package = "/// A room.\npub use trident_slots as slots;\n";
    assert_eq!(map_of(package), Ok(BTreeSet::from(["slots".to_owned()])));
    let bad = [
        "pub mod contract;",
        "/// Two.\n/// Lines.\npub mod contract;",
        "/// F.\nfn f() {}",
        "/// A.\npub use contract::Id;",
        "/// A.\npub mod contract {\n}",
    ];
    for text in bad {
        assert!(map_of(text).is_err(), "{text}");
    }
}

#[test]
fn tests_do_not_make_a_file_long() {
    let text = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n\n    fn g() {}\n}\n";
    assert_eq!(scan(text, &[]).lines, 2);
}
