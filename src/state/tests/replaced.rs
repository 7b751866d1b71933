//! Something else stands where the state file was: it is taken over as far as it can be, or set aside, and a
//! record can be written all the same.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::{names, rollback, status, store};
use crate::contract::Utc;
use crate::state::{Completed, InFlight, PendingCommit, State, StoreError, replace};

const BOOT: &str = "0b7f2b52-2f2c-4f0a-9b0e-0d6f6b1c2a3d";

/// A file that this agent wrote.
fn written() -> Value {
    let directory = tempfile::tempdir().unwrap();
    let operation = InFlight::new(rollback(), "202606.29.0".to_owned(), Utc::from_second(0));
    let write = |state: &mut State| {
        state.complete(status(1));
        state.complete(status(2));
        state.pending_commit = Some(PendingCommit::new(&operation, BOOT.to_owned(), 7));
    };
    store(directory.path()).update(write).unwrap();
    let text = std::fs::read(directory.path().join("state.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Trident's own agent's: `pendingCommit` with `request` and `bootMarker`, and what is completed.
fn of_trident(marker: &str, completed: Value) -> Value {
    let request: Value = serde_json::to_value(rollback()).unwrap();
    json!({ "pendingCommit": { "request": request, "bootMarker": marker }, "completed": completed })
}

fn bare_status(operation_id: &Value, code: &str) -> Value {
    json!({
        "schemaVersion": "1.0",
        "nodeUpdateId": "550e8400-e29b-41d4-a716-446655440000",
        "operationId": operation_id,
        "operation": "rollback",
        "code": code,
        "message": "",
        "fromVersion": "202606.29.0",
        "tridentVersion": "0.22.0",
        "startedUtc": "2026-06-29T12:00:00Z",
        "lastUpdatedUtc": "2026-06-29T12:00:00Z",
    })
}

struct Case {
    name: &'static str,
    file: Value,
    /// Finished operations that are known then.
    completed: usize,
    /// Of the pending commit: the version that it left.
    pending: Option<&'static str>,
    /// Whether something of it was not taken over: then a copy is kept.
    copied: bool,
}

fn cases() -> Vec<Case> {
    let changed = |change: fn(&mut Value)| {
        let mut file = written();
        change(&mut file);
        file
    };
    let id = serde_json::to_value(rollback()).unwrap()["operationId"].clone();
    let said = |code| bare_status(&id, code);
    let trident = |completed| of_trident(BOOT, completed);
    let ours = Some("202606.29.0");
    let case =
        |name, file, completed, pending, copied| Case { name, file, completed, pending, copied };
    vec![
        case("our own", written(), 2, ours, false),
        case("a newer version", changed(|it| it["version"] = json!(2)), 2, ours, false),
        case("more fields", changed(|it| it["soon"] = json!([1])), 2, ours, false),
        case("no machine", changed(|it| it["machine"] = json!(null)), 2, ours, false),
        case(
            "a code of a newer agent",
            changed(|it| it["completed"][0]["status"]["code"] = json!("Paused")),
            1,
            ours,
            true,
        ),
        case(
            "an event of a newer agent",
            changed(|it| it["owedEvents"] = json!([{ "event": { "kind": "Paused" } }])),
            2,
            ours,
            true,
        ),
        case("another operation", changed(|it| it["operation"] = json!({})), 2, ours, true),
        case("no list", changed(|it| it["completed"] = json!(7)), 0, ours, true),
        case("a version that is none", changed(|it| it["version"] = json!("x")), 2, ours, true),
        case(
            "a pending commit of nothing",
            changed(|it| it["pendingCommit"] = json!({})),
            2,
            None,
            true,
        ),
        case("Trident's, alone", trident(json!([])), 0, Some(""), true),
        case("Trident's, with its status", trident(json!([said("Success")])), 1, ours, true),
        case("Trident's, by operation", trident(json!({ "x": said("Success") })), 1, ours, true),
        case("Trident's, under way", trident(json!([said("InProgress")])), 0, Some(""), true),
        // No boot id: taken for another boot's, it would commit before the reboot.
        case("Trident's, with another mark", of_trident("1782720000", json!([])), 0, None, true),
        case("somebody else's", json!({ "hello": 1 }), 0, None, false),
    ]
}

#[test]
fn what_can_be_read_is_taken_over_and_the_rest_is_kept() {
    for case in cases() {
        let (name, directory) = (case.name, tempfile::tempdir().unwrap());
        let path = directory.path().join("state.json");
        let text = case.file.to_string();
        replace(&path, text.as_bytes()).unwrap();
        let store = store(directory.path());
        for _ in 0..3 {
            let state = store.read().unwrap();
            let from = state.pending_commit.as_ref().map(|it| it.from_version.as_str());
            assert_eq!((state.completed.len(), from), (case.completed, case.pending), "{name}");
        }
        let copies: Vec<_> =
            names(directory.path()).into_iter().filter(|it| it.contains("unreadable")).collect();
        assert_eq!(copies.len(), usize::from(case.copied), "{name}: {copies:?}");
        for copy in copies {
            assert_eq!(
                std::fs::read_to_string(directory.path().join(copy)).unwrap(),
                text,
                "{name}"
            );
        }
        store.update(|state| state.remember(Completed::new(status(9)))).unwrap();
        assert_eq!(store.read().unwrap().completed.len(), case.completed + 1, "{name}");
    }
}

/// Makes something at the place of the state file.
type Make = fn(&Path);

#[test]
fn what_is_no_file_is_set_aside_and_not_waited_for() {
    let table: [(&str, Make); 4] = [
        ("an empty directory", |path| std::fs::create_dir(path).unwrap()),
        ("a full directory", |path| {
            std::fs::create_dir(path).unwrap();
            replace(&path.join("kept"), b"kept").unwrap();
        }),
        ("a pipe", |path| {
            let mode = rustix::fs::Mode::RUSR;
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        }),
        ("a socket", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
    ];
    for (name, make) in table {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let store = store(directory.path());
        // Whoever made it may do so again: nothing is overwritten.
        for times in 1..=2 {
            make(&path);
            assert_eq!(store.read().unwrap(), State::default(), "{name}");
            store.update(|state| state.complete(status(1))).unwrap();
            assert_eq!(store.read().unwrap().completed.len(), 1, "{name}");
            let aside = names(directory.path()).into_iter().filter(|it| it.contains("unreadable"));
            assert_eq!(aside.count(), times, "{name}");
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_link_is_followed_and_stays() {
    let make = |path: &Path, target: &str| symlink(target, path).unwrap();
    for (name, target) in
        [("beside it", "elsewhere.json"), ("in another directory", "other/a.json")]
    {
        for is_there in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let (path, place) =
                (directory.path().join("state.json"), directory.path().join(target));
            std::fs::create_dir(directory.path().join("other")).unwrap();
            if is_there {
                replace(&place, written().to_string().as_bytes()).unwrap();
            }
            make(&path, target);
            let store = store(directory.path());
            let known = if is_there { 2 } else { 0 };
            assert_eq!(store.read().unwrap().completed.len(), known, "{name}, {is_there}");
            store.update(|state| state.complete(status(9))).unwrap();
            assert!(path.is_symlink() && !place.is_symlink(), "{name}: the link was replaced");
            assert_eq!(store.read().unwrap().completed.len(), known + 1, "{name}, {is_there}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    make(&directory.path().join("state.json"), "state.json");
    let refused = store(directory.path()).read();
    assert!(matches!(refused, Err(StoreError::Read { .. })), "a link to itself: {refused:?}");
}
