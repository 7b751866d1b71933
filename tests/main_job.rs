//! The main job on a booted node: stage, finalize, reboot, commit, rollback, and how each can fail.

mod booted;

use anyhow::{Result, ensure};
use booted::{carry_out, committed, eventually, scenario, update};
use serde_json::{Value, json};
use trident_lab::kube::Verb;
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, NODE, OLD, Request, SOON, STATUS};
use trident_lab::nebraska::InstanceStatus;
use trident_lab::trident::proto::v1::TridentErrorKind;
use trident_lab::trident::{Fault, Method, Script};
use uuid::Uuid;

booted::on_each_release!(
    an_update_from_stage_to_commit,
    a_rollback_and_nothing_to_roll_back,
    a_boot_that_falls_back_is_reported_once,
    an_error_of_tridentd_in_each_call,
    the_same_request_again_and_others_in_between,
);

async fn an_update_from_stage_to_commit(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    scenario::an_update_from_stage_to_commit(&lab).await?;
    check_api_server(&lab)
}

/// Metadata only, of this one Node, about a kilobyte per event.
fn check_api_server(lab: &Lab) -> Result<()> {
    let requests = lab.kube.requests();
    let watches = || requests.iter().filter(|request| request.verb == Verb::Watch);
    ensure!(watches().count() > 0, "{requests:?}");
    let reads = requests.iter().filter(|request| request.verb == Verb::Get).count();
    ensure!(reads == 2, "one read at each start, and then the watch: {requests:?}");
    for request in &requests {
        let metadata =
            request.accept.as_deref().is_some_and(|it| it.contains("PartialObjectMetadata"));
        ensure!(metadata, "the whole Node was asked for: {request:?}");
    }
    for watch in watches() {
        ensure!(watch.query.contains("metadata.name%3Dnode-1"), "{watch:?}");
    }
    let (bytes, changes) =
        (watches().map(|watch| watch.bytes).sum::<u64>(), lab.kube.history(NODE).len());
    ensure!(bytes < 4096 * (u64::try_from(changes)? + 4), "{bytes} bytes for {changes} changes");
    Ok(())
}

async fn a_rollback_and_nothing_to_roll_back(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let before = (lab.node.boot_id().await?, lab.node.pid1_start_time()?);
    let nothing = carry_out(&lab, &Request::rollback(Uuid::new_v4()), "OperationFailed").await?;
    ensure!(
        nothing.get("tridentError").is_none() && nothing.get("toVersion").is_none(),
        "{nothing}"
    );
    ensure!((lab.node.boot_id().await?, lab.node.pid1_start_time()?) == before, "it rebooted");
    ensure!(lab.trident.calls_of(Method::RollbackFinalize).is_empty());

    update(&lab).await?;
    scenario::a_rollback(&lab).await
}

async fn a_boot_that_falls_back_is_reported_once(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    carry_out(&lab, &Request::stage(id), "Success").await?;
    let finalize = Request::finalize(id);
    lab.trident.fail_next_boot();
    carry_out(&lab, &finalize, "Success").await?;
    let commit = committed(&lab, &finalize, "TargetBootFailed").await?;
    ensure!(commit["tridentError"]["subkind"] == "ab-update-reboot-check", "{commit}");
    ensure!(lab.version().await? == OLD);
    let machine = lab.machine()?;
    lab.nebraska.wait_for_status(&machine, InstanceStatus::Error, SOON).await?;

    // The request is still on the Node. Neither a new watcher nor a new boot runs it again.
    let boots = lab.node.boot_count();
    lab.node.systemctl(&["restart", "trident-acl-agent.service"]).await?;
    idle(&lab).await?;
    lab.node.reboot().await?;
    idle(&lab).await?;
    ensure!(lab.node.boot_count() == boots + 1);
    ensure!(lab.trident.calls_of(Method::UpdateFinalize).len() == 1);
    ensure!(lab.codes(COMMIT_STATUS, &finalize) == ["InProgress", "TargetBootFailed"]);
    Ok(())
}

/// Waits until the watcher has looked at the Node and found nothing to do.
async fn idle(lab: &Lab) -> Result<()> {
    eventually("the watcher is idle", || async {
        let status = lab.node.show("trident-acl-agent.service", "StatusText").await?;
        Ok(status.starts_with("idle; watching Node"))
    })
    .await
}

