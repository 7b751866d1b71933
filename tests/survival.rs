//! The watcher dies, the servers go away, nobody is resident: the update goes on.

mod booted;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use booted::{QUICK_REPORT, carry_out, committed, eventually, expect_code, nothing_is_owed};
use tokio::time::{Instant, sleep};
use trident_lab::kube::{Fault, Verb};
use trident_lab::lab::{COMMIT_STATUS, Lab, Mode, NEW, NODE, OLD, Request, SOON, STATUS, WATCHER};
use trident_lab::nebraska::InstanceStatus;
use trident_lab::trident::{Gate, Method, Script};
use uuid::Uuid;

booted::on_each_release!(
    a_killed_and_a_restarted_watcher_during_a_stage,
    a_stuck_watcher_is_ended_by_its_watchdog,
    the_heartbeat_is_the_only_write,
    a_stuck_operation_has_no_heartbeat,
    both_servers_away_from_the_finalize_on,
    an_event_under_way_is_not_told_twice,
    a_whole_update_with_nobody_resident,
    a_setting_taken_away_is_gone,
    a_full_state_directory_is_said_once,
    somebody_else_writes_the_status_too,
    the_node_goes_and_comes_back_and_a_stop_waits_for_no_server,
);

/// A stage that tridentd works on until the gate is released.
async fn held_stage(lab: &Lab) -> Result<(Request, Gate)> {
    let gate = lab.trident.hold(Method::UpdateStage, Script::new());
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    gate.reached().await;
    Ok((stage, gate))
}

async fn a_killed_and_a_restarted_watcher_during_a_stage(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let (stage, gate) = held_stage(&lab).await?;
    let operation = lab.node.show(&stage.unit(), "MainPID").await?;
    let first = lab.node.show(WATCHER, "MainPID").await?;
    lab.node.systemctl(&["kill", "--signal=KILL", WATCHER]).await?.text()?;
    eventually("systemd restarted the watcher", || async {
        let now = lab.node.show(WATCHER, "MainPID").await?;
        Ok(now != "0" && now != first && lab.node.show(WATCHER, "ActiveState").await? == "active")
    })
    .await?;
    lab.node.systemctl(&["restart", WATCHER]).await?.text()?;
    ensure!(lab.node.show(&stage.unit(), "MainPID").await? == operation, "the stage did not go on");
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    ensure!(lab.codes(STATUS, &stage) == ["InProgress", "Success"]);
    ensure!(lab.trident.calls_of(Method::UpdateStage).len() == 1);

    // It ends while nobody watches.
    let (stage, gate) = held_stage(&lab).await?;
    lab.node.systemctl(&["stop", WATCHER]).await?.text()?;
    gate.release();
    eventually("the stage ended", || async {
        Ok(lab.node.show(&stage.unit(), "SubState").await? == "exited")
    })
    .await?;
    lab.node.systemctl(&["start", WATCHER]).await?.text()?;
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    ensure!(lab.trident.calls_of(Method::UpdateStage).len() == 2);
    Ok(())
}

async fn a_stuck_watcher_is_ended_by_its_watchdog(setup: booted::Setup) -> Result<()> {
    let quick = "/etc/systemd/system/trident-acl-agent.service.d/60-quick.conf";
    let lab = setup.file(quick, "[Service]\nWatchdogSec=2s\nRestartSec=100ms\n").boot().await?;
    let first = lab.node.show(WATCHER, "MainPID").await?;
    // An idle one says often enough that it lives.
    sleep(Duration::from_secs(5)).await;
    ensure!(lab.node.show(WATCHER, "MainPID").await? == first, "{}", lab.story());
    lab.node.systemctl(&["kill", "--signal=STOP", WATCHER]).await?.text()?;
    eventually("systemd restarted the watcher", || async {
        let now = lab.node.show(WATCHER, "MainPID").await?;
        Ok(now != "0" && now != first && lab.node.show(WATCHER, "ActiveState").await? == "active")
    })
    .await?;
    carry_out(&lab, &Request::stage(Uuid::new_v4()), "Success").await?;
    Ok(())
}

