//! tridentd does not come to an end within the time that the settings give it: the status says so, and nothing
//! is rebooted for it.

use trident_acl_agent::contract::{Code, Operation, Status};
use trident_acl_agent::operate::Ended;
use trident_lab::lab::SOON;
use trident_lab::trident::{Method, Script};
use uuid::Uuid;

use crate::bench::Bench;

fn is_said(status: &Status, says: &str) {
    let message = status.message.as_str();
    assert_eq!(status.code, Code::OperationFailed, "{message}");
    assert!(status.trident_error.is_none(), "{message}");
    assert!(message.contains("within 1s") && message.contains(says), "{says}: {message}");
}

fn limit(bench: &mut Bench, time: &str) {
    bench.set("ORCHESTRATION_STAGE_TIMEOUT", time);
    bench.set("ORCHESTRATION_FINALIZE_TIMEOUT", time);
}

/// The operation while this call does not end; then the call ends without effect, and the same is done well.
async fn late(bench: &mut Bench, operation: Operation, method: Method, says: &str) {
    let update = Uuid::new_v4();
    if operation == Operation::Finalize {
        bench.carry_out_well(&bench.request_of(update, Operation::Stage)).await;
    }
    limit(bench, "1s");
    let gate = bench.trident.hold(method, Script::new().cut(false));
    let status = bench.carry_out(&bench.request_of(update, operation)).await;
    is_said(&status, says);
    assert!(bench.state().pending_commit.is_none(), "{method:?}: it would be rebooted");
    let calls = bench.trident.calls_of(method).len();
    gate.release();
    bench.trident.wait_ended(method, calls, SOON).await.expect("it ends");
    limit(bench, "");
}

bench_test!(each_call_has_its_time_and_the_status_says_when_it_is_over, async |mut bench| {
    late(&mut bench, Operation::Stage, Method::UpdateStage, "staging").await;
    late(&mut bench, Operation::Finalize, Method::UpdateFinalize, "may be armed").await;
    let update = bench.update().await;
    late(&mut bench, Operation::Rollback, Method::RollbackStage, "staging the rollback").await;
    late(&mut bench, Operation::Rollback, Method::RollbackFinalize, "may be armed").await;

    let rollback = bench.request_of(update, Operation::Rollback);
    bench.carry_out_well(&rollback).await;
    bench.reboot();
    limit(&mut bench, "1s");
    let gate = bench.trident.hold(Method::Commit, Script::new());
    let calls = bench.trident.calls_of(Method::Commit).len();
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::OperationFailed));
    let id = trident_acl_agent::contract::Id::parse(rollback.operation_id()).unwrap();
    let commit = bench.state().find(&id).unwrap().commit.clone().unwrap();
    is_said(&commit.status, "committing");
    gate.release();
    bench.trident.wait_ended(Method::Commit, calls + 1, SOON).await.expect("it ends");
    assert_eq!(bench.commit().await.unwrap(), Ended::Idle, "one outcome, and no second call");
    assert_eq!(bench.trident.calls_of(Method::Commit).len(), calls + 1);
});