async fn an_error_of_tridentd_in_each_call(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    fail_next(&lab, Method::UpdateStage, "stage-broke");
    let status = carry_out(&lab, &Request::stage(id), "OperationFailed").await?;
    check_error(&status, "stage-broke")?;
    carry_out(&lab, &Request::finalize(id), "NotStaged").await?;

    carry_out(&lab, &Request::stage(id), "Success").await?;
    fail_next(&lab, Method::UpdateFinalize, "finalize-broke");
    let status = carry_out(&lab, &Request::finalize(id), "OperationFailed").await?;
    check_error(&status, "finalize-broke")?;
    ensure!(lab.node.boot_count() == 1, "a failed finalize must not reboot");

    update(&lab).await?;
    fail_next(&lab, Method::RollbackStage, "rollback-stage-broke");
    let status = carry_out(&lab, &Request::rollback(id), "OperationFailed").await?;
    check_error(&status, "rollback-stage-broke")?;
    fail_next(&lab, Method::RollbackFinalize, "rollback-finalize-broke");
    let status = carry_out(&lab, &Request::rollback(id), "OperationFailed").await?;
    check_error(&status, "rollback-finalize-broke")?;
    ensure!(lab.node.boot_count() == 2, "a failed rollback must not reboot");

    fail_next(&lab, Method::Commit, "commit-broke");
    let rollback = Request::rollback(id);
    carry_out(&lab, &rollback, "Success").await?;
    let status = committed(&lab, &rollback, "OperationFailed").await?;
    check_error(&status, "commit-broke")
}

fn fail_next(lab: &Lab, method: Method, subkind: &str) {
    let fault =
        Fault::new(TridentErrorKind::ServicingError, subkind, "made to fail").at("src/x.rs", 7);
    lab.trident.next(method, Script::new().fail(fault));
}

fn check_error(status: &Value, subkind: &str) -> Result<()> {
    let location = json!({ "path": "src/x.rs", "line": 7 });
    let expected = json!({ "kind": "SERVICING_ERROR", "subkind": subkind, "location": location });
    ensure!(status["tridentError"] == expected, "{status}");
    Ok(())
}

async fn the_same_request_again_and_others_in_between(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    let stage = Request::stage(id);
    let first = carry_out(&lab, &stage, "Success").await?;
    // Asked again after another answer stood there: the recorded status, and no second run.
    carry_out(&lab, &Request::finalize(Uuid::new_v4()), "NotStaged").await?;
    let again = carry_out(&lab, &stage, "Success").await?;
    ensure!(again["finishedUtc"] == first["finishedUtc"], "{again}");
    ensure!(lab.trident.calls_of(Method::UpdateStage).len() == 1);

    // While a finalize runs, another is refused at once, and the first goes on.
    let gate = lab.trident.hold(Method::UpdateFinalize, Script::new());
    let finalize = Request::finalize(id);
    lab.ask(&finalize)?;
    gate.reached().await;
    carry_out(&lab, &Request::finalize(id), "InvalidRequest").await?;
    // A delay inhibitor keeps the reboot pending for a moment; logind honours it for five seconds.
    let delay = [
        "systemd-run",
        "-q",
        "--unit=delay",
        "systemd-inhibit",
        "--what=shutdown",
        "--mode=delay",
        "sleep",
        "60",
    ];
    lab.node.run(&delay).await?.text()?;
    eventually("the inhibitor is held", || async {
        let held = lab.node.run(&["systemd-inhibit", "--list", "--no-legend"]).await?;
        Ok(held.stdout.contains("delay"))
    })
    .await?;
    gate.release();
    let done = lab.terminal(STATUS, &finalize, SOON).await?;
    booted::expect_code(&lab, &done, "Success")?;
    // And while its reboot is pending.
    carry_out(&lab, &Request::finalize(id), "InvalidRequest").await?;
    carry_out(&lab, &Request::rollback(id), "InvalidRequest").await?;
    ensure!(lab.node.boot_count() == 1, "the inhibitor was not honoured");
    committed(&lab, &finalize, "Success").await?;
    ensure!(lab.trident.calls_of(Method::UpdateFinalize).len() == 1);
    ensure!(lab.version().await? == NEW);
    Ok(())
}