async fn the_heartbeat_is_the_only_write(setup: booted::Setup) -> Result<()> {
    let lab = setup.setting("ORCHESTRATION_HEARTBEAT_INTERVAL", "2s").boot().await?;
    let (stage, gate) = held_stage(&lab).await?;
    let (begun, writes) = (Instant::now(), lab.kube.count(Verb::Patch));
    let mut last = String::new();
    for _ in 0..3 {
        let before = last.clone();
        let id = stage.operation_id().to_owned();
        let status = lab
            .kube
            .wait_for_annotation(NODE, STATUS, SOON, move |status| {
                let updated = status["lastUpdatedUtc"].as_str().unwrap_or_default();
                status["operationId"] == id.as_str() && updated > before.as_str()
            })
            .await?;
        ensure!(status["code"] == "InProgress" && status.get("finishedUtc").is_none(), "{status}");
        last = status["lastUpdatedUtc"].as_str().context("no time")?.to_owned();
        // The kubelet's own writes wake nobody to write.
        lab.kube.touch(NODE);
        lab.kube.annotate(NODE, "example.com/noise", Some(&last));
    }
    let written = lab.kube.count(Verb::Patch) - writes;
    let intervals = usize::try_from(begun.elapsed().as_secs() / 2)?;
    ensure!(written >= 2 && written <= intervals + 1, "{written} writes in {intervals} intervals");
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    no_write_while_idle(&lab).await
}

/// For three intervals, with a busy Node.
async fn no_write_while_idle(lab: &Lab) -> Result<()> {
    let (patches, gets) = (lab.kube.count(Verb::Patch), lab.kube.count(Verb::Get));
    for round in 0..12 {
        lab.kube.annotate(NODE, "example.com/noise", Some(&round.to_string()));
        lab.kube.touch(NODE);
        sleep(Duration::from_millis(500)).await;
    }
    ensure!(lab.kube.count(Verb::Patch) == patches, "an idle agent wrote");
    ensure!(lab.kube.count(Verb::Get) <= gets + 1, "an idle agent read");
    Ok(())
}

async fn a_stuck_operation_has_no_heartbeat(setup: booted::Setup) -> Result<()> {
    let lab = setup.setting("ORCHESTRATION_HEARTBEAT_INTERVAL", "2s").boot().await?;
    let (stage, gate) = held_stage(&lab).await?;
    lab.node.systemctl(&["kill", "--signal=STOP", &stage.unit()]).await?.text()?;
    // The sign of life goes stale after half a minute; from then on nothing may be written.
    sleep(Duration::from_secs(34)).await;
    let writes = lab.kube.count(Verb::Patch);
    sleep(Duration::from_secs(6)).await;
    ensure!(lab.kube.count(Verb::Patch) == writes, "a heartbeat of a stuck operation");
    lab.node.systemctl(&["kill", "--signal=CONT", &stage.unit()]).await?.text()?;
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")
}

