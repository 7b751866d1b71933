//! A node: a Debian that really boots systemd, in a container of its own cgroup, pid, mount and
//! network namespaces.
//!
//! It survives reboots and power cuts like a machine: its files stay, `/run` does not, the boot id
//! changes. Everything of it is gone when it is dropped, and also when the test process is killed.
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files and waiting")]

use std::net::{TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

mod builder;
pub(crate) mod cgroup;
mod inside;
mod layer;
mod loops;
mod machine;
pub(crate) mod network;
mod outside;
mod processes;
mod rootfs;
pub(crate) mod scratch;

pub use builder::Builder;
pub use inside::Output;
pub use layer::Layer;
pub use outside::Memory;
pub use rootfs::{Release, Rootfs};

use cgroup::Cgroup;
use machine::{Machine, Power};
use network::Network;
use scratch::Scratch;

/// How long a boot may take on a busy machine; idle, it takes a second.
pub const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// What this machine lacks to boot a node; `None` when it can.
pub fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("the tests do not run as root".into());
    }
    if let Err(error) = cgroup::root() {
        return Some(format!("{error:#}"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let programs = ["systemd-nspawn", "mmdebstrap", "nsenter", "setpriv", "ip", "journalctl"];
    let lacking: Vec<_> = programs.into_iter().filter(|name| !found(name)).collect();
    (!lacking.is_empty()).then(|| format!("not installed: {}", lacking.join(", ")))
}

/// One booted node. Dropping it kills it and removes all its traces.
#[derive(Debug)]
pub struct Node {
    // In the order in which they may go: what runs, then what it used.
    machine: Machine,
    cgroup: Arc<Cgroup>,
    network: Network,
    layer: Layer,
    machine_id: String,
    scratch: Scratch,
}

impl Node {
    /// Describes a node.
    pub fn builder(release: Release, hostname: &str) -> Builder {
        Builder::new(release, hostname)
    }

    /// The unique name of its container, cgroup and directories.
    pub fn name(&self) -> &str {
        self.scratch.name()
    }

    /// The running node's root directory, seen from outside. Absolute links lead astray.
    pub fn root(&self) -> Result<PathBuf> {
        Ok(PathBuf::from(format!("/proc/{}/root", self.leader()?)))
    }

    /// Its machine id.
    pub fn machine_id(&self) -> &str {
        &self.machine_id
    }

    /// Its files while it is off. Use [`write_file`](Self::write_file) while it runs.
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// What its consoles showed, over all boots.
    pub fn console_log(&self) -> PathBuf {
        self.scratch.path("console.log")
    }

    /// Binds in the node's network, for a server of this process. It survives reboots.
    pub fn bind(&self, address: impl ToSocketAddrs + Send) -> Result<TcpListener> {
        let listener = self.network.bind(address)?;
        // As tokio wants it.
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// How many boots have begun.
    pub fn boot_count(&self) -> u32 {
        self.machine.watch().borrow().boots
    }

    /// True while PID 1 runs.
    pub fn is_running(&self) -> bool {
        self.leader().is_ok()
    }

    /// Waits until the n-th boot, counting from 1, has reached its default target.
    pub async fn wait_boot(&self, number: u32, limit: Duration) -> Result<()> {
        self.wait(&format!("boot {number} to complete"), limit, |power| power.ready >= number).await
    }

    /// Waits until PID 1 of the n-th boot runs. Its units may still be starting.
    pub async fn wait_started(&self, number: u32, limit: Duration) -> Result<()> {
        let started = |power: &Power| power.boots >= number && power.leader.is_some();
        self.wait(&format!("boot {number} to begin"), limit, started).await
    }

    /// Waits until it is off.
    pub async fn wait_off(&self, limit: Duration) -> Result<()> {
        self.wait("the node to be off", limit, |power| power.off.is_some()).await
    }

    /// Asks systemd for a reboot and waits until the next boot is complete.
    pub async fn reboot(&self) -> Result<()> {
        let next = self.boot_count() + 1;
        // Its answer is often lost with the connection: the boot count judges.
        let _ = self.run(&["systemctl", "reboot"]).await;
        self.wait_boot(next, BOOT_LIMIT).await
    }

    /// Shuts down in order, and waits until it is off.
    pub async fn poweroff(&self) -> Result<()> {
        let _ = self.run(&["systemctl", "poweroff"]).await;
        self.wait_off(BOOT_LIMIT).await
    }

    /// Cuts the power: nothing is stopped or flushed by the node.
    pub async fn kill_power(&self) -> Result<()> {
        self.machine.kill()?;
        self.wait_off(BOOT_LIMIT).await
    }

    /// Switches it on again after it was off. Waits until PID 1 runs; see
    /// [`wait_boot`](Self::wait_boot).
    pub async fn boot_again(&self) -> Result<()> {
        let power = self.machine.watch().borrow().clone();
        if power.boots > 0 && power.off.is_none() {
            bail!("the node is on");
        }
        self.machine.press()?;
        let mut watch = self.machine.watch();
        let next = power.boots + 1;
        // An older reason for being off still stands until the boot begins.
        let begun = watch.wait_for(|now| now.boots >= next || now.off != power.off);
        if tokio::time::timeout(BOOT_LIMIT, begun).await.is_err() {
            bail!("the node does not begin boot {next}\n{}", self.story());
        }
        self.wait_started(next, BOOT_LIMIT).await
    }

    async fn wait(
        &self,
        what: &str,
        limit: Duration,
        reached: impl Fn(&Power) -> bool,
    ) -> Result<()> {
        let mut watch = self.machine.watch();
        let settled = watch.wait_for(|power| reached(power) || power.off.is_some());
        match tokio::time::timeout(limit, settled).await {
            Ok(Ok(power)) if reached(&power) => Ok(()),
            Ok(Ok(power)) => {
                let why = power.off.clone().unwrap_or_default();
                drop(power);
                bail!("waited for {what}, but the node is off: {why}\n{}", self.story())
            }
            Ok(Err(_)) => bail!("waited for {what}, but the node's thread is gone"),
            Err(_) => bail!("waited {limit:?} for {what}\n{}", self.story()),
        }
    }

    /// PID 1, by its number outside.
    fn leader(&self) -> Result<u32> {
        self.machine.watch().borrow().leader.context("the node does not run")
    }
}
