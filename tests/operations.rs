//! Operations whose neighbours or own processes fail them, on a booted node.

mod booted;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use booted::{carry_out, committed, eventually, expect_code, nothing_is_owed};
use serde_json::json;
use tokio::time::sleep;
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, OLD, REQUEST, Request, SOON, STATUS};
use trident_lab::nebraska::InstanceStatus;
use trident_lab::trident::{Gate, InFlight, Method, Outcome, Script};
use uuid::Uuid;

booted::on_each_release!(
    a_killed_stage_is_resumed,
    an_operation_that_always_dies_is_given_up,
    what_is_stuck_is_ended_by_systemd,
    nebraska_has_no_such_update,
    time_outs_and_a_busy_tridentd,
    a_commit_waits_for_tridentd,
    a_finalize_that_died_while_arming,
    a_blocked_reboot_says_who_holds_it,
    a_broken_request_under_the_id_of_a_running_one,
    events_go_to_allowed_servers_only_and_never_stand_in_the_way,
    the_connection_checks,
    the_boot_has_no_cycle_and_the_units_are_valid,
);

const COMMIT: &str = "trident-acl-agent-commit.service";

/// Waits until the process of the operation's unit is another, and kills it.
async fn kill_next(lab: &Lab, request: &Request, known: &mut String) -> Result<()> {
    eventually("the unit has a new process", || async {
        let pid = lab.node.show(&request.unit(), "MainPID").await?;
        Ok(pid != "0" && pid != *known)
    })
    .await?;
    *known = lab.node.show(&request.unit(), "MainPID").await?;
    lab.node.systemctl(&["kill", "--signal=KILL", &request.unit()]).await?.text()?;
    Ok(())
}

async fn a_killed_stage_is_resumed(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let gate = lab.trident.hold(Method::UpdateStage, Script::new());
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    gate.reached().await;
    kill_next(&lab, &stage, &mut String::new()).await?;
    // The call of the dead client still runs: the resumed stage is told "busy", and waits.
    eventually("the stage is started again", || async {
        Ok(lab
            .node
            .journal(&["-u", &stage.unit()])?
            .iter()
            .any(|it| it["MESSAGE"].to_string().contains("start 2")))
    })
    .await?;
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    ensure!(lab.codes(STATUS, &stage) == ["InProgress", "Success"]);
    // It went on with the offer that it had accepted: one download for Nebraska.
    let machine = lab.machine()?;
    lab.nebraska.wait_for_status(&machine, InstanceStatus::Downloaded, SOON).await?;
    let events: Vec<_> = lab.nebraska.requests().iter().flat_map(|it| it.events()).collect();
    ensure!(!events.contains(&(3, 0)), "{events:?}");
    Ok(())
}

async fn an_operation_that_always_dies_is_given_up(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let _gate = lab.trident.hold(Method::UpdateStage, Script::new());
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    let mut known = String::new();
    for _ in 0..4 {
        kill_next(&lab, &stage, &mut known).await?;
    }
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "AgentInternalError")?;
    let message = status["message"].as_str().context("no message")?;
    ensure!(message.contains("signal") && message.contains("4 starts"), "{message}");
    Ok(())
}

/// systemd's own limit, shortened by drop-ins, ends a program that no longer runs its own.
async fn what_is_stuck_is_ended_by_systemd(setup: booted::Setup) -> Result<()> {
    let drop_in = |unit: &str| format!("/etc/systemd/system/{unit}.d/60-short.conf");
    let operations = ["stage", "finalize", "rollback"].map(|it| format!("trident-acl-agent-{it}-"));
    let short = |setup: booted::Setup, prefix: &String| {
        setup.file(&drop_in(&format!("{prefix}.service")), "[Service]\nTimeoutStartSec=2s\n")
    };
    let setup = operations.iter().fold(setup, short);
    let setup = setup.file(&drop_in(COMMIT), "[Service]\nTimeoutStartSec=2s\nRestartSec=100ms\n");
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    let stage = Request::stage(id);
    let gate = get_stuck(&lab, &stage, Method::UpdateStage).await?;
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "AgentInternalError")?;
    let message = status["message"].as_str().context("no message")?;
    ensure!(message.contains("\"timeout\"") && message.contains("4 starts"), "{message}");
    ensure!(lab.node.show(&stage.unit(), "Result").await? == "timeout");
    gate.release();

    carry_out(&lab, &Request::stage(id), "Success").await?;
    let finalize = Request::finalize(id);
    let gate = get_stuck(&lab, &finalize, Method::UpdateFinalize).await?;
    goes_on(&lab, &finalize, Method::UpdateFinalize, gate).await?;
    let rollback = Request::rollback(id);
    let gate = get_stuck(&lab, &rollback, Method::RollbackFinalize).await?;
    goes_on(&lab, &rollback, Method::RollbackFinalize, gate).await?;
    ensure!(lab.version().await? == OLD && lab.node.boot_count() == 3);
    Ok(())
}

