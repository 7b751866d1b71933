use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use trident_lab::schema::check_status;

use crate::contract::{Code, Id, Location, Operation, Phase, Request, Status, TridentError, Utc};

fn request(operation: Operation) -> Request {
    let update = match operation {
        Operation::Rollback => "",
        Operation::Stage | Operation::Finalize => {
            r#","targetVersion":"2","server":"https://x/","appId":"a","track":"t""#
        }
    };
    let text = format!(
        r#"{{"schemaVersion":"1.0","nodeUpdateId":"550E8400-e29b-41d4-a716-446655440000",
        "operationId":"c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90","operation":"{}"{update}}}"#,
        operation.name()
    );
    Request::parse(&text).unwrap()
}

fn at(second: i64) -> Utc {
    Utc::from_second(second)
}

fn begun(second: i64) -> Status {
    Status::begin(&request(Operation::Stage), Phase::Stage, Some("1".to_owned()), at(second))
}

fn json(status: &Status) -> Value {
    serde_json::from_str(&status.to_json()).unwrap()
}

#[test]
fn times_are_whole_seconds_in_utc() {
    assert_eq!(at(1_782_720_000).to_string(), "2026-06-29T08:00:00Z");
    assert_eq!(at(0).to_string(), "1970-01-01T00:00:00Z");
    assert_eq!(at(i64::MAX), at(0), "out of range");
    let now = serde_json::to_value(Utc::now()).unwrap();
    assert_eq!(now.as_str().unwrap().len(), "2026-06-29T08:00:00Z".len());
    for text in ["2026-06-29T08:00:00Z", "2026-06-29T08:00:00.999Z", "2026-06-29T10:00:00+02:00"] {
        let read: Utc = serde_json::from_value(Value::from(text)).unwrap();
        assert_eq!(read, at(1_782_720_000), "{text}");
    }
}

#[test]
fn a_clock_that_jumps_back_does_not_finish_before_the_start() {
    let status = begun(1000).finish(Code::Success, "", at(10));
    assert_eq!((status.started_utc, status.finished_utc), (at(1000), Some(at(1000))));
    assert_eq!(status.last_updated_utc, at(1000));
    assert_eq!(status.clone().at(at(20)).last_updated_utc, at(1000));
    assert_eq!(status.at(at(2000)).last_updated_utc, at(2000));
}

/// A clock that was far ahead when the operation began, and is set right: the heartbeats go on.
#[test]
fn each_heartbeat_has_the_time_of_its_write() {
    let begun = begun(5_000);
    for now in [1000, 1060, 1120, 5060, 4_000_000_000, 1180] {
        let beat = begun.clone().at(at(now));
        assert_eq!((beat.last_updated_utc, beat.started_utc), (at(now), at(5_000)));
    }
    let ended = begun.at(at(1000)).finish(Code::Success, "", at(1240));
    assert_eq!((ended.finished_utc, ended.last_updated_utc), (Some(at(5_000)), at(5_000)));
}

#[test]
fn finished_is_said_of_terminal_codes_only() {
    for code in Code::ALL {
        let status = begun(1000).finish(code, "", at(1010));
        assert_eq!(status.finished_utc.is_some(), code.is_terminal());
        assert_eq!(status.begun("again").finished_utc, None);
    }
}

#[test]
fn only_the_time_of_the_write_may_differ() {
    let status = begun(1000).finish(Code::OperationFailed, "why", at(1010));
    assert!(status.says_the_same(&status.clone().at(at(9000))));
    let error = TridentError { kind: "a".to_owned(), subkind: "b".to_owned(), location: None };
    let others = [
        status.clone().with_message("other"),
        status.clone().from_version(None),
        status.clone().with_trident_error(Some(error)),
        status.clone().finish(Code::OperationFailed, "why", at(1011)),
        status.clone().finish(Code::InvalidRequest, "why", at(1010)),
        status.clone().begun("why"),
    ];
    for other in others {
        assert!(!status.says_the_same(&other), "{other:?}");
    }
}

