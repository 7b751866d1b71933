//! What tridentd answers, as it comes to stand in a status.

use trident_acl_agent::contract::{Code, Operation, Status};
use trident_acl_agent::operate::Ended;
use trident_lab::lab::NEW;
use trident_lab::trident::proto::v1::{ServicingKind, TridentErrorKind as Kind};
use trident_lab::trident::{Fault, Method, Script};
use uuid::Uuid;

bench_test!(a_failure_is_in_tridents_own_words, async |bench| {
    let long = "a/b: the inner one [c]";
    for (script, kind, subkind, place) in [
        (Script::new().fail_bare(), "unknown", "unknown", None),
        (Script::new().fail(Fault::new(Kind::Unspecified, "", "m")), "unknown", "unknown", None),
        (
            Script::new().fail(Fault::new(Kind::ServicingError, "no-space", "m").at("a.rs", 7)),
            "SERVICING_ERROR",
            "no-space",
            Some(("a.rs", 7)),
        ),
        (
            Script::new().fail(Fault::new(Kind::HealthChecksError, long, "https://h/?SECRET")),
            "HEALTH_CHECKS_ERROR",
            long,
            None,
        ),
        (
            Script::new().fail(Fault::new(Kind::InvalidInputError, "x", r"https:\/\/h\/i?SECRET")),
            "INVALID_INPUT_ERROR",
            "x",
            None,
        ),
    ] {
        bench.trident.next(Method::UpdateStage, script);
        let status = bench.carry_out(&bench.request(Operation::Stage)).await;
        bench.report().await.expect("all is delivered");
        let error = status.trident_error.expect("tridentd itself returned an error");
        assert_eq!((status.code, error.kind.as_str()), (Code::OperationFailed, kind));
        assert_eq!(error.subkind, subkind);
        let found = error.location.as_ref().map(|at| (at.path.as_str(), at.line));
        assert_eq!(found, place, "{kind}");
        assert!(!status.message.as_str().contains("SECRET"), "{}", status.message);
    }
});

bench_test!(whatever_tridentd_says_the_status_can_be_read_back, async |bench| {
    let long = "\u{1}\"\\\u{20ac} x".repeat(10_000);
    let fault = Fault::new(Kind::ServicingError, &long, &long).at(&long, u32::MAX);
    bench.trident.next(Method::UpdateStage, Script::new().fail(fault));
    let status = bench.carry_out(&bench.request(Operation::Stage)).await;
    assert_eq!(status.code, Code::OperationFailed);
    let text = status.to_json();
    let again = Status::from_json(&text);
    assert_eq!(again, Some(status), "{} bytes", text.len());
});

bench_test!(nothing_to_commit_is_no_success_without_a_version, async |mut bench| {
    bench.update().await;
    let request = bench.request(Operation::Rollback);
    bench.carry_out_well(&request).await;
    bench.reboot();
    bench.set("CURRENT_VERSION_PATH", "/missing");
    bench.trident.next(Method::Commit, Script::new().claim(ServicingKind::NoneRequired));
    let ended = bench.commit().await.expect("an outcome is recorded");
    assert_eq!(ended, Ended::With(Code::AgentInternalError));
});

bench_test!(what_is_not_tridents_own_error_carries_none, async |mut bench| {
    use tonic::Code as Status;
    bench.set("ORCHESTRATION_STAGE_TIMEOUT", "2s");
    let busy = |it: Script| it.refuse(Status::Unavailable, "busy");
    for (script, says) in [
        (Script::new().refuse(Status::Unimplemented, "no such call"), "Unimplemented"),
        (Script::new().refuse(Status::ResourceExhausted, "too much"), "ResourceExhausted"),
        (Script::new().refuse(Status::PermissionDenied, "not you"), "PermissionDenied"),
        (Script::new().break_with(Status::Internal, "https://h/?SECRET"), "Internal"),
        (Script::new().cut(false), "without a result"),
    ] {
        bench.trident.next(Method::UpdateStage, script.clone());
        // A stage that broke off is called again, for as long as its time lasts.
        for _ in 0..9 {
            bench.trident.next(Method::UpdateStage, script.clone());
        }
        let status = bench.carry_out(&bench.request(Operation::Stage)).await;
        bench.trident.forget_scripts();
        bench.report().await.expect("all is delivered");
        let message = status.message.as_str();
        assert_eq!(status.code, Code::OperationFailed, "{message}");
        assert!(status.trident_error.is_none() && message.contains(says), "{says}: {message}");
        assert!(!message.contains("SECRET"), "{message}");
    }
    for _ in 0..99 {
        bench.trident.next(Method::UpdateStage, busy(Script::new()));
    }
    let status = bench.carry_out(&bench.request(Operation::Stage)).await;
    assert!(status.message.as_str().contains("busy"), "{}", status.message);
    assert!(status.trident_error.is_none());
});

bench_test!(a_success_without_work_is_told_apart, async |bench| {
    for (kind, good) in [
        (ServicingKind::AbUpdate, true),
        (ServicingKind::NoneRequired, false),
        (ServicingKind::RuntimeUpdate, false),
        (ServicingKind::CleanInstall, false),
    ] {
        bench.trident.next(Method::UpdateStage, Script::new().claim(kind));
        let update = Uuid::new_v4();
        let status = bench.carry_out(&bench.request_of(update, Operation::Stage)).await;
        bench.report().await.expect("all is delivered");
        assert_eq!(status.code == Code::Success, good, "{kind:?}: {}", status.message);
        assert_eq!(bench.state().staged.is_some(), good, "{kind:?}");
    }
    assert_eq!(bench.trident.booted_slot().version, trident_lab::lab::OLD, "not {NEW}");
});
