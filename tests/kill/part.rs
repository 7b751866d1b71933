//! One part of an update, with its stops, from the request until nothing is left to do.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, OLD, Request, SOON, STATUS};
use trident_lab::trident::InFlight;
use trident_lab::trident::proto::v1preview::ServicingState;
use uuid::Uuid;

use super::judge::{self, Before};
use super::row::{Key, Part, Stop};
use super::switch::{OtherSlot, Switch};

pub(crate) const WATCHER: &str = "trident-acl-agent.service";
const REPORT: &str = "trident-acl-agent-report.service";
const STATE: &str = "/var/lib/trident-acl-agent/state.json";
/// How long a settled node is watched for a stop that does not come.
const NEVER: Duration = Duration::from_secs(2);

/// How a part went.
pub(crate) struct Ended {
    /// Since the last stop.
    pub(crate) passed: Vec<Key>,
    /// The one boot of the other slot was cut off, and the node came back on the one it had.
    pub(crate) fell_back: bool,
}

/// Asks for it, stops where it is told to, and judges the end.
pub(crate) async fn run(lab: &Lab, part: Part, id: Uuid, stops: &[Stop]) -> Result<Ended> {
    let request = match part {
        Part::Stage => Request::stage(id),
        Part::Finalize => Request::finalize(id),
        Part::Rollback => Request::rollback(id),
    };
    let before = Before::of(lab);
    let switch = Switch::set(&lab.stops, part, lab.node.boot_count(), stops);
    lab.ask(&request)?;
    let ended = tokio::select! {
        // The power is in no state that matters once everything is settled.
        settled = settle(lab, part, &request, &switch) => settled,
        broken = keep_power(lab, part, &switch) => broken,
    };
    let passed = switch.passed();
    lab.stops.let_all_pass();
    ended.with_context(|| lab.node.story())?;
    let hits = switch.hits();
    before.judge(lab, part, &request, &hits).await?;
    Ok(Ended { passed, fell_back: judge::falls_back(&hits) })
}

/// Cuts the power, and switches it on again, whenever the switch says so.
async fn keep_power(lab: &Lab, part: Part, switch: &Switch) -> Result<()> {
    let mut changes = lab.stops.changes();
    loop {
        if switch.is_frozen() {
            lab.trident.stop(InFlight::Abort);
            let slot = other_slot(lab, part);
            lab.node.kill_power().await?;
            lab.trident.start()?;
            switch.thaw(slot);
            lab.node.boot_again().await?;
        }
        changes.changed().await?;
    }
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

/// Until the API server has everything, nothing is owed, and everybody is at rest.
async fn settle(lab: &Lab, part: Part, request: &Request, switch: &Switch) -> Result<()> {
    lab.terminal(STATUS, request, SOON).await?;
    if part.reboots() {
        lab.terminal(COMMIT_STATUS, request, SOON).await?;
    }
    let begun = Instant::now();
    let mut settled_since = None;
    loop {
        let unsettled = unsettled(lab, switch).await;
        match (&unsettled, switch.missing(), settled_since) {
            (Ok(None), None, _) => return Ok(()),
            (Ok(None), Some(_), None) => settled_since = Some(Instant::now()),
            (Ok(None), Some(stop), Some(since)) if since.elapsed() > NEVER => {
                bail!("it was never stopped: {}", stop.key)
            }
            (Ok(None), Some(_), Some(_)) => {}
            _ => settled_since = None,
        }
        ensure!(begun.elapsed() < SOON, "it does not come to rest: {unsettled:?}\n{}", lab.story());
        sleep(Duration::from_millis(25)).await;
    }
}

/// What is still to come; an error where the node is off just now.
async fn unsettled(lab: &Lab, switch: &Switch) -> Result<Option<String>> {
    if switch.is_frozen() {
        return Ok(Some("the power is being cut".to_owned()));
    }
    let state: Value = serde_json::from_slice(&lab.node.layer().read(STATE)?)?;
    if !is_settled(&state) {
        return Ok(Some(state.to_string()));
    }
    let watcher = lab.node.show(WATCHER, "StatusText").await?;
    if watcher != "idle; watching Node node-1" {
        return Ok(Some(watcher));
    }
    let report = lab.node.show(REPORT, "ActiveState").await?;
    if report != "inactive" {
        return Ok(Some(format!("the report is {report}")));
    }
    let failed = lab.node.systemctl(&["--failed", "--plain", "--no-legend"]).await?;
    let unexplained = |line: &&str| !switch.explains(line);
    Ok(failed.text()?.lines().find(unexplained).map(str::to_owned))
}

fn is_settled(state: &Value) -> bool {
    let published = |it: &Value| it["published"] == true && it["commit"]["published"] != false;
    state.get("operation").is_none()
        && state.get("pendingCommit").is_none()
        && state["owedEvents"] == json!([])
        && state["completed"].as_array().is_some_and(|done| done.iter().all(published))
}
