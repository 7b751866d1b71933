//! What the daemon is asked.

use trident_acl_agent::trident::{
    Error, RebootStatus, Retry, Served, ServicingKind, ServicingState,
};

use crate::daemon::{AMPLE, Daemon, Socket, image, locked, success};

#[tokio::test]
async fn a_stage_hands_over_the_image_under_the_authority_localhost() {
    let daemon = Daemon::scripted([success()]);
    let socket = Socket::with(&daemon, false);
    let served = socket.trident().stage(&image(), AMPLE).await.expect("a success");
    let expected = Served { kind: ServicingKind::AbUpdate, reboot: RebootStatus::Required };
    assert_eq!(served, expected);
    let config =
        r#"{\"image\":{\"sha384\":\"ab\",\"url\":\"https://u:SECRET@h/i.cosi?sig=SECRET\"}}"#;
    let calls = daemon.calls();
    assert!(calls[0].starts_with("update_stage") && calls[0].contains(config), "{calls:?}");
    let path = "/trident.v1.UpdateService/UpdateStage".to_owned();
    assert_eq!(*locked(&daemon.asked), [("localhost".to_owned(), path)]);
}

#[tokio::test]
async fn the_caller_handles_every_reboot_and_a_rollback_is_ab() {
    let daemon = Daemon::scripted([success(), success(), success(), success()]);
    let socket = Socket::with(&daemon, false);
    let trident = socket.trident();
    trident.finalize(AMPLE).await.expect("a success");
    trident.rollback_stage(AMPLE).await.expect("a success");
    trident.rollback_finalize(AMPLE).await.expect("a success");
    trident.commit(AMPLE).await.expect("a success");
    let (calls, asked) = (daemon.calls(), locked(&daemon.asked).clone());
    for (at, (name, path, content)) in [
        ("update_finalize", "UpdateService/UpdateFinalize", "CallerHandlesReboot"),
        ("rollback_stage", "RollbackService/RollbackStage", "AbRollbackRequested"),
        ("rollback_finalize", "RollbackService/RollbackFinalize", "CallerHandlesReboot"),
        ("commit", "CommitService/Commit", "CallerHandlesReboot"),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(calls[at].starts_with(name) && calls[at].contains(content), "{}", calls[at]);
        assert_eq!(asked[at], ("localhost".to_owned(), format!("/trident.v1.{path}")));
    }
}

#[tokio::test]
async fn the_servicing_state_is_asked_where_it_is_offered() {
    let daemon = Daemon::default();
    let socket = Socket::with(&daemon, true);
    for (number, state) in [
        (0, ServicingState::Unknown),
        (1, ServicingState::NotProvisioned),
        (2, ServicingState::InstallStaged),
        (3, ServicingState::UpdateAbStaged),
        (4, ServicingState::ManualRollbackAbStaged),
        (5, ServicingState::ManualRollbackRuntimeStaged),
        (6, ServicingState::UpdateRuntimeStaged),
        (7, ServicingState::InstallFinalized),
        (8, ServicingState::UpdateAbFinalized),
        (9, ServicingState::ManualRollbackAbFinalized),
        (10, ServicingState::Provisioned),
        (11, ServicingState::UpdateAbHealthCheckFailed),
        (12, ServicingState::Unknown),
        (-1, ServicingState::Unknown),
    ] {
        *locked(&daemon.state) = number;
        let found = socket.trident().servicing_state().await.expect("an answer");
        assert_eq!(found, Some(state), "{number}");
    }
    let path = "/trident.v1preview.StatusService/GetServicingState";
    assert!(locked(&daemon.asked).iter().all(|(at, it)| at == "localhost" && it == path));
    let state = Socket::with(&daemon, false).trident().servicing_state().await;
    assert_eq!(state.expect("an answer"), None);
}

#[tokio::test]
async fn the_version_is_asked_once() {
    let version = Socket::with(&Daemon::default(), false).trident().version().await;
    assert_eq!(version.expect("an answer"), "0.22.0");
    let error = Socket::new().trident().version().await.expect_err("nobody listens");
    assert!(matches!(error, Error::Unreachable { tries: 1, .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Again);
}

#[test]
fn a_call_may_run_on_any_thread() {
    fn sendable<T: Send>(_: T) {}
    let trident = Socket::new().trident();
    let image = image();
    sendable(trident.stage(&image, AMPLE));
    sendable(trident.commit(AMPLE));
    sendable(trident.servicing_state());
}