/// The operation stops for good while tridentd works on its call.
async fn get_stuck(lab: &Lab, request: &Request, method: Method) -> Result<Gate> {
    let gate = lab.trident.hold(method, Script::new());
    lab.ask(request)?;
    gate.reached().await;
    lab.node.systemctl(&["kill", "--signal=STOP", &request.unit()]).await?.text()?;
    Ok(gate)
}

/// systemd ends it and the watcher starts it again, to one outcome; and the same with its commit.
async fn goes_on(lab: &Lab, request: &Request, method: Method, gate: Gate) -> Result<()> {
    eventually("it is started again", || async {
        let records = lab.node.journal(&["-u", &request.unit()])?;
        Ok(records.iter().any(|it| it["MESSAGE"].to_string().contains("running, start 2")))
    })
    .await?;
    let commit = lab.trident.hold(Method::Commit, Script::new());
    gate.release();
    let status = lab.terminal(STATUS, request, SOON).await?;
    expect_code(lab, &status, "Success")?;
    let ends: Vec<_> = lab.trident.calls_of(method).into_iter().map(|it| it.outcome).collect();
    let good = ends.iter().filter(|end| matches!(end, Some(Outcome::Succeeded(_))));
    ensure!(good.count() == 1, "{method:?}: {ends:?}");

    commit.reached().await;
    lab.node.systemctl(&["kill", "--signal=STOP", COMMIT]).await?.text()?;
    eventually("systemd ends it, and starts it again", || async {
        let restarts = lab.node.show(COMMIT, "NRestarts").await?;
        Ok(restarts.parse::<u32>().is_ok_and(|restarts| restarts > 0))
    })
    .await?;
    commit.release();
    committed(lab, request, "Success").await?;
    ensure!(lab.codes(COMMIT_STATUS, request) == ["InProgress", "Success"]);
    Ok(())
}

async fn nebraska_has_no_such_update(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    let other = Request::stage(id).with("targetVersion", json!("202607.1.0"));
    let status = carry_out(&lab, &other, "OperationFailed").await?;
    ensure!(status["message"].to_string().contains(NEW), "the offer is named: {status}");
    let unknown = Request::stage(id).with("track", json!("nobody"));
    let status = carry_out(&lab, &unknown, "OperationFailed").await?;
    ensure!(status["message"].to_string().contains("unknownApplicationOrGroup"), "{status}");
    let here = Request::stage(id).with("targetVersion", json!(OLD));
    carry_out(&lab, &here, "AlreadyAtTarget").await?;
    ensure!(lab.trident.calls_of(Method::UpdateStage).is_empty());
    let events: Vec<_> = lab.nebraska.requests().iter().flat_map(|it| it.events()).collect();
    ensure!(events.is_empty(), "nothing was begun, so nothing failed: {events:?}");
    carry_out(&lab, &Request::stage(id), "Success").await?;
    Ok(())
}

async fn time_outs_and_a_busy_tridentd(setup: booted::Setup) -> Result<()> {
    let setup = setup
        .setting("ORCHESTRATION_STAGE_TIMEOUT", "3s")
        .setting("ORCHESTRATION_FINALIZE_TIMEOUT", "3s");
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    let gate = lab.trident.hold(Method::UpdateStage, Script::new());
    let status = carry_out(&lab, &Request::stage(id), "OperationFailed").await?;
    ensure!(status.get("tridentError").is_none(), "{status}");
    ensure!(status["message"].to_string().contains("3s"), "{status}");
    // That call still runs: the next stage is told "busy", and waits it out.
    let stage = Request::stage(id);
    lab.ask(&stage)?;
    sleep(Duration::from_secs(1)).await;
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    let gate = lab.trident.hold(Method::UpdateFinalize, Script::new());
    let status = carry_out(&lab, &Request::finalize(id), "OperationFailed").await?;
    ensure!(status["message"].to_string().contains("may be armed"), "{status}");
    ensure!(lab.node.boot_count() == 1);
    drop(gate);
    Ok(())
}

