//! `make bench`: figures of the release program on a booted node. It prints, and asserts nothing.

mod slots;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use trident_lab::kube::Verb;
use trident_lab::lab::{COMMIT_STATUS, Lab, Request, SOON, Setup, WATCHER};
use trident_lab::node::{BOOT_LIMIT, Release};
use trident_lab::trident::{Method, Script};
use uuid::Uuid;

/// How long an idle watcher is looked at. Its watch is renewed every 220 s.
const IDLE: Duration = Duration::from_secs(15);
/// How long tridentd works while heartbeats are counted, and how often they come.
const WORK: Duration = Duration::from_secs(9);
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Between a boot and a look at memory: a start has its own peaks.
const SETTLE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<()> {
    let agent = PathBuf::from(std::env::var_os("LAB_AGENT").context("use `make bench`")?);
    line("release program, stripped", &format!("{} bytes", fs::metadata(&agent)?.len()));
    let loader = agent.with_file_name("trident-slot-loader");
    line("slot loader, stripped", &format!("{} bytes", fs::metadata(&loader)?.len()));
    let (median, slowest) = slots::measure(&loader)?;
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let figure = format!("{:.2} ms, slowest {:.2} ms", millis(median), millis(slowest));
    line("  a load of 32 extensions", &figure);
    for release in Release::ALL {
        println!("\n{}", release.name());
        measure(release, agent.clone()).await?;
    }
    Ok(())
}

async fn measure(release: Release, agent: PathBuf) -> Result<()> {
    let heartbeat = format!("{}s", HEARTBEAT.as_secs());
    let setup = Setup::new(release, agent);
    let lab = setup.setting("ORCHESTRATION_HEARTBEAT_INTERVAL", &heartbeat).boot().await?;
    lab.kube.wait_for_watches(1, SOON).await?;
    memory(&lab, "idle watcher after boot").await?;
    idle(&lab).await;
    update(&lab).await?;
    memory(&lab, "idle watcher after an update").await?;
    mappings(&lab).await
}

async fn memory(lab: &Lab, what: &str) -> Result<()> {
    tokio::time::sleep(SETTLE).await;
    let memory = lab.node.memory(WATCHER).await?;
    let (resident, own, file) = (memory.resident, memory.anonymous, memory.file);
    line(what, &format!("{resident} KiB resident: {own} its own, {file} of mapped files"));
    Ok(())
}

/// Which files the memory is of, largest first.
async fn mappings(lab: &Lab) -> Result<()> {
    let pid = lab.node.main_pid(WATCHER).await?;
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut current = String::new();
    for entry in fs::read_to_string(format!("/proc/{pid}/smaps"))?.lines() {
        let fields: Vec<_> = entry.split_whitespace().collect();
        match fields.as_slice() {
            ["Rss:", size, _] => {
                *sums.entry(current.clone()).or_default() += size.parse::<u64>()?
            }
            [range, rights, _, _, _, name @ ..] if range.contains('-') => {
                current = format!("{rights} {}", name.join(" "));
            }
            _ => {}
        }
    }
    let mut sums: Vec<_> = sums.into_iter().filter(|(_, size)| *size > 0).collect();
    sums.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    sums.iter().for_each(|(name, size)| line(&format!("  {name}"), &format!("{size} KiB")));
    Ok(())
}

/// What an idle watcher asks of the API server.
async fn idle(lab: &Lab) {
    let (before, traffic) = (lab.kube.requests().len(), bytes(lab));
    tokio::time::sleep(IDLE).await;
    let requests = lab.kube.requests().len() - before;
    let hours = IDLE.as_secs_f64() / 3600.0;
    let per_hour = |count: f64| count / hours;
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let (requests, traffic) = (requests as f64, (bytes(lab) - traffic) as f64);
    line(
        &format!("idle for {} s", IDLE.as_secs()),
        &format!(
            "{requests} requests, {traffic} bytes: {:.0} and {:.0} an hour, and a new watch every 220 s",
            per_hour(requests),
            per_hour(traffic)
        ),
    );
}

/// Of bodies, both ways.
fn bytes(lab: &Lab) -> u64 {
    lab.kube.requests().iter().map(|record| record.bytes + record.body.len() as u64).sum()
}

async fn update(lab: &Lab) -> Result<()> {
    let update = Uuid::new_v4();
    let writes = lab.kube.count(Verb::Patch);
    lab.trident.next(Method::UpdateStage, Script::new().delay(WORK));
    lab.carry_out(&Request::stage(update), SOON).await?;
    line(
        &format!("writes of a stage of {} s", WORK.as_secs()),
        &format!(
            "{}, with a heartbeat every {} s",
            lab.kube.count(Verb::Patch) - writes,
            HEARTBEAT.as_secs()
        ),
    );
    timed(lab, "stage", &Request::stage(update)).await?;
    with_reboot(lab, "finalize", &Request::finalize(update)).await?;
    with_reboot(lab, "rollback", &Request::rollback(update)).await
}

/// From the request on the Node to the terminal status on the Node.
async fn timed(lab: &Lab, name: &str, request: &Request) -> Result<()> {
    let asked = Instant::now();
    lab.carry_out(request, SOON).await?;
    line(name, &since(asked));
    Ok(())
}

async fn with_reboot(lab: &Lab, name: &str, request: &Request) -> Result<()> {
    let boots = lab.node.boot_count();
    timed(lab, name, request).await?;
    let down = Instant::now();
    lab.node.wait_started(boots + 1, BOOT_LIMIT).await?;
    line("  its reboot, until systemd runs", &since(down));
    let up = Instant::now();
    lab.terminal(COMMIT_STATUS, request, SOON).await?;
    line("  from there to the commit's status", &since(up));
    lab.node.wait_boot(boots + 1, BOOT_LIMIT).await
}

fn since(then: Instant) -> String {
    format!("{:.2} s", then.elapsed().as_secs_f32())
}

fn line(what: &str, figure: &str) {
    println!("{what:<40} {figure}");
}
