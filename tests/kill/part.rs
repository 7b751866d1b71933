//! One part of an update, with its stops, from the request until nothing is left to do.

use std::future::pending;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, NODE, OLD, Request, STATUS};
use trident_lab::stops::Side;
use trident_lab::trident::proto::v1preview::ServicingState;
use trident_lab::trident::{InFlight, Method, Script};
use uuid::Uuid;

use super::booted::eventually;
use super::judge::{self, Before};
use super::row::{Key, Part, Row, Stop, Way};
use super::switch::{OtherSlot, Switch};

pub(crate) const WATCHER: &str = "trident-acl-agent.service";
const COMMIT: &str = "trident-acl-agent-commit.service";
const REPORT: &str = "trident-acl-agent-report.service";
const STATE: &str = "/var/lib/trident-acl-agent/state.json";
/// How long a part may take: other nodes boot at the same time, and a shutdown flushes everybody's files.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a settled node is watched for a stop that does not come.
const NEVER: Duration = Duration::from_secs(2);
/// How long tridentd still works on the call that it was stopped in.
const WORK: Duration = Duration::from_millis(1500);

/// Lines of the journal in an error.
const STORY: usize = 120;

/// How a part went.
pub(crate) struct Ended {
    /// Since the last stop.
    pub(crate) passed: Vec<Key>,
    /// The stop that it did not come by.
    pub(crate) missed: Option<Stop>,
    /// The one boot of the other slot was cut off, and the node came back on the one it had.
    pub(crate) fell_back: bool,
}

/// Asks for it, stops where it is told to, and judges the end.
pub(crate) async fn run(lab: &Lab, id: Uuid, row: &Row) -> Result<Ended> {
    let (part, stops) = (row.course.part, row.stops());
    let request = match part {
        Part::Stage => Request::stage(id),
        Part::Finalize => Request::finalize(id),
        Part::Rollback => Request::rollback(id),
    };
    let before = Before::of(lab);
    let failed = failed(lab).await?;
    let held = row.course.way == Way::Held && part == Part::Finalize;
    if held {
        block_reboot(lab).await?;
    }
    stops.iter().for_each(|stop| keep_busy(lab, &stop.key));
    let switch = Switch::set(&lab.stops, &row.course, lab.node.boot_count(), &stops);
    lab.ask(&request)?;
    let ended = tokio::select! {
        settled = settle(lab, row, &request, (&switch, &failed)) => settled,
        // Neither ends well before that, and then neither has anything left to do.
        broken = keep_power(lab, part, &switch) => broken,
        broken = let_go(lab, &request), if held => broken,
    };
    let passed = switch.passed();
    lab.stops.let_all_pass();
    let hits = switch.hits();
    let judged = match ended {
        Ok(()) => before.judge(lab, part, &request, &hits).await,
        Err(error) => Err(error),
    };
    judged.map_err(|error| anyhow!("{error:#}\n{}\n{}", tail(&lab.story()), lab.node.story()))?;
    Ok(Ended { passed, missed: switch.missing(), fell_back: judge::falls_back(&hits) })
}

fn tail(story: &str) -> String {
    let lines: Vec<_> = story.lines().collect();
    lines.get(lines.len().saturating_sub(STORY)..).unwrap_or_default().join("\n")
}

/// A process that is stopped after its call leaves a daemon that still works on it.
fn keep_busy(lab: &Lab, stopped: &Key) {
    let method = match stopped.of.as_str() {
        "staging the update" => Method::UpdateStage,
        "finalizing the update" => Method::UpdateFinalize,
        "staging the rollback" => Method::RollbackStage,
        "finalizing the rollback" => Method::RollbackFinalize,
        "committing" => Method::Commit,
        _ => return,
    };
    if (stopped.step, stopped.side) == ("trident.call", Side::After) {
        lab.trident.next(method, Script::new().delay(WORK));
    }
}

async fn block_reboot(lab: &Lab) -> Result<()> {
    let block = ["systemd-run", "-q", "--unit=block", "systemd-inhibit", "--who=the backup"];
    let block = [&block[..], &["--why=it runs", "--mode=block", "sleep", "3600"]].concat();
    lab.node.run(&block).await?.text()?;
    eventually("the inhibitor is held", || async {
        Ok(lab.node.run(&["systemd-inhibit", "--list"]).await?.stdout.contains("the backup"))
    })
    .await
}

/// Lets the reboot happen once the status says who holds it, and that is recorded.
async fn let_go(lab: &Lab, request: &Request) -> Result<()> {
    let id = request.operation_id().to_owned();
    let held = move |status: &Value| {
        status["operationId"] == id.as_str() && status["message"].to_string().contains("held by")
    };
    if lab.kube.wait_for_annotation(NODE, STATUS, LIMIT, held).await.is_ok() {
        let published = || lab.node.layer().read(STATE).is_ok_and(|text| is_published(&text));
        eventually("it is recorded", || async { Ok(published()) }).await?;
        // The power may have been cut, and the inhibitor with it.
        let _ = lab.node.systemctl(&["stop", "block.service"]).await;
    }
    pending().await
}