async fn a_commit_waits_for_tridentd(setup: booted::Setup) -> Result<()> {
    let retry = "/etc/systemd/system/trident-acl-agent-commit.service.d/50-quick.conf";
    let setup = setup
        .setting("ORCHESTRATION_FINALIZE_TIMEOUT", "2s")
        .file(retry, "[Service]\nRestartSec=1s\n");
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    carry_out(&lab, &Request::stage(id), "Success").await?;
    let finalize = Request::finalize(id);
    carry_out(&lab, &finalize, "Success").await?;
    lab.trident.stop(InFlight::Finish);
    eventually("the commit was tried and failed", || async {
        let records = lab.node.journal(&["-u", "trident-acl-agent-commit.service"])?;
        Ok(records
            .iter()
            .any(|it| it["MESSAGE"].to_string().contains("could not be asked to commit")))
    })
    .await?;
    ensure!(lab.codes(COMMIT_STATUS, &finalize) == ["InProgress"]);
    lab.trident.start()?;
    committed(&lab, &finalize, "Success").await?;
    ensure!(lab.node.boot_count() == 2);
    Ok(())
}

async fn a_finalize_that_died_while_arming(setup: booted::Setup) -> Result<()> {
    for offers_state in [true, false] {
        let lab = setup.clone().boot().await?;
        lab.trident.offer_status_service(offers_state);
        let id = Uuid::new_v4();
        carry_out(&lab, &Request::stage(id), "Success").await?;
        let gate = lab.trident.hold(Method::UpdateFinalize, Script::new());
        let finalize = Request::finalize(id);
        lab.ask(&finalize)?;
        gate.reached().await;
        // The daemon finishes the call of a client that is gone: the boot is armed, and nobody was told.
        lab.node.systemctl(&["kill", "--signal=KILL", &finalize.unit()]).await?.text()?;
        gate.release();
        if offers_state {
            let status = lab.terminal(STATUS, &finalize, SOON).await?;
            expect_code(&lab, &status, "Success")?;
            committed(&lab, &finalize, "Success").await?;
            ensure!(lab.trident.calls_of(Method::UpdateFinalize).len() == 1, "it was armed twice");
        } else {
            // A second finalize is all that is left to ask, and it is an error: never a false success.
            let status = lab.terminal(STATUS, &finalize, SOON).await?;
            expect_code(&lab, &status, "OperationFailed")?;
            ensure!(lab.node.boot_count() == 1 && lab.trident.calls_of(Method::Commit).is_empty());
        }
    }
    Ok(())
}

async fn a_blocked_reboot_says_who_holds_it(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    carry_out(&lab, &Request::stage(id), "Success").await?;
    let block = [
        "systemd-run",
        "-q",
        "--unit=block",
        "systemd-inhibit",
        "--who=the backup",
        "--why=it runs",
    ];
    let block: Vec<_> = block.into_iter().chain(["--mode=block", "sleep", "3600"]).collect();
    lab.node.run(&block).await?.text()?;
    eventually("the inhibitor is held", || async {
        Ok(lab.node.run(&["systemd-inhibit", "--list"]).await?.stdout.contains("the backup"))
    })
    .await?;
    let finalize = Request::finalize(id);
    lab.ask(&finalize)?;
    // Until systemd 257, root is not held by anybody.
    let version = lab.node.systemctl(&["--version"]).await?.stdout;
    if version.starts_with("systemd 257") {
        let id = finalize.operation_id().to_owned();
        let held = move |status: &serde_json::Value| {
            status["operationId"] == id.as_str()
                && status["message"].to_string().contains("the backup (it runs)")
        };
        let status = lab.kube.wait_for_annotation(trident_lab::lab::NODE, STATUS, SOON, held).await;
        let status = status.with_context(|| lab.story())?;
        ensure!(status["code"] == "Success", "{status}");
        ensure!(lab.node.boot_count() == 1);
        lab.node.systemctl(&["stop", "block.service"]).await?.text()?;
    }
    committed(&lab, &finalize, "Success").await?;
    ensure!(lab.node.boot_count() == 2);
    Ok(())
}

