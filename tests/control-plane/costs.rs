//! What an agent costs the API server, by the server's own metrics.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use trident_lab::control_plane::{ControlPlane, Costs};
use trident_lab::lab::{Lab, NEW, NODE, REQUEST, Request, SOON};
use trident_lab::tls::Pki;
use trident_lab::trident::Method;
use uuid::Uuid;

use super::{setup, status_line};
use crate::booted::eventually;

const WATCHER: &str = "trident-acl-agent.service";
/// Longer than a watch lives, so that its renewal is in it.
const WINDOW: Duration = Duration::from_secs(240);
const HOUR: Duration = Duration::from_secs(3600);

/// Nobody but the agent watches the Node here, and kubectl's own share is measured without the agent.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_costs() -> Result<()> {
    let pki = Pki::new();
    let plane = ControlPlane::start_unwatched(&pki).await?;
    let lab = setup().boot_with(plane, pki).await?;
    status_line(&lab, "idle; watching Node").await?;
    let idle = async || {
        tokio::time::sleep(WINDOW).await;
        Ok(())
    };
    let idle = during(&lab, idle).await?;
    let update = during(&lab, async || update(&lab).await).await?;
    // With a request and both statuses on the Node.
    let event = during(&lab, async || beat(&lab).await).await?;
    lab.node.systemctl(&["stop", WATCHER]).await?.text()?;
    let unheard = during(&lab, async || beat(&lab).await).await?;
    let request = Request::rollback(Uuid::new_v4());
    let asking = during(&lab, async || ask(&lab, &request).await).await?;
    show(&idle, &(event.clone() - &unheard), &(update.clone() - &asking - &asking))?;

    ensure!(idle.count("WATCH") >= 1, "the window holds no renewal: {idle:?}");
    let requests: u64 = idle.requests.values().sum();
    ensure!(requests <= 6 && idle.count("PATCH") == 0, "an idle agent: {idle:?}");
    ensure!(event.events == unheard.events + 1, "one event for one change: {event:?} {unheard:?}");
    // Two statuses each of the stage, the finalize and the commit; two requests by kubectl.
    ensure!(update.count("PATCH") == 8, "{update:?}");
    ensure!(update.wire.1 < 100_000, "{update:?}");
    Ok(())
}

async fn during(lab: &Lab<ControlPlane>, work: impl AsyncFnOnce() -> Result<()>) -> Result<Costs> {
    let before = lab.kube.costs()?;
    work().await?;
    Ok(lab.kube.costs()? - &before)
}

/// A kubelet's heartbeat.
async fn beat(lab: &Lab<ControlPlane>) -> Result<()> {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": now});
    let patch = json!({"status": {"conditions": [condition]}});
    let refused = lab.kube.admin().patch(NODE, &patch, &["--subresource=status"])?;
    ensure!(refused.is_none(), "{refused:?}");
    // It is told to all at once; this is for the counters.
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(())
}

async fn ask(lab: &Lab<ControlPlane>, request: &Request) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {REQUEST: request.text()}}});
    let refused = lab.kube.admin().patch(NODE, &patch, &[])?;
    ensure!(refused.is_none(), "{refused:?}");
    Ok(())
}

/// A whole update, seen from the node's side only: who looks at the Node would be counted.
async fn update(lab: &Lab<ControlPlane>) -> Result<()> {
    let id = Uuid::new_v4();
    ask(lab, &Request::stage(id)).await?;
    published(lab, 1).await?;
    ask(lab, &Request::finalize(id)).await?;
    lab.trident.wait_ended(Method::Commit, 1, SOON).await?;
    status_line(lab, "idle; watching Node").await?;
    published(lab, 3).await?;
    ensure!(lab.version().await? == NEW);
    Ok(())
}

/// Waits until so many terminal statuses are recorded as published, and none as not.
async fn published(lab: &Lab<ControlPlane>, count: usize) -> Result<()> {
    eventually("the statuses are published", || async {
        let state = lab.node.read_file("/var/lib/trident-acl-agent/state.json").await;
        let state = state.unwrap_or_default().replace(' ', "");
        let said = |word: &str| state.matches(word).count();
        Ok(said("ublished\":true") >= count && said("ublished\":false") == 0)
    })
    .await
}

/// For docs/benchmarks.md. Written past the test harness, which keeps to itself what a good test prints.
fn show(idle: &Costs, event: &Costs, update: &Costs) -> Result<()> {
    let per_hour = |count: u64| count * HOUR.as_secs() / WINDOW.as_secs();
    let verbs: Vec<_> =
        idle.requests.iter().map(|(verb, n)| format!("{verb} {}", per_hour(*n))).collect();
    let mut out = std::io::stderr().lock();
    writeln!(out, "costs: measured idle for {WINDOW:?}: {idle:?}")?;
    writeln!(out, "costs: idle, per hour: {}", verbs.join(", "))?;
    let (to, from) = (per_hour(idle.wire.0), per_hour(idle.wire.1));
    writeln!(out, "costs: idle, per hour: {to} bytes to the server, {from} back")?;
    writeln!(out, "costs: one change of the Node by somebody else: {event:?}")?;
    writeln!(out, "costs: one update, without kubectl's share: {update:?}")?;
    Ok(())
}
