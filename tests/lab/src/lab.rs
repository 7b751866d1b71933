//! A node that really runs systemd, with the agent installed as a package would, between a Kubernetes API,
//! a Nebraska and a tridentd.

mod install;
mod request;
mod statuses;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::kube::{ApiServer, KubeApi};
use crate::nebraska::{Nebraska, PackageSpec};
use crate::node::{BOOT_LIMIT, Node, Release};
use crate::stops::Stops;
use crate::tls::Pki;
use crate::trident::Tridentd;

pub use install::{CA, KUBELET};
pub use request::Request;
pub use statuses::{COMMIT_STATUS, REQUEST, STATUS};

/// The Node's name, and the host's.
pub const NODE: &str = "node-1";
/// The unit of the resident watcher.
pub const WATCHER: &str = "trident-acl-agent.service";
/// The version that the node runs at first.
pub const OLD: &str = "202606.15.0";
/// The version that Nebraska offers.
pub const NEW: &str = "202606.29.0";
pub const APP: &str = "11111111-2222-3333-4444-555555555555";
pub const TRACK: &str = "pin-202606.29.0";
/// Where Nebraska is, as the node sees it.
pub const SERVER: &str = "https://updates.lab.test:8443/v1/update";
/// Where the API server is, as the node sees it.
pub const API: &str = "https://api.lab.test:6443";
const IMAGES: &str = "https://updates.lab.test:8443/images/";
const IMAGE: &str = "acl-202606.29.0.cosi";
/// For anything that should happen soon.
pub const SOON: Duration = Duration::from_secs(60);

/// Who does the agent's work on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The resident watcher.
    Watcher,
    /// The timer.
    Reconcile,
    /// Nobody: the units are installed and not enabled.
    Disabled,
}

/// How a lab is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    release: Release,
    agent: PathBuf,
    mode: Mode,
    settings: Vec<(String, String)>,
    files: Vec<(String, String)>,
}

impl Setup {
    /// `agent`: the built program.
    pub fn new(release: Release, agent: impl Into<PathBuf>) -> Self {
        let (settings, files) = (Vec::new(), Vec::new());
        Self { release, agent: agent.into(), mode: Mode::Watcher, settings, files }
    }

    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// A setting, by its name after the prefix, in a drop-in of the resident unit.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((format!("TRIDENT_ACL_AGENT_{name}"), value.to_owned()));
        self
    }

    /// A file on the node, such as a drop-in of a person's own.
    #[must_use]
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// Boots, and waits until boot is done.
    pub async fn boot(self) -> Result<Lab> {
        let pki = Pki::new();
        let kube = KubeApi::with_names(&pki, &["api.lab.test"]);
        self.boot_with(kube, pki).await
    }

    /// Boots with an API server of this PKI, which does not know the Node yet.
    pub async fn boot_with<K: ApiServer>(self, kube: K, pki: Pki) -> Result<Lab<K>> {
        kube.add_node(NODE)?;
        Lab::boot(self, kube, pki).await
    }
}

/// The node and its neighbours; dropped, nothing is left of them.
pub struct Lab<K = KubeApi> {
    pub node: Node,
    pub kube: K,
    pub nebraska: Nebraska,
    pub trident: Tridentd,
    /// Only the test build comes by here.
    pub stops: Stops,
    pub pki: Pki,
    _directory: TempDir,
}

impl<K: ApiServer> Lab<K> {
    async fn boot(setup: Setup, kube: K, pki: Pki) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let nebraska = Nebraska::with_names(&pki, &["updates.lab.test"]);
        let trident = tridentd(directory.path())?;
        nebraska.add_package(
            APP,
            TRACK,
            PackageSpec::new(NEW, IMAGES, IMAGE).with_sha384(&"ab".repeat(48)),
        );
        let stops = Stops::listen(directory.path())?;
        let (firmware, booting) = (trident.clone(), stops.clone());
        let installed = install::Installed::of(&setup, &pki)?;
        let node = Node::builder(setup.release, NODE)
            .bind(directory.path(), "/run/trident")
            .setup(move |layer| installed.put(layer))
            .before_boot(move |number, layer| {
                booting.boot(number);
                layer.os_release(&firmware.firmware_boot().os_release())
            })
            .start()
            .await?;
        kube.serve(node.bind("127.0.0.1:6443")?)?;
        nebraska.serve(node.bind("127.0.0.1:8443")?)?;
        let lab = Self { node, kube, nebraska, trident, stops, pki, _directory: directory };
        lab.node.wait_boot(1, BOOT_LIMIT).await?;
        Ok(lab)
    }

    /// The instance that this node is to Nebraska.
    pub fn machine(&self) -> Result<String> {
        let instances = self.nebraska.instances();
        Ok(instances.first().context("Nebraska was never asked")?.machine_id.clone())
    }

    /// What the node runs now, by its own os-release.
    pub async fn version(&self) -> Result<String> {
        let text = self.node.read_file("/usr/lib/os-release").await?;
        let line = text.lines().find_map(|line| line.strip_prefix("VERSION_ID="));
        Ok(line.context("no VERSION_ID")?.trim_matches('"').to_owned())
    }

    /// The agent's whole journal of this node, for a failed test to print.
    pub fn story(&self) -> String {
        let records = self.node.journal(&[]).unwrap_or_default();
        let text = |record: &serde_json::Value, key: &str| {
            record[key].as_str().unwrap_or_default().to_owned()
        };
        let lines = records.iter().filter(|record| {
            let (by, unit) = (text(record, "SYSLOG_IDENTIFIER"), text(record, "UNIT"));
            by.starts_with("trident") || by == "tridentd" || unit.starts_with("trident")
        });
        lines
            .filter(|record| !text(record, "MESSAGE").starts_with("effective settings"))
            .map(|record| {
                format!(
                    "{} {}: {}",
                    text(record, "_SYSTEMD_UNIT"),
                    text(record, "SYSLOG_IDENTIFIER"),
                    text(record, "MESSAGE")
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn tridentd(directory: &Path) -> Result<Tridentd> {
    let trident = Tridentd::start_new(directory, &directory.join("trident.sock"), OLD)?;
    trident.add_image(&format!("{IMAGES}{IMAGE}"), NEW);
    Ok(trident)
}