async fn both_servers_away_from_the_finalize_on(setup: booted::Setup) -> Result<()> {
    let (path, text) = QUICK_REPORT;
    let setup = setup.setting("ORCHESTRATION_PUBLISH_MAX_WAIT", "3s").file(path, text);
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    carry_out(&lab, &Request::stage(id), "Success").await?;
    let told = |pair: (i64, i64)| {
        move |requests: &[trident_lab::nebraska::OmahaRequest]| {
            requests.iter().any(|request| request.events().contains(&pair))
        }
    };
    lab.nebraska.wait_for(SOON, told((14, 1))).await?;

    let gate = lab.trident.hold(Method::UpdateFinalize, Script::new());
    let finalize = Request::finalize(id);
    lab.ask(&finalize)?;
    gate.reached().await;
    lab.kube.inject(Fault::Refuse);
    lab.nebraska.inject(Fault::Refuse);
    gate.release();
    lab.node.wait_boot(2, SOON).await?;
    lab.trident.wait_ended(Method::Commit, 1, SOON).await?;
    ensure!(lab.version().await? == NEW);
    ensure!(lab.codes(STATUS, &finalize) == ["InProgress"], "it was to be away");
    sleep(Duration::from_secs(3)).await;

    lab.kube.clear_faults();
    lab.nebraska.clear_faults();
    let status = lab.terminal(STATUS, &finalize, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    committed(&lab, &finalize, "Success").await?;
    ensure!(lab.codes(COMMIT_STATUS, &finalize) == ["InProgress", "Success"]);
    lab.nebraska.wait_for_status(&lab.machine()?, InstanceStatus::Complete, SOON).await?;
    let requests = lab.nebraska.requests();
    let taken = requests.iter().filter(|request| request.processed);
    let events: Vec<_> = taken.flat_map(|request| request.events()).collect();
    ensure!(events == [(13, 1), (14, 1), (800, 1), (3, 2)], "{events:?}");
    ensure!(lab.node.boot_count() == 2 && lab.trident.calls_of(Method::Commit).len() == 1);
    Ok(())
}

async fn a_whole_update_with_nobody_resident(setup: booted::Setup) -> Result<()> {
    let (path, text) = QUICK_REPORT;
    let timer = "/etc/systemd/system/trident-acl-agent-reconcile.timer.d/50-quick.conf";
    let lab = setup.mode(Mode::Reconcile).file(path, text).file(timer, text).boot().await?;
    let id = Uuid::new_v4();
    let gate = lab.trident.hold(Method::UpdateStage, Script::new());
    let stage = Request::stage(id);
    lab.ask(&stage)?;
    gate.reached().await;
    ensure!(lab.node.show(WATCHER, "ActiveState").await? == "inactive", "a watcher runs");
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;
    let finalize = Request::finalize(id);
    carry_out(&lab, &finalize, "Success").await?;
    committed(&lab, &finalize, "Success").await?;
    ensure!(lab.version().await? == NEW);
    lab.nebraska.wait_for_status(&lab.machine()?, InstanceStatus::Complete, SOON).await?;

    let rollback = Request::rollback(id);
    carry_out(&lab, &rollback, "Success").await?;
    committed(&lab, &rollback, "Success").await?;
    ensure!(lab.version().await? == OLD && lab.node.boot_count() == 3);
    for request in [&stage, &finalize, &rollback] {
        ensure!(lab.codes(STATUS, request) == ["InProgress", "Success"]);
    }
    // Nothing of it is left running.
    let watched = lab.kube.count(Verb::Watch);
    ensure!(watched == 0, "a pass watched");
    Ok(())
}

async fn a_setting_taken_away_is_gone(setup: booted::Setup) -> Result<()> {
    let site = "/etc/systemd/system/trident-acl-agent-.service.d/50-site.conf";
    let name = "TRIDENT_ACL_AGENT_ORCHESTRATION_STAGE_TIMEOUT";
    let text = format!("[Service]\nEnvironment={name}=40m\n");
    let lab = setup.mode(Mode::Disabled).file(site, &text).boot().await?;
    let pass = ["start", "trident-acl-agent-reconcile.service"];
    let export = "/run/trident-acl-agent/environment.json";
    lab.node.systemctl(&pass).await?;
    ensure!(lab.node.read_file(export).await?.contains(name), "it was never there");
    lab.node.run(&["rm", site]).await?.text()?;
    lab.node.systemctl(&["daemon-reload"]).await?.text()?;
    lab.node.systemctl(&pass).await?;
    let left = lab.node.read_file(export).await?;
    ensure!(!left.contains("TRIDENT_ACL_AGENT_"), "handed on: {left}");
    Ok(())
}

async fn a_full_state_directory_is_said_once(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let fill = "d=/var/lib/trident-acl-agent; systemctl stop trident-acl-agent; \
        mount -t tmpfs -o size=8k tmpfs $d; dd if=/dev/zero of=$d/junk bs=4k count=2; \
        systemctl start trident-acl-agent";
    lab.node.run(&["sh", "-c", fill]).await?.text()?;
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    eventually("the status line says why", || async {
        Ok(lab.node.show(WATCHER, "StatusText").await?.contains("No space left"))
    })
    .await?;
    sleep(Duration::from_secs(12)).await;
    let records = lab.node.journal(&["-u", WATCHER])?;
    let said = |it: &&serde_json::Value| it["MESSAGE"].to_string().contains("cannot go on");
    ensure!(records.iter().filter(said).count() == 1, "{}", lab.story());
    ensure!(lab.codes(STATUS, &stage).is_empty(), "announced without a record");
    lab.node.run(&["rm", "/var/lib/trident-acl-agent/junk"]).await?.text()?;
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")
}

async fn somebody_else_writes_the_status_too(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let stage = Request::stage(Uuid::new_v4());
    let status = carry_out(&lab, &stage, "Success").await?;
    let (begun, writes) = (Instant::now(), lab.kube.count(Verb::Patch));
    while begun.elapsed() < Duration::from_secs(8) {
        lab.kube.annotate(NODE, STATUS, None);
        sleep(Duration::from_millis(20)).await;
    }
    let written = lab.kube.count(Verb::Patch) - writes;
    ensure!(written <= 3, "it races: {written} writes in 8 s");
    let again = lab.terminal(STATUS, &stage, SOON).await?;
    ensure!(again["finishedUtc"] == status["finishedUtc"], "{again}");
    Ok(())
}

async fn an_event_under_way_is_not_told_twice(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    // The answer to the event of the finished download comes late: after systemd wants the report to end.
    let slow = |lab: &Lab| lab.nebraska.inject(Fault::Stall(40).on(Verb::Omaha).times(1));
    let gate = lab.trident.hold(Method::UpdateStage, Script::new());
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    gate.reached().await;
    let told = |pair: (i64, i64)| {
        move |requests: &[trident_lab::nebraska::OmahaRequest]| {
            requests.iter().any(|request| request.events().contains(&pair))
        }
    };
    lab.nebraska.wait_for(SOON, told((13, 1))).await?;
    // Its answer has arrived: the next one is that of the finished download.
    nothing_is_owed(&lab).await?;
    slow(&lab);
    gate.release();
    lab.nebraska.wait_for(SOON, told((14, 1))).await?;
    let report = "trident-acl-agent-report.service";
    lab.node.systemctl(&["stop", "--no-block", report]).await?.text()?;
    sleep(Duration::from_secs(1)).await;
    ensure!(lab.node.show(report, "ActiveState").await? == "deactivating", "it broke off");
    Ok(())
}

async fn the_node_goes_and_comes_back_and_a_stop_waits_for_no_server(
    setup: booted::Setup,
) -> Result<()> {
    let lab = setup.setting("ORCHESTRATION_NODE_GONE_MAX_WAIT", "6s").boot().await?;
    let (stage, gate) = held_stage(&lab).await?;
    lab.kube.delete_node(NODE);
    eventually("the watcher knows", || async {
        Ok(lab.node.show(WATCHER, "StatusText").await?.contains("the Node does not exist"))
    })
    .await?;
    lab.kube.add_node(NODE);
    gate.release();
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;

    // The status of this one is on its way to a server that does not answer.
    lab.kube.inject(Fault::Hang.on(Verb::Patch));
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    let on_its_way = |requests: &[trident_lab::tls::serve::RequestRecord]| {
        requests.iter().any(|it| it.verb == Verb::Patch && it.status.is_none() && !it.ended)
    };
    lab.kube.wait_for_requests(SOON, on_its_way).await?;
    let begun = Instant::now();
    lab.node.systemctl(&["stop", WATCHER]).await?.text()?;
    ensure!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    ensure!(lab.node.show(WATCHER, "Result").await? == "success", "{}", lab.story());
    lab.kube.clear_faults();
    lab.node.systemctl(&["start", WATCHER]).await?.text()?;
    let status = lab.terminal(STATUS, &stage, SOON).await?;
    expect_code(&lab, &status, "Success")?;

    let completed = || async {
        let state = lab.node.read_file("/var/lib/trident-acl-agent/state.json").await?;
        anyhow::Ok(serde_json::from_str::<serde_json::Value>(&state)?["completed"].clone())
    };
    let all_published = || async {
        let completed = completed().await?;
        Ok(completed.as_array().is_some_and(|all| all.iter().all(|it| it["published"] == true)))
    };
    eventually("all of it is recorded as published", all_published).await?;
    let remembered = completed().await?;
    lab.kube.delete_node(NODE);
    eventually("the watcher gives up", || async {
        Ok(lab.node.show(WATCHER, "ActiveState").await? == "failed")
    })
    .await?;
    ensure!(lab.node.show(WATCHER, "ExecMainStatus").await? == "69", "{}", lab.story());
    let said = lab.story();
    ensure!(said.contains("has not existed for 6s") && said.contains("kubelet"), "{said}");
    ensure!(lab.node.show(WATCHER, "NRestarts").await? == "0", "it was started again");
    ensure!(completed().await? == remembered, "it forgot");
    Ok(())
}
