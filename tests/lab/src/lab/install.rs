//! The agent on the node, installed by the product's own `make install`, enabled by systemctl.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::{API, Mode, NODE, Setup};
use crate::node::Layer;
use crate::tls::{Login, Pem, Pki, kubeconfig};

/// Where the node finds the CA of both servers.
pub const CA: &str = "/etc/lab-ca.pem";
/// Where kubelet keeps its certificate and key.
pub const KUBELET: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

pub(super) struct Installed {
    agent: PathBuf,
    mode: Mode,
    files: Vec<(String, String, u32)>,
}

impl Installed {
    pub(super) fn of(setup: &Setup, pki: &Pki) -> Result<Self> {
        let identity = pki.kubelet_cert(NODE);
        let kubelet = || Pem::File(Path::new(KUBELET));
        let login = Login::Certificate { cert: kubelet(), key: kubelet() };
        let kubeconfig = kubeconfig(API, Pem::File(Path::new(CA)), login);
        let mut files = vec![
            (CA.to_owned(), pki.ca_pem(), 0o644),
            (KUBELET.to_owned(), identity.combined_pem(), 0o600),
            ("/var/lib/kubelet/kubeconfig".to_owned(), kubeconfig, 0o600),
        ];
        files.extend(setup.files.iter().map(|(path, text)| (path.clone(), text.clone(), 0o644)));
        files.push((drop_in(setup.mode), settings(setup), 0o644));
        Ok(Self { agent: setup.agent.clone(), mode: setup.mode, files })
    }

    pub(super) fn put(self, layer: &Layer) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut make = Command::new("make");
        make.current_dir(root)
            .args(["--no-print-directory", "-s", "install"])
            .arg(format!("DESTDIR={}", layer.upper().display()))
            .arg(format!("BINARY={}", self.agent.display()));
        for (variable, program) in
            [("LOADER", "trident-slot-loader"), ("SLOTCTL", "trident-slotctl")]
        {
            // Those of the same build; the test build that is stopped has none, and takes what ships.
            let beside = self.agent.with_file_name(program);
            if beside.exists() {
                make.arg(format!("{variable}={}", beside.display()));
            }
        }
        run(&mut make)?;
        for (path, text, mode) in self.files {
            layer.install(&path, text, mode)?;
        }
        let unit = match self.mode {
            Mode::Watcher => "trident-acl-agent.service",
            Mode::Reconcile => "trident-acl-agent-reconcile.timer",
            Mode::Disabled => return Ok(()),
        };
        run(Command::new("systemctl")
            .arg("--quiet")
            .arg("--root")
            .arg(layer.upper())
            .args(["enable", unit]))
    }
}

/// The settings of everything stand in one drop-in: of the watcher, or of the pass that replaces it.
fn drop_in(mode: Mode) -> String {
    let unit = match mode {
        Mode::Watcher | Mode::Disabled => "trident-acl-agent.service",
        Mode::Reconcile => "trident-acl-agent-reconcile.service",
    };
    format!("/etc/systemd/system/{unit}.d/50-lab.conf")
}

fn settings(setup: &Setup) -> String {
    let mut text = format!("[Service]\nEnvironment=SSL_CERT_FILE={CA}\n");
    for (name, value) in &setup.settings {
        text.push_str(&format!("Environment=\"{name}={value}\"\n"));
    }
    text
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(())
}
