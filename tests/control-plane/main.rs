//! The agent against the real kube-apiserver on a real etcd, driven with the real kubectl.

mod answers;
#[path = "../booted/mod.rs"]
mod booted;
mod costs;
mod credentials;
mod outages;
mod policy;
mod update;

use std::sync::Once;

use anyhow::Result;
use trident_lab::control_plane::ControlPlane;
use trident_lab::lab::Lab;
use trident_lab::node::Release;
use trident_lab::tls::Pki;

/// A booted node beside a real control plane.
async fn lab(setup: booted::Setup) -> Result<Lab<ControlPlane>> {
    let pki = Pki::new();
    let plane = ControlPlane::start(&pki).await?;
    setup.boot_with(plane, pki).await
}

/// Waits until the watcher's status line says this.
async fn status_line(lab: &Lab<ControlPlane>, part: &str) -> Result<()> {
    booted::eventually(part, || async {
        Ok(lab.node.show("trident-acl-agent.service", "StatusText").await?.contains(part))
    })
    .await
}

fn setup() -> booted::Setup {
    booted::setup(Release::Trixie)
}

fn use_ring() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