#[test]
fn what_is_absent_is_omitted() {
    let names =
        |status: &Status| json(status).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let rollback = Status::begin(&request(Operation::Rollback), Phase::Rollback, None, at(1));
    for absent in ["toVersion", "fromVersion", "tridentError", "finishedUtc"] {
        assert!(!names(&rollback).contains(&absent.to_owned()), "{absent}");
    }
    let names = names(&begun(1).finish(Code::Success, "", at(1)));
    for present in ["toVersion", "fromVersion", "finishedUtc", "message"] {
        assert!(names.contains(&present.to_owned()), "{present}");
    }
}

#[test]
fn ids_stand_there_as_the_orchestrator_wrote_them() {
    assert_eq!(json(&begun(1))["nodeUpdateId"], "550E8400-e29b-41d4-a716-446655440000");
}

#[test]
fn what_we_did_not_write_is_no_status() {
    for text in ["", "null", "{}", "[]", "{\"code\":\"Success\"}"] {
        assert_eq!(Status::from_json(text), None);
    }
    let unknown = begun(1).to_json().replace("InProgress", "Paused");
    assert_eq!(Status::from_json(&unknown), None);
}

/// Every status that this program can make: an error of Trident's goes with the codes that tell of one.
fn statuses() -> impl Strategy<Value = Status> {
    let location = prop::option::of(("\\PC{0,20}", any::<u32>()));
    let location = location.prop_map(|it| it.map(|(path, line)| Location { path, line }));
    let error = prop::option::of(("\\PC{1,20}", "\\PC{1,20}", location));
    let request = select(Operation::ALL.to_vec()).prop_map(request);
    let times = (0..4_000_000_000_i64, 0..4_000_000_000_i64);
    let from = prop::option::of("\\PC{0,20}");
    (request, any::<bool>(), select(Code::ALL.to_vec()), "\\PC{0,3000}", from, times, error)
        .prop_map(|(request, commit, code, message, from, (start, end), error)| {
            let phase = if commit { Phase::Commit } else { request.operation().into() };
            let tells = matches!(code, Code::OperationFailed | Code::TargetBootFailed);
            let error = error.filter(|_| tells);
            let error =
                error.map(|(kind, subkind, location)| TridentError { kind, subkind, location });
            Status::begin(&request, phase, from, at(start))
                .finish(code, &message, at(end))
                .with_trident_error(error)
        })
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

proptest! {
    #[test]
    fn every_status_keeps_the_schema_and_is_read_back(status in statuses()) {
        let value = json(&status);
        prop_assert!(check_status(&value).is_ok(), "{:?}", check_status(&value));
        prop_assert!(!has_null(&value));
        prop_assert!(status.message.as_str().len() <= 2048);
        prop_assert!(status.finished_utc.is_none_or(|end| end >= status.started_utc));
        let last = status.finished_utc.is_none_or(|end| status.last_updated_utc >= end);
        prop_assert!(last, "{value}");
        for field in ["startedUtc", "lastUpdatedUtc", "finishedUtc"] {
            prop_assert!(value.get(field).is_none_or(|it| it.as_str().is_some_and(|it| it.ends_with('Z'))));
        }
        prop_assert_eq!(Status::from_json(&status.to_json()), Some(status));
    }
}

#[test]
fn an_answer_to_nothing_readable_keeps_the_schema_too() {
    let broken = Request::parse("nonsense").unwrap_err();
    let phase = broken.operation.into();
    let status = Status::of(broken.node_update_id, broken.operation_id, phase, at(1)).finish(
        Code::InvalidRequest,
        &broken.problem.to_string(),
        at(1),
    );
    check_status(&json(&status)).unwrap();
    assert_eq!((status.operation_id, status.operation), (Id::nil(), Phase::Stage));
}

#[test]
fn a_forged_status_of_any_size_is_not_taken_in() {
    let good = Status::of(Id::nil(), Id::nil(), Phase::Stage, Utc::from_second(0));
    let forged = good.clone().from_version(Some(&"9".repeat(240_000)));
    assert!(Status::from_json(&good.to_json()).is_some());
    assert!(Status::from_json(&forged.to_json()).is_none());
}
