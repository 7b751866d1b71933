//! Many updates in one run: nothing grows.
//!
//! A reboot is simulated, to keep it short: `reboot.target` does nothing, the test hands out another boot id, and
//! starts what a boot starts. `SOAK_ROUNDS` says how many; `make soak` takes 500.

#![allow(clippy::print_stdout, reason = "the figures are for a person to see")]

mod booted;

use anyhow::{Context, Result, ensure};
use booted::{carry_out, eventually};
use serde_json::json;
use trident_lab::lab::{APP, COMMIT_STATUS, Lab, Request, TRACK, WATCHER};
use trident_lab::nebraska::PackageSpec;
use uuid::Uuid;

booted::on_each_release!(many_updates_leave_nothing_behind);

const STATE: &str = "/var/lib/trident-acl-agent";
const IMAGES: &str = "https://updates.lab.test:8443/images/";
const ROUNDS: usize = 20;
/// After so many, nothing may grow any more: the state remembers 32 operations, two of each round.
const SETTLED: usize = 17;

const FILES: [(&str, &str); 4] = [
    (
        "/etc/systemd/system/reboot.target",
        "[Unit]\nDescription=Only a note\nDefaultDependencies=no\nWants=soak-reboot.service\nStopWhenUnneeded=yes\n",
    ),
    (
        "/etc/systemd/system/soak-reboot.service",
        "[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n\
         [Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo asked >>/var/lib/soak-reboots'\n",
    ),
    ("/etc/systemd/system/trident-acl-agent.service.d/90-soak.conf", BOOT_ID),
    ("/etc/systemd/system/trident-acl-agent-.service.d/90-soak.conf", BOOT_ID),
];
const BOOT_ID: &str = "[Service]\nLoadCredential=boot-id:/etc/soak-boot-id\n";

/// What an agent may leave, at one moment.
#[derive(Clone, Copy, Debug)]
struct Footprint {
    /// Bytes in the state directory.
    state_bytes: u64,
    state_files: u64,
    /// Units of ours that systemd has in memory.
    units: u64,
    descriptors: u64,
    /// Of the watcher.
    resident_kib: u64,
}

async fn number(lab: &Lab, script: &str) -> Result<u64> {
    let output = lab.node.run(&["sh", "-c", script]).await?;
    output.text()?.parse().with_context(|| format!("{script}: {output:?}"))
}

async fn footprint(lab: &Lab) -> Result<Footprint> {
    let pid = lab.node.show(WATCHER, "MainPID").await?;
    Ok(Footprint {
        state_bytes: number(lab, &format!("cat {STATE}/* | wc -c")).await?,
        state_files: number(lab, &format!("ls -A {STATE} | wc -l")).await?,
        units: number(lab, "systemctl list-units --all --plain --no-legend 'trident*' | wc -l")
            .await?,
        descriptors: number(lab, &format!("ls /proc/{pid}/fd | wc -l")).await?,
        resident_kib: lab.node.memory(WATCHER).await?.resident,
    })
}

/// A version that no round had.
fn version(round: usize) -> String {
    format!("202607.{round}.0")
}

fn offer(lab: &Lab, version: &str) {
    let image = format!("acl-{version}.cosi");
    lab.nebraska.clear_packages(APP, TRACK);
    let package = PackageSpec::new(version, IMAGES, &image).with_sha384(&"ab".repeat(48));
    lab.nebraska.add_package(APP, TRACK, package);
    lab.trident.add_image(&format!("{IMAGES}{image}"), version);
}

/// What a boot changes, and what it starts.
async fn reboot(lab: &Lab) -> Result<()> {
    let release = lab.trident.firmware_boot().os_release();
    lab.node.write_file("/usr/lib/os-release", release).await?;
    lab.node.write_file("/etc/soak-boot-id", Uuid::new_v4().to_string()).await?;
    lab.node.systemctl(&["restart", WATCHER]).await?.text()?;
    let commit = ["start", "--no-block", "trident-acl-agent-commit.service"];
    lab.node.systemctl(&commit).await?.text().map(drop)
}

async fn round(lab: &Lab, round: usize) -> Result<()> {
    let version = version(round);
    offer(lab, &version);
    let id = Uuid::new_v4();
    carry_out(lab, &Request::stage(id).with("targetVersion", json!(version)), "Success").await?;
    let finalize = Request::finalize(id).with("targetVersion", json!(version));
    carry_out(lab, &finalize, "Success").await?;
    eventually("the reboot is asked for", || async {
        let asked = number(lab, "cat /var/lib/soak-reboots 2>/dev/null | wc -l").await?;
        Ok(asked > u64::try_from(round)?)
    })
    .await?;
    reboot(lab).await?;
    booted::committed(lab, &finalize, "Success").await?;
    ensure!(lab.version().await? == version);
    Ok(())
}

/// Requests that one watcher answers without a restart in between.
async fn answers(lab: &Lab, current: &str, count: usize) -> Result<()> {
    for _ in 0..count {
        let here = Request::stage(Uuid::new_v4()).with("targetVersion", json!(current));
        carry_out(lab, &here, "AlreadyAtTarget").await?;
    }
    Ok(())
}

fn rounds() -> Result<usize> {
    let asked = std::env::var("SOAK_ROUNDS").ok().filter(|asked| !asked.is_empty());
    let rounds = asked.map_or(Ok(ROUNDS), |asked| asked.parse()).context("SOAK_ROUNDS")?;
    ensure!(rounds > SETTLED, "SOAK_ROUNDS must be more than {SETTLED}");
    Ok(rounds)
}

fn grew(before: u64, after: u64, by: u64) -> bool {
    after > before + by
}

fn check(settled: &Footprint, end: &Footprint) -> Result<()> {
    let (a, b) = (settled, end);
    ensure!(!grew(a.state_bytes, b.state_bytes, a.state_bytes / 20), "{a:?} {b:?}");
    ensure!(a.state_files == b.state_files && !grew(a.units, b.units, 1), "{a:?} {b:?}");
    ensure!(!grew(a.descriptors, b.descriptors, 1), "{a:?} {b:?}");
    ensure!(!grew(a.resident_kib, b.resident_kib, 512), "{a:?} {b:?}");
    Ok(())
}

async fn many_updates_leave_nothing_behind(setup: booted::Setup) -> Result<()> {
    let count = rounds()?;
    let setup = FILES.into_iter().fold(setup, |setup, (path, text)| setup.file(path, text));
    let lab = setup.file("/etc/soak-boot-id", &Uuid::new_v4().to_string()).boot().await?;
    let mut settled = None;
    for at in 0..count {
        round(&lab, at).await.with_context(|| format!("round {at}\n{}", lab.story()))?;
        if at == SETTLED {
            settled = Some(footprint(&lab).await?);
        }
        if at % 50 == 0 || at + 1 == count {
            println!("after {} rounds: {:?}", at + 1, footprint(&lab).await?);
        }
    }
    check(&settled.context("too few rounds")?, &footprint(&lab).await?)?;
    let current = version(count - 1);
    answers(&lab, &current, SETTLED).await?;
    let settled = footprint(&lab).await?;
    answers(&lab, &current, count).await?;
    let end = footprint(&lab).await?;
    println!("one watcher, after {SETTLED} and {count} more requests: {settled:?} {end:?}");
    check(&settled, &end)?;
    ensure!(lab.node.boot_count() == 1, "it really rebooted");
    let statuses = lab.published();
    let commits =
        statuses.iter().filter(|(key, it)| key == COMMIT_STATUS && it["code"] == "Success");
    ensure!(commits.count() >= count, "a commit is missing");
    Ok(())
}