fn is_published(state: &[u8]) -> bool {
    let state: Value = serde_json::from_slice(state).unwrap_or_default();
    state["completed"].as_array().is_some_and(|done| done.iter().all(|it| it["published"] == true))
}

/// Cuts the power, and switches it on again, whenever the switch says so.
async fn keep_power(lab: &Lab, part: Part, switch: &Switch) -> Result<()> {
    let mut changes = lab.stops.changes();
    loop {
        if switch.is_frozen() {
            lab.trident.stop(InFlight::Abort);
            let slot = other_slot(lab, part);
            lab.node.kill_power().await?;
            if switch.loses() {
                lose(lab)?;
            }
            lab.trident.start()?;
            switch.thaw(slot);
            lab.node.boot_again().await?;
            if switch.holds_back() {
                commit_has_looked(lab, switch).await?;
                switch.let_resume();
                lab.stops.ask_again();
            }
        }
        changes.changed().await?;
    }
}

/// Of this boot; or the next stop has come before it. The node has only begun to boot.
async fn commit_has_looked(lab: &Lab, switch: &Switch) -> Result<()> {
    eventually("the commit has looked", || async {
        let exited = lab.node.show(COMMIT, "ExecMainExitTimestamp").await;
        Ok(!switch.holds_back() || exited.is_ok_and(|it| !it.is_empty()))
    })
    .await
}

/// The file, and what was to replace it.
fn lose(lab: &Lab) -> Result<()> {
    for path in [STATE.to_owned(), format!("{STATE}.new")] {
        match std::fs::remove_file(lab.node.layer().upper().join(path.trim_start_matches('/'))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn other_slot(lab: &Lab, part: Part) -> OtherSlot {
    let armed = [ServicingState::UpdateAbFinalized, ServicingState::ManualRollbackAbFinalized];
    match armed.contains(&lab.trident.servicing_state()) {
        false => OtherSlot::AsItIs,
        true if lab.trident.booted_slot().version == target(part) => OtherSlot::Trying,
        true => OtherSlot::Armed,
    }
}

/// The version that the node runs in the end.
pub(crate) fn target(part: Part) -> &'static str {
    if part == Part::Finalize { NEW } else { OLD }
}

/// Until the API server has everything, nothing is owed, everybody is at rest, and no stop is left to come.
///
/// What had failed before, stays.
async fn settle(
    lab: &Lab,
    row: &Row,
    request: &Request,
    (switch, failed): (&Switch, &[String]),
) -> Result<()> {
    let status = lab.terminal(STATUS, request, LIMIT).await?;
    if row.course.part.reboots() && (status["code"] == "Success" || !row.loses()) {
        lab.terminal(COMMIT_STATUS, request, LIMIT).await?;
    }
    let begun = Instant::now();
    let mut settled_since = None;
    loop {
        let unsettled = unsettled(lab, row.course.way, switch, failed).await;
        match (&unsettled, switch.missing(), settled_since) {
            (Ok(None), None, _) => return Ok(()),
            (Ok(None), Some(_), None) => settled_since = Some(Instant::now()),
            // Where two processes race, a point may be passed by another way.
            (Ok(None), Some(_), Some(since)) if since.elapsed() > NEVER => return Ok(()),
            (Ok(None), Some(_), Some(_)) => {}
            _ => settled_since = None,
        }
        ensure!(begun.elapsed() < LIMIT, "it does not come to rest: {unsettled:?}");
        sleep(Duration::from_millis(25)).await;
    }
}

/// What is still to come; an error where the node is off just now.
async fn unsettled(
    lab: &Lab,
    way: Way,
    switch: &Switch,
    known: &[String],
) -> Result<Option<String>> {
    if switch.is_frozen() {
        return Ok(Some("the power is being cut".to_owned()));
    }
    let state =
        lab.node.layer().read(STATE).or_else(|gone| switch.loses().then(Vec::new).ok_or(gone));
    let state: Value = match state? {
        lost if lost.is_empty() => json!({ "owedEvents": [], "completed": [] }),
        text => serde_json::from_slice(&text)?,
    };
    if !is_settled(&state) {
        return Ok(Some(state.to_string()));
    }
    let watcher = lab.node.show(WATCHER, "StatusText").await?;
    if way != Way::Passes && watcher != "idle; watching Node node-1" {
        return Ok(Some(watcher));
    }
    let report = lab.node.show(REPORT, "ActiveState").await?;
    if report != "inactive" {
        return Ok(Some(format!("the report is {report}")));
    }
    let unexplained = |unit: &String| !switch.explains(unit) && !known.contains(unit);
    Ok(failed(lab).await?.into_iter().find(unexplained).map(|unit| format!("{unit} has failed")))
}

async fn failed(lab: &Lab) -> Result<Vec<String>> {
    let failed = lab.node.systemctl(&["--failed", "--plain", "--no-legend"]).await?;
    let names = failed.text()?.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

fn is_settled(state: &Value) -> bool {
    let published = |it: &Value| it["published"] == true && it["commit"]["published"] != false;
    state.get("operation").is_none()
        && state.get("pendingCommit").is_none()
        && state["owedEvents"] == json!([])
        && state["completed"].as_array().is_some_and(|done| done.iter().all(published))
}
