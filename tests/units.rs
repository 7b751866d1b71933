//! What systemd shows and enforces: units, drop-ins, sandboxes, the journal.
#![expect(clippy::print_stderr, reason = "the scores are worth a look in the log of a run")]

mod booted;

use anyhow::{Context, Result, ensure};
use booted::{carry_out, update};
use serde_json::{Value, json};
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, Request, SOON, WATCHER};
use trident_lab::trident::proto::v1::{LogLevel, TridentErrorKind};
use trident_lab::trident::{Fault, Method, Record, Script};
use uuid::Uuid;

booted::on_each_release!(
    finished_units_stay_visible,
    drop_ins_reach_what_they_name,
    every_sandbox_is_tight_and_works,
    the_journal_tells_one_request_whole,
    nothing_runs_without_its_sandbox,
);

const COMMIT: &str = "trident-acl-agent-commit.service";

/// Slotted extensions that wait for their boot, and a loader's report of each boot.
fn with_extensions(setup: booted::Setup) -> booted::Setup {
    let report = json!({ "schemaVersion": "1.0", "loaderVersion": "0", "outcome": "published",
        "slot": "b", "store": "/var/trident/extensions", "updateBoot": true, "published": [],
        "leftOut": [], "steps": [] });
    let placed =
        "d /run/trident 0755\nC /run/trident/slot-loader.json 0600 - - - /etc/lab-report.json\n";
    setup
        .file("/etc/lab-report.json", &report.to_string())
        .file("/usr/lib/tmpfiles.d/lab-slots.conf", placed)
        .file(PENDING, r#"{"schemaVersion":"1.0","slot":"b"}"#)
}

const PENDING: &str = "/var/trident/extensions/slot-loader.pending";

async fn finished_units_stay_visible(setup: booted::Setup) -> Result<()> {
    let lab = with_extensions(setup).boot().await?;
    let id = Uuid::new_v4();
    let good = Request::stage(id);
    carry_out(&lab, &good, "Success").await?;
    let status = lab.node.systemctl(&["status", "--no-pager", &good.unit()]).await?;
    ensure!(status.code == Some(0) && status.stdout.contains("active (exited)"), "{status:?}");
    ensure!(status.stdout.contains("staged update to"), "{status:?}");
    let journal = lab.node.run(&["journalctl", "--no-pager", "-u", &good.unit()]).await?;
    ensure!(journal.stdout.contains("staged update to"), "{journal:?}");

    let bad = Request::stage(id);
    let fault = Fault::new(TridentErrorKind::ServicingError, "broke", "made to fail");
    lab.trident.next(Method::UpdateStage, Script::new().fail(fault));
    carry_out(&lab, &bad, "OperationFailed").await?;
    ensure!(lab.node.run(&["test", "-e", PENDING]).await?.code == Some(0));
    let failed = lab.node.systemctl(&["--failed", "--plain", "--no-legend"]).await?;
    ensure!(failed.stdout.contains(&bad.unit()), "{failed:?}");
    ensure!(lab.node.show(&bad.unit(), "ExecMainStatus").await? == "1");
    // The next operation clears what is finished, and only then.
    ensure!(lab.node.show(&good.unit(), "LoadState").await? == "not-found");

    update(&lab).await?;
    let status = lab.node.systemctl(&["status", "--no-pager", COMMIT]).await?;
    ensure!(status.stdout.contains("it was committed"), "{status:?}");
    ensure!(!status.stdout.contains("extensions cannot be confirmed"), "{status:?}");
    ensure!(lab.node.run(&["test", "-e", PENDING]).await?.code == Some(1), "{status:?}");
    let failed = lab.node.systemctl(&["--failed", "--plain", "--no-legend"]).await?;
    ensure!(failed.stdout.trim().is_empty(), "{failed:?}");
    Ok(())
}

async fn drop_ins_reach_what_they_name(setup: booted::Setup) -> Result<()> {
    let stage_only = "/etc/systemd/system/trident-acl-agent-stage-.service.d/50-mine.conf";
    let setup = setup
        .setting("ORCHESTRATION_STAGE_TIMEOUT", "7m")
        .setting("ORCHESTRATION_FINALIZE_TIMEOUT", "3m")
        .file(
            stage_only,
            "[Service]\nNice=7\nEnvironment=TRIDENT_ACL_AGENT_ORCHESTRATION_STAGE_TIMEOUT=6m\n",
        );
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    let stage = Request::stage(id);
    carry_out(&lab, &stage, "Success").await?;
    ensure!(lab.node.show(&stage.unit(), "Nice").await? == "7");
    ensure!(lab.node.show(&stage.unit(), "TimeoutStartUSec").await? == "12min");
    let drop_ins = lab.node.show(&stage.unit(), "DropInPaths").await?;
    for part in
        ["agent-.service.d/05-sandbox.conf", "stage-.service.d/10-defaults.conf", stage_only]
    {
        ensure!(drop_ins.contains(part), "{drop_ins}");
    }
    let said = settings_of(&lab, &stage.unit())?;
    ensure!(said.contains("ORCHESTRATION_STAGE_TIMEOUT=6m"), "the step's own wins: {said}");
    ensure!(said.contains("ORCHESTRATION_FINALIZE_TIMEOUT=3m"), "the watcher's reaches it: {said}");

    let gate = lab.trident.hold(Method::UpdateFinalize, Script::new());
    let finalize = Request::finalize(id);
    lab.ask(&finalize)?;
    gate.reached().await;
    ensure!(lab.node.show(&finalize.unit(), "Nice").await? == "0");
    ensure!(lab.node.show(&finalize.unit(), "TimeoutStartUSec").await? == "8min");
    let said = settings_of(&lab, &finalize.unit())?;
    ensure!(said.contains("ORCHESTRATION_STAGE_TIMEOUT=7m"), "{said}");
    gate.release();
    lab.terminal(COMMIT_STATUS, &finalize, SOON).await?;
    let said = settings_of(&lab, COMMIT)?;
    ensure!(
        said.contains("ORCHESTRATION_FINALIZE_TIMEOUT=3m"),
        "the commit after the boot too: {said}"
    );
    Ok(())
}

/// The last settings that a unit logged.
fn settings_of(lab: &Lab, unit: &str) -> Result<String> {
    let records = lab.node.journal(&["-u", unit])?;
    let mut said = records.iter().filter_map(|record| record["MESSAGE"].as_str());
    let last = said.rfind(|said| said.contains("effective settings"));
    Ok(last.with_context(|| lab.story())?.to_owned())
}

async fn every_sandbox_is_tight_and_works(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    let stage = Request::stage(id);
    carry_out(&lab, &stage, "Success").await?;
    let report = "trident-acl-agent-report.service";
    let reconcile = "trident-acl-agent-reconcile.service";
    for unit in [WATCHER, COMMIT, report, reconcile, &stage.unit()] {
        check_exposure(&lab, unit).await?;
    }
    let rollback = Request::rollback(id);
    carry_out(&lab, &rollback, "OperationFailed").await?;
    check_exposure(&lab, &rollback.unit()).await?;
    let gate = lab.trident.hold(Method::UpdateFinalize, Script::new());
    let finalize = Request::finalize(id);
    lab.ask(&finalize)?;
    gate.reached().await;
    check_exposure(&lab, &finalize.unit()).await?;
    gate.release();
    lab.terminal(COMMIT_STATUS, &finalize, SOON).await?;
    // Nothing that the kernel or systemd refused: names resolved, state written, sockets reached.
    let refused = lab.node.journal(&["-p", "warning", "-t", "trident-acl-agent"])?;
    let said: Vec<_> = refused.iter().map(|record| record["MESSAGE"].to_string()).collect();
    let unexpected: Vec<_> = said.iter().filter(|said| !is_expected(said)).collect();
    ensure!(unexpected.is_empty(), "{unexpected:?}");
    Ok(())
}

/// The rollback with nothing to roll back, the bus that goes away in a shutdown, and a commit that counts as
/// overdue while boot still has it queued: the uptime of a container is its host's.
fn is_expected(said: &str) -> bool {
    let expected = [
        "nothing to roll back",
        "lost systemd's signals",
        "cannot go on, trying again",
        "the commit is overdue",
    ];
    expected.iter().any(|expected| said.contains(expected))
}

async fn check_exposure(lab: &Lab, unit: &str) -> Result<()> {
    let command = ["systemd-analyze", "security", "--no-pager", "--threshold=20", unit];
    let output = lab.node.run(&command).await?;
    ensure!(output.code == Some(0), "{unit} is exposed: {}", output.stdout);
    let overall = output.stdout.lines().find(|line| line.contains("Overall exposure level"));
    eprintln!("{}", overall.with_context(|| format!("{output:?}"))?.trim());
    Ok(())
}

async fn the_journal_tells_one_request_whole(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    let stage = Request::stage(id);
    let levels = [(LogLevel::Error, "3"), (LogLevel::Warn, "4"), (LogLevel::Info, "6")];
    for (level, _) in levels {
        // One stage for each level.
        let stage = Request::stage(id);
        let record =
            Record::new(level, "writing the image").from_module("trident::engine", "engine");
        lab.trident.next(Method::UpdateStage, Script::new().logs(3, record));
        carry_out(&lab, &stage, "Success").await?;
        let records = lab.node.journal(&[&field("OPERATION_ID", stage.operation_id())])?;
        let of_trident: Vec<_> =
            records.iter().filter(|record| record["MESSAGE"] == "writing the image").collect();
        ensure!(of_trident.len() == 3, "{records:?}");
        let priority = levels.iter().find(|(it, _)| *it == level).map(|(_, priority)| *priority);
        ensure!(
            of_trident.iter().all(|record| record["PRIORITY"] == json!(priority)),
            "{of_trident:?}"
        );
    }
    carry_out(&lab, &stage, "Success").await?;
    let finalize = Request::finalize(id);
    carry_out(&lab, &finalize, "Success").await?;
    booted::committed(&lab, &finalize, "Success").await?;
    check_fields(&lab, &stage, "stage", &[&stage.unit(), WATCHER])?;
    check_fields(&lab, &finalize, "finalize", &[&finalize.unit(), WATCHER, COMMIT])?;
    for (message_id, at_least) in [("01", 5), ("02", 5), ("03", 1), ("04", 1)] {
        let id = format!("MESSAGE_ID=b1d4f0a4ad974b4d8b8f2e4c1f0c6a{message_id}");
        let found = lab.node.journal(&[&id])?.len();
        ensure!(found >= at_least, "{id}: {found}");
    }
    check_secrets(&lab)
}

fn field(name: &str, value: &str) -> String {
    format!("{name}={value}")
}

/// All units that worked on a request, found by its id alone, each record with all fields.
fn check_fields(lab: &Lab, request: &Request, operation: &str, units: &[&str]) -> Result<()> {
    let records = lab.node.journal(&[&field("OPERATION_ID", request.operation_id())])?;
    for unit in units {
        let of_unit = |record: &&Value| record["_SYSTEMD_UNIT"] == *unit;
        ensure!(records.iter().any(|record| of_unit(&record)), "{unit}: {records:?}");
    }
    for record in &records {
        ensure!(record["NODE_UPDATE_ID"] == request.node_update_id(), "{record}");
        ensure!(record["OPERATION"] == operation || record["OPERATION"] == "commit", "{record}");
        ensure!(record["TARGET_VERSION"] == NEW, "{record}");
    }
    Ok(())
}

/// No path or query of a URL, no certificate, no key.
fn check_secrets(lab: &Lab) -> Result<()> {
    for record in lab.node.journal(&["-t", "trident-acl-agent"])? {
        let said = record.to_string();
        for secret in ["/v1/update", "/images/", "PRIVATE KEY", "BEGIN CERT"] {
            ensure!(!said.contains(secret), "{said}");
        }
    }
    Ok(())
}

async fn nothing_runs_without_its_sandbox(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let sandbox = "/usr/lib/systemd/system/trident-acl-agent-.service.d/05-sandbox.conf";
    let drop_in = "/usr/lib/systemd/system/trident-acl-agent-stage-.service.d/10-defaults.conf";
    for path in [sandbox, drop_in] {
        lab.node.run(&["mv", path, "/root/kept"]).await?.text()?;
        let stage = Request::stage(Uuid::new_v4());
        let status = carry_out(&lab, &stage, "AgentInternalError").await?;
        let name = path.trim_start_matches("/usr/lib/systemd/system/");
        ensure!(status["message"].as_str().is_some_and(|said| said.contains(name)), "{status}");
        ensure!(lab.node.show(&stage.unit(), "LoadState").await? == "not-found");
        ensure!(lab.trident.calls_of(Method::UpdateStage).is_empty());
        lab.node.run(&["mv", "/root/kept", path]).await?.text()?;
    }
    carry_out(&lab, &Request::stage(Uuid::new_v4()), "Success").await?;
    Ok(())
}