async fn a_broken_request_under_the_id_of_a_running_one(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let gate = lab.trident.hold(Method::UpdateStage, Script::new());
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    gate.reached().await;
    lab.ask(&stage.clone().with("typo", json!("x")))?;
    sleep(Duration::from_secs(2)).await;
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    sleep(Duration::from_secs(2)).await;
    ensure!(lab.codes(STATUS, &stage) == ["InProgress", "Success"], "{}", lab.story());
    Ok(())
}

/// An operation that is recovered from what the Node says went through no check of its server, and may lack
/// the version that it left.
async fn events_go_to_allowed_servers_only_and_never_stand_in_the_way(
    setup: booted::Setup,
) -> Result<()> {
    for allowed in ["elsewhere.example", ""] {
        let setup = setup.clone().setting("ORCHESTRATION_ALLOWED_SERVERS", allowed);
        let lab = setup.boot().await?;
        let finalize = Request::finalize(Uuid::new_v4()).with("targetVersion", json!(OLD));
        // One without the other is a begun finalize that nobody asked for.
        let (begun, asked) = (finalize.begun().to_string(), finalize.text());
        lab.kube.annotate_together(trident_lab::lab::NODE, &[(STATUS, &begun), (REQUEST, &asked)]);
        eventually("the event is dropped", || async {
            let records = lab.node.journal(&["-t", "trident-acl-agent"])?;
            Ok(records.iter().any(|it| it["MESSAGE"].to_string().contains("dropping the event")))
        })
        .await?;
        nothing_is_owed(&lab).await?;
        ensure!(lab.nebraska.requests().is_empty(), "{}", lab.story());
    }
    Ok(())
}

async fn the_connection_checks(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let settings = [
        "SSL_CERT_FILE=/etc/lab-ca.pem",
        "TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT=https://updates.lab.test:8443/v1/update",
        "TRIDENT_ACL_AGENT_NEBRASKA_APP_ID=11111111-2222-3333-4444-555555555555",
        "TRIDENT_ACL_AGENT_NEBRASKA_TRACK=pin-202606.29.0",
    ];
    for (dependency, said) in
        [("kubernetes", "Node node-1"), ("tridentd", "version"), ("nebraska", "knows the app")]
    {
        let check = ["trident-acl-agent", "--validate-connection", dependency];
        let command: Vec<_> = ["env"].into_iter().chain(settings).chain(check).collect();
        let checked = lab.node.run(&command).await?;
        ensure!(checked.code == Some(0) && checked.stderr.contains(said), "{checked:?}");
        ensure!(checked.stderr.contains("effective settings"), "{checked:?}");
    }
    ensure!(lab.nebraska.instances().is_empty(), "a probe registers nothing");
    lab.kube.delete_node(trident_lab::lab::NODE);
    lab.trident.stop(InFlight::Abort);
    for dependency in ["kubernetes", "tridentd", "nebraska"] {
        let checked =
            lab.node.run(&["trident-acl-agent", "--validate-connection", dependency]).await?;
        ensure!(checked.code == Some(1), "{checked:?}");
        ensure!(
            checked.stderr.lines().last().is_some_and(|last| last.contains("check ")),
            "{checked:?}"
        );
    }
    Ok(())
}

async fn the_boot_has_no_cycle_and_the_units_are_valid(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let cycles = lab.node.journal(&["--grep=ordering cycle"])?;
    ensure!(cycles.is_empty(), "{cycles:?}");
    let units = lab
        .node
        .run(&["sh", "-c", "cd /usr/lib/systemd/system && ls -d trident-acl-agent*.*e*"])
        .await?;
    let mut verify = vec!["systemd-analyze", "verify", "--man=no"];
    let names = units.stdout.lines().filter(|name| !name.ends_with(".d")).map(str::trim);
    verify.extend(names);
    ensure!(verify.len() == 10, "{verify:?}");
    let verified = lab.node.run(&verify).await?;
    let ours: Vec<_> = verified.stderr.lines().filter(|line| line.contains("trident")).collect();
    ensure!(verified.code == Some(0) && ours.is_empty(), "{verified:?}");
    Ok(())
}
