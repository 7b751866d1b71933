//! What the daemon answers.

use tonic::{Code, Status};
use trident_acl_agent::trident::{Error, RebootStatus, Retry, Served, ServicingKind};
use trident_lab::wire::v1::servicing_response::Response as Part;
use trident_lab::wire::v1::{Completed, FileLocation, TridentError};

use crate::daemon::{
    AMPLE, Daemon, Script, Socket, chain, done, failed, image, part, said, started,
};

#[tokio::test]
async fn a_success_without_any_work_is_told_apart() {
    let absent = Completed { status: 1, ..Completed::default() };
    let daemon = Daemon::scripted([
        Script::Answer(vec![done(1, 1)]),
        Script::Answer(vec![part(Part::Completed(absent))]),
        Script::Answer(vec![done(77, 78)]),
    ]);
    let socket = Socket::with(&daemon, false);
    for (kind, reboot) in [
        (ServicingKind::NoneRequired, RebootStatus::NotRequired),
        (ServicingKind::Absent, RebootStatus::Absent),
        (ServicingKind::Unknown(77), RebootStatus::Unknown(78)),
    ] {
        let served = socket.trident().commit(AMPLE).await.expect("a success");
        assert_eq!(served, Served { kind, reboot });
    }
}

#[tokio::test]
async fn an_answer_without_a_result_leaves_the_call_open() {
    for items in [vec![], vec![started(), said(3, "bye")]] {
        let daemon = Daemon::scripted([Script::Answer(items)]);
        let socket = Socket::with(&daemon, false);
        let error = socket.trident().commit(AMPLE).await.expect_err("no result");
        assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
        assert_eq!(error.retry(), Retry::FindOut);
    }
}

#[tokio::test]
async fn other_statuses_are_not_asked_again_by_the_door() {
    let text = r"bad https://h/i?sig=SECRET and https:\/\/h\/i?sig=SECRET";
    let late = |status| Script::Answer(vec![started(), Err(status)]);
    for (script, code, retry) in [
        (Script::Refuse(Status::invalid_argument(text)), Code::InvalidArgument, Retry::No),
        (Script::Refuse(Status::unimplemented(text)), Code::Unimplemented, Retry::No),
        (Script::Refuse(Status::resource_exhausted(text)), Code::ResourceExhausted, Retry::No),
        (Script::Refuse(Status::permission_denied(text)), Code::PermissionDenied, Retry::No),
        (Script::Refuse(Status::internal(text)), Code::Internal, Retry::No),
        (Script::Refuse(Status::aborted(text)), Code::Aborted, Retry::No),
        (late(Status::resource_exhausted(text)), Code::ResourceExhausted, Retry::FindOut),
        (late(Status::internal(text)), Code::Internal, Retry::FindOut),
        (late(Status::unavailable(text)), Code::Unavailable, Retry::FindOut),
    ] {
        let daemon = Daemon::scripted([script]);
        let socket = Socket::with(&daemon, false);
        let error = socket.trident().commit(AMPLE).await.expect_err("a status");
        assert!(matches!(&error, Error::Status { code: found, .. } if *found == code), "{error:?}");
        assert_eq!(error.retry(), retry);
        assert!(!chain(&error).contains("SECRET"), "{}", chain(&error));
        assert_eq!(daemon.calls().len(), 1);
    }
}

#[tokio::test]
async fn a_failure_is_tridents_own_account() {
    let structured = TridentError {
        kind: 6,
        subkind: "ab-update-reboot-check".into(),
        message: "cannot read https://h/i?sig=SECRET".into(),
        error_message: String::new(),
        location: Some(FileLocation { path: "a.rs".into(), line: 3 }),
    };
    let daemon = Daemon::scripted([failed(Some(structured)), failed(None)]);
    let socket = Socket::with(&daemon, false);
    let error = socket.trident().stage(&image(), AMPLE).await.expect_err("a failure");
    assert!(!chain(&error).contains("SECRET"), "{}", chain(&error));
    assert_eq!(error.retry(), Retry::No);
    let Error::Failed(failure) = error else { panic!("{error:?}") };
    assert_eq!(
        (failure.kind.as_str(), failure.subkind.as_str()),
        ("SERVICING_ERROR", "ab-update-reboot-check")
    );
    assert_eq!(failure.location.map(|at| (at.path, at.line)), Some(("a.rs".into(), 3)));
    let error = socket.trident().commit(AMPLE).await.expect_err("a failure");
    let Error::Failed(failure) = error else { panic!("{error:?}") };
    assert_eq!((failure.kind.as_str(), failure.subkind.as_str()), ("unknown", "unknown"));
}
