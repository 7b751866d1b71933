//! The API server is away, new, or without the Node; the annotations are full.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use trident_lab::control_plane::{ControlPlane, Stop};
use trident_lab::kube::ApiServer;
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, NODE, OLD, Request, SOON, STATUS};
use trident_lab::trident::proto::v1::TridentErrorKind;
use trident_lab::trident::{Fault, Gate, Method, Script};
use uuid::Uuid;

use super::{lab, setup, status_line};
use crate::booted::{carry_out, committed, eventually, expect_code};

/// All annotations of one object, as the API server counts them.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// An operation that tridentd works on until the gate is released.
async fn held(
    lab: &Lab<ControlPlane>,
    method: Method,
    script: Script,
    request: &Request,
) -> Result<Gate> {
    let gate = lab.trident.hold(method, script);
    lab.ask(request)?;
    gate.reached().await;
    Ok(gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_is_away_in_each_phase() -> Result<()> {
    let lab = lab(setup().setting("ORCHESTRATION_PUBLISH_MAX_WAIT", "3s")).await?;
    let id = Uuid::new_v4();

    // While nothing happens.
    lab.kube.stop(Stop::InOrder)?;
    status_line(&lab, "API server: ").await?;
    lab.kube.start_again().await?;

    // From within the stage to after its end.
    let stage = Request::stage(id);
    let gate = held(&lab, Method::UpdateStage, Script::new(), &stage).await?;
    lab.kube.stop(Stop::Killed)?;
    gate.release();
    eventually("the stage ended", || async {
        Ok(lab.node.show(&stage.unit(), "SubState").await? == "exited")
    })
    .await?;
    lab.kube.start_again().await?;
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    ensure!(lab.codes(STATUS, &stage) == ["InProgress", "Success"]);

    // From within the finalize to after the commit.
    let finalize = Request::finalize(id);
    let gate = held(&lab, Method::UpdateFinalize, Script::new(), &finalize).await?;
    lab.kube.stop(Stop::Killed)?;
    gate.release();
    lab.node.wait_boot(2, SOON).await?;
    lab.trident.wait_ended(Method::Commit, 1, SOON).await?;
    lab.kube.start_again().await?;
    told(&lab, &finalize).await?;
    ensure!(lab.version().await? == NEW && lab.node.boot_count() == 2);

    // From the announced reboot to after the commit.
    let gate = lab.trident.hold(Method::Commit, Script::new());
    let rollback = Request::rollback(id);
    carry_out(&lab, &rollback, "Success").await?;
    gate.reached().await;
    lab.kube.stop(Stop::InOrder)?;
    gate.release();
    lab.trident.wait_ended(Method::Commit, 2, SOON).await?;
    lab.kube.start_again().await?;
    told(&lab, &rollback).await?;
    ensure!(lab.version().await? == OLD && lab.node.boot_count() == 3);
    Ok(())
}

/// Both statuses of an operation with a reboot, each once and in order.
async fn told(lab: &Lab<ControlPlane>, request: &Request) -> Result<()> {
    let status = lab.terminal(STATUS, request, SOON).await?;
    expect_code(lab, &status, "Success")?;
    committed(lab, request, "Success").await?;
    ensure!(lab.codes(STATUS, request) == ["InProgress", "Success"]);
    ensure!(lab.codes(COMMIT_STATUS, request) == ["InProgress", "Success"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_forgets_the_node_goes_and_there_is_no_room() -> Result<()> {
    let lab = lab(setup()).await?;
    forgotten_events(&lab).await?;
    a_new_node(&lab).await?;
    no_room(&lab).await
}

/// A watch goes on at a server that does not know any more what was since.
async fn forgotten_events(lab: &Lab<ControlPlane>) -> Result<()> {
    status_line(lab, "idle; watching Node").await?;
    // Of this the watch on another Node hears nothing, so its version is older.
    lab.kube.add_node("node-2")?;
    lab.kube.replace().await?;
    let forgotten = || async { Ok(lab.story().contains("410 Expired: too old resource version")) };
    eventually("the watch is told to begin anew", forgotten).await.with_context(|| lab.story())?;
    carry_out(lab, &Request::stage(Uuid::new_v4()), "Success").await?;
    Ok(())
}

/// The Node is deleted and registered again during a stage: its status stands on the new one.
async fn a_new_node(lab: &Lab<ControlPlane>) -> Result<()> {
    let stage = Request::stage(Uuid::new_v4());
    let gate = held(lab, Method::UpdateStage, Script::new(), &stage).await?;
    lab.kube.admin().expect(&["delete", "node", NODE])?;
    status_line(lab, "the Node does not exist").await?;
    gate.release();
    eventually("the stage ended", || async {
        Ok(lab.node.show(&stage.unit(), "SubState").await? == "exited")
    })
    .await?;
    lab.kube.add_node(NODE)?;
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(lab, &status, "Success")?;
    carry_out(lab, &Request::stage(Uuid::new_v4()), "Success").await?;
    Ok(())
}

/// A status that is refused for its size stands there without its message.
async fn no_room(lab: &Lab<ControlPlane>) -> Result<()> {
    let why = Fault::new(TridentErrorKind::ServicingError, "broke", &"why ".repeat(400));
    let stage = Request::stage(Uuid::new_v4());
    let gate = held(lab, Method::UpdateStage, Script::new().fail(why), &stage).await?;
    let node = lab.kube.admin().get(&["node", NODE])?;
    let annotations = node["metadata"]["annotations"].as_object().context("no annotations")?;
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    let taken: usize = annotations.iter().map(size).sum();
    let key = "example.com/filler";
    // Room for a status that ends, and not for why.
    let filler = "x".repeat(ANNOTATIONS_LIMIT - taken - key.len() - 500);
    let patch = json!({"metadata": {"annotations": {key: filler}}});
    ensure!(lab.kube.admin().patch(NODE, &patch, &[])?.is_none(), "it does not fit");
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(lab, &status, "OperationFailed")?;
    ensure!(status["tridentError"]["subkind"] == "broke", "{status}");
    let message = status["message"].as_str().context("no message")?;
    ensure!(!message.contains("why"), "it fitted: {status}");
    Ok(())
}
