//! No effect is outside a step: whoever changes a file or speaks to a neighbour names the step that it takes, so
//! that the kill matrix stops there.

use super::scan::functions;
use super::shipped;

/// How files are changed.
const FILES: [&str; 12] = [
    "OpenOptions",
    "write_all",
    "sync_all",
    "sync_data",
    "set_len",
    "set_permissions",
    "rename",
    "remove_file",
    "remove_dir",
    "remove_dir_all",
    "create_dir",
    "create_dir_all",
];

/// How each neighbour is spoken to, in the one room that may.
const NEIGHBOURS: [(&str, &[&str]); 4] = [
    ("kubernetes", &["send", "fetch", "fetch_node", "stream"]),
    ("systemd", &["manager", "login", "UnitProxy", "ServiceProxy", "DBusProxy", "Connection"]),
    (
        "trident",
        &[
            "connect",
            "update",
            "rollback",
            "update_stage",
            "update_finalize",
            "rollback_stage",
            "rollback_finalize",
            "commit",
            "get_servicing_state",
            "get_active_volume",
        ],
    ),
    ("omaha", &["send", "chunk"]),
];

/// Effects of these are within a step that their callers take.
const WITHIN: [(&str, &str); 16] = [
    ("state/store.rs", "locked"),
    ("state/file.rs", "write"),
    ("kubernetes/client.rs", "fetch"),
    ("kubernetes/client.rs", "fetch_node"),
    ("kubernetes/wire.rs", "fetch"),
    ("kubernetes/wire.rs", "stream"),
    ("kubernetes/wire.rs", "send"),
    ("omaha/cookie.rs", "write_new"),
    ("omaha/cookie.rs", "rename"),
    ("omaha/http.rs", "exchange"),
    ("omaha/http.rs", "read_body"),
    ("systemd/bus.rs", "open"),
    ("systemd/units.rs", "state_at"),
    ("trident/call.rs", "send"),
    ("trident/call.rs", "open"),
    ("trident/mod.rs", "ask_state"),
];

/// These have none that anything depends on.
const HARMLESS: [(&str, &str, &str); 6] = [
    ("host.rs", "open", "only reads"),
    ("kubernetes/watch.rs", "new", "a field of this name"),
    ("kubernetes/watch.rs", "next", "a field of this name"),
    ("state/found.rs", "opened", "only reads"),
    ("steps/stop.rs", "pass", "tells the lab, in the test build"),
    ("systemd/journal.rs", "write", "the log"),
];

/// Packages of other programs: `tests/slot_store/crash.rs` stops a staging before each call that changes something. Of
/// theirs, the agent's commit takes a mark away, which can be done twice.
const OTHER_PROGRAMS: [&str; 2] = ["slots/", "fetch/"];

/// Which functions of a file have effects that are in no step of their own.
fn bare(path: &str, text: &str) -> Vec<String> {
    let room = path.trim_end_matches(".rs").split('/').next().unwrap_or_default();
    let own = NEIGHBOURS.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, words)| words);
    let is_effect = |words: &[String]| {
        let named =
            |effect: &&str| words.iter().take(effect.split(' ').count()).eq(effect.split(' '));
        FILES.iter().chain(own).any(named)
    };
    let in_a_step =
        |words: &[String]| words.iter().any(|it| matches!(it.as_str(), "steps" | "Step"));
    let bare = functions(text).into_iter().filter(|(_, words)| {
        (0..words.len()).any(|at| is_effect(&words[at..])) && !in_a_step(words)
    });
    bare.map(|(name, _)| name).collect()
}

#[test]
fn no_effect_is_outside_a_step() {
    let mut allowed: Vec<_> = WITHIN.to_vec();
    allowed.extend(HARMLESS.map(|(path, name, _)| (path, name)));
    let mut found = Vec::new();
    let ours = |path: &str| !OTHER_PROGRAMS.iter().any(|other| path.starts_with(other));
    for (path, text) in shipped().into_iter().filter(|(path, _)| ours(path)) {
        for name in bare(&path, &text) {
            found.push((path.clone(), name));
        }
    }
    found.sort();
    found.dedup();
    let known =
        |(path, name): &&(String, String)| allowed.contains(&(path.as_str(), name.as_str()));
    let unknown: Vec<_> = found.iter().filter(|it| !known(it)).collect();
    assert!(unknown.is_empty(), "these name no step: {unknown:?}");
    let gone = allowed
        .iter()
        .filter(|(path, name)| !found.contains(&((*path).to_owned(), (*name).to_owned())));
    assert_eq!(gone.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new(), "a row for nothing");
}

#[test]
fn an_effect_without_a_step_is_seen() {
    for (path, text) in [
        ("state/new.rs", "fn f() { std::fs::remove_file(p)?; }"),
        ("watch/new.rs", "fn f() { OpenOptions::new().append(true).open(p)?; }"),
        ("systemd/new.rs", "async fn f(&self) { self.manager.kill_unit(u).await }"),
        ("kubernetes/new.rs", "async fn f(&self) { self.fetch_node(w, r).await }"),
        ("trident/new.rs", "async fn f(&self) { client.rollback_stage(r).await }"),
        ("omaha/new.rs", "async fn f(&self) { request.send().await }"),
    ] {
        assert_eq!(bare(path, text), ["f"], "{text}");
    }
    for (path, text) in [
        (
            "state/new.rs",
            "fn f() { steps::done(Step::FileRemove, p, || std::fs::remove_file(p))?; }",
        ),
        ("state/new.rs", "fn f() { \"remove_file\"; } // remove_file"),
        ("watch/new.rs", "#[cfg(test)] mod tests { fn f() { remove_file(p) } }"),
        ("decide/new.rs", "fn f() { manager.commit() }"),
    ] {
        assert!(bare(path, text).is_empty(), "{text}");
    }
}
