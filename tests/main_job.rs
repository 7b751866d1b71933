//! The main job on a booted node: stage, finalize, reboot, commit, rollback.

mod booted;

use anyhow::{Result, ensure};
use trident_lab::lab::{COMMIT_STATUS, NEW, OLD, Request, SOON, STATUS};
use uuid::Uuid;

booted::on_each_release!(an_update_from_stage_to_commit);

async fn an_update_from_stage_to_commit(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let update = Uuid::new_v4();
    let stage = Request::stage(update);
    let status = lab.carry_out(&stage, SOON).await?;
    ensure!(status["code"] == "Success", "{status}\n{}", lab.story());
    ensure!(lab.codes(STATUS, &stage) == ["InProgress", "Success"]);

    let finalize = Request::finalize(update);
    let status = lab.carry_out(&finalize, SOON).await?;
    ensure!(status["code"] == "Success", "{status}\n{}", lab.story());
    let status = lab.terminal(COMMIT_STATUS, &finalize, SOON).await?;
    ensure!(status["code"] == "Success", "{status}\n{}", lab.story());
    ensure!(lab.codes(COMMIT_STATUS, &finalize) == ["InProgress", "Success"]);
    ensure!(status["fromVersion"] == OLD && status["toVersion"] == NEW, "{status}");
    ensure!(lab.version().await? == NEW);
    Ok(())
}
