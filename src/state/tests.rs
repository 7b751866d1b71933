mod golden;
mod replaced;

use std::path::Path;

use super::*;
use crate::contract::{Code, Id, Phase, Request, Status, Utc};

fn store(directory: &Path) -> Store {
    Store::new(&directory.join("state.json"), "machine-1")
}

fn status(n: u128) -> Status {
    let id = Id::parse(&uuid::Uuid::from_u128(n).to_string()).unwrap();
    Status::of(Id::nil(), id, Phase::Stage, Utc::now()).finish(Code::Success, "", Utc::now())
}

fn rollback() -> Request {
    let text = r#"{"schemaVersion":"1.0","nodeUpdateId":"550e8400-e29b-41d4-a716-446655440000",
        "operationId":"c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90","operation":"rollback"}"#;
    Request::parse(text).unwrap()
}

/// Everything in the directory but the lock.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".lock"));
    names.sort();
    names
}

#[test]
fn what_was_written_is_read_and_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    store
        .update(|state| state.operation = Some(InFlight::new(rollback(), "1".into(), Utc::now())))
        .unwrap();
    assert_eq!(store.read().unwrap().operation.unwrap().request, rollback());
    let mode = std::fs::metadata(directory.path().join("state.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(names(directory.path()), ["state.json"]);
}

#[test]
fn an_unchanged_state_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path()).update(|_| ()).unwrap();
    assert!(names(directory.path()).is_empty());
}

#[test]
fn garbage_is_set_aside_once_and_never_deleted() {
    let garbage = ["", "null", "[]", "{", "\0\0\0\0", "7", "{\"version\":1,\"complet"];
    for text in garbage {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        for _ in 0..3 {
            std::fs::File::create(&path)
                .and_then(|mut f| std::io::Write::write_all(&mut f, text.as_bytes()))
                .unwrap();
            assert_eq!(store(directory.path()).read().unwrap(), State::default());
        }
        let names = names(directory.path());
        assert_eq!(names.len(), 1, "{text:?} {names:?}");
        assert!(names[0].starts_with("state.json.unreadable-"));
        assert_eq!(std::fs::read(directory.path().join(&names[0])).unwrap(), text.as_bytes());
    }
}

#[test]
fn a_file_from_another_machine_is_not_obeyed() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path()).update(|state| state.complete(status(1))).unwrap();
    let other = Store::new(&directory.path().join("state.json"), "machine-2");
    assert_eq!(other.read().unwrap(), State::default());
    assert!(names(directory.path())[0].starts_with("state.json.foreign-"));
}

#[test]
fn fields_of_a_newer_agent_survive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    file::replace(&path, br#"{"version":9,"soon":{"a":1},"completed":[]}"#).unwrap();
    store(directory.path()).update(|state| state.complete(status(1))).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["soon"]["a"], &value["version"]), (&1.into(), &9.into()));
}

/// Wherever they stand, they make no record unreadable.
#[test]
fn fields_of_a_newer_agent_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    let golden = include_str!("../../tests/golden/state-1.json");
    let known: serde_json::Value = serde_json::from_str(golden).unwrap();
    let mut newer = known.clone();
    add_a_field(&mut newer);
    file::replace(&path, newer.to_string().as_bytes()).unwrap();
    let store = Store::new(&path, "0123456789abcdef0123456789abcdef");
    let state = store.read().unwrap();
    assert_eq!(names(directory.path()), ["state.json"], "it was set aside");
    let mut read = serde_json::to_value(state).unwrap();
    for field in ["operation", "staged", "pendingCommit"] {
        assert_eq!(read[field]["soon"], 1, "{field}");
    }
    drop_the_field(&mut read);
    assert_eq!(read, known);
}

fn add_a_field(value: &mut serde_json::Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.values_mut().for_each(add_a_field);
        fields.insert("soon".to_owned(), 1.into());
    }
    value.as_array_mut().into_iter().flatten().for_each(add_a_field);
}

fn drop_the_field(value: &mut serde_json::Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove("soon");
        fields.values_mut().for_each(drop_the_field);
    }
    value.as_array_mut().into_iter().flatten().for_each(drop_the_field);
}

#[test]
fn memory_is_bounded_and_keeps_what_is_not_published() {
    let mut state = State::default();
    state.complete(status(1));
    for n in 2..200 {
        state.complete(status(n));
        state.completed.last_mut().unwrap().published = true;
    }
    assert_eq!(state.completed.len(), 32);
    assert_eq!(state.completed[0].status.operation_id, status(1).operation_id);
}

#[test]
fn one_operation_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let first = store.lock_operation().unwrap();
    assert!(first.is_some());
    assert!(store.lock_operation().unwrap().is_none());
    drop(first);
    assert!(store.lock_operation().unwrap().is_some());
}
