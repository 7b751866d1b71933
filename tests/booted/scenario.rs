//! The main job, the same with any API server.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trident_lab::kube::ApiServer;
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, OLD, Request, SOON, STATUS, TRACK};
use trident_lab::nebraska::{InstanceStatus, OmahaRequest};
use uuid::Uuid;

use super::{carry_out, committed};

/// Stage, finalize, reboot and commit, with all that the node, tridentd and Nebraska can tell of it.
pub(crate) async fn an_update_from_stage_to_commit<K: ApiServer>(lab: &Lab<K>) -> Result<()> {
    let boot = lab.node.boot_id().await?;
    let id = Uuid::new_v4();
    let stage = Request::stage(id);
    let staged = carry_out(lab, &stage, "Success").await?;
    ensure!(lab.codes(STATUS, &stage) == ["InProgress", "Success"]);
    check_status(&staged, &stage, "stage")?;
    ensure!(lab.node.boot_id().await? == boot, "a stage must not reboot");

    let finalize = Request::finalize(id);
    let finalized = carry_out(lab, &finalize, "Success").await?;
    ensure!(lab.codes(STATUS, &finalize) == ["InProgress", "Success"]);
    check_status(&finalized, &finalize, "finalize")?;
    let commit = committed(lab, &finalize, "Success").await?;
    ensure!(lab.codes(COMMIT_STATUS, &finalize) == ["InProgress", "Success"]);
    check_status(&commit, &finalize, "commit")?;
    ensure!(lab.version().await? == NEW);
    ensure!(lab.node.boot_id().await? != boot && lab.node.boot_count() == 2);
    ensure!(lab.trident.strangers().is_empty(), "{:?}", lab.trident.strangers());
    check_nebraska(lab).await
}

/// Versions, ids and times of a terminal status.
fn check_status(status: &Value, request: &Request, operation: &str) -> Result<()> {
    ensure!(status["operation"] == operation && status["schemaVersion"] == "1.0", "{status}");
    ensure!(status["operationId"] == request.operation_id(), "{status}");
    ensure!(status["nodeUpdateId"] == request.node_update_id(), "{status}");
    ensure!(status["fromVersion"] == OLD && status["toVersion"] == NEW, "{status}");
    ensure!(status["tridentVersion"] == env!("CARGO_PKG_VERSION"), "{status}");
    let time = |field: &str| -> Result<jiff::Timestamp> {
        Ok(status[field].as_str().context("no time")?.parse()?)
    };
    let (started, finished) = (time("startedUtc")?, time("finishedUtc")?);
    ensure!(started <= finished && finished <= time("lastUpdatedUtc")?, "{status}");
    ensure!((jiff::Timestamp::now() - started).get_seconds() < 300, "{status}");
    Ok(())
}

/// Back to the old version, after an update.
pub(crate) async fn a_rollback<K: ApiServer>(lab: &Lab<K>) -> Result<()> {
    let rollback = Request::rollback(Uuid::new_v4());
    let status = carry_out(lab, &rollback, "Success").await?;
    ensure!(status["fromVersion"] == NEW && status.get("toVersion").is_none(), "{status}");
    let commit = committed(lab, &rollback, "Success").await?;
    ensure!(lab.codes(COMMIT_STATUS, &rollback) == ["InProgress", "Success"]);
    ensure!(commit["fromVersion"] == NEW && commit.get("toVersion").is_none(), "{commit}");
    ensure!(lab.version().await? == OLD && lab.node.boot_count() == 3);
    // The update's events, and none of the rollback.
    check_nebraska(lab).await
}

/// The events of the whole update, in order, and how the instance ended.
async fn check_nebraska<K: ApiServer>(lab: &Lab<K>) -> Result<()> {
    let done = |requests: &[OmahaRequest]| {
        requests.iter().any(|request| request.events().contains(&(3, 2)))
    };
    lab.nebraska.wait_for(SOON, done).await.with_context(|| lab.story())?;
    let machine = lab.machine()?;
    lab.nebraska.wait_for_status(&machine, InstanceStatus::Complete, SOON).await?;
    let requests = lab.nebraska.requests();
    let events: Vec<_> = requests.iter().flat_map(|request| request.events()).collect();
    ensure!(events == [(13, 1), (14, 1), (800, 1), (3, 2)], "{events:?}");
    let last = requests.last().and_then(|request| request.app()).context("no app")?;
    ensure!(last.ping.is_some() && last.update_check.is_some(), "{last:?}");
    ensure!(last.events[0].previous_version.as_deref() == Some(OLD) && last.version() == NEW);
    ensure!(lab.nebraska.dropped_events().is_empty(), "{:?}", lab.nebraska.dropped_events());
    for request in &requests {
        ensure!(request.app().is_some_and(|app| app.track() == TRACK));
        ensure!(!request.raw.contains(lab.node.machine_id()), "the raw machine id was sent");
    }
    let instance = lab.nebraska.instance(&machine).context("no instance")?;
    ensure!(!instance.update_in_progress && instance.version == NEW, "{instance:?}");
    Ok(())
}
