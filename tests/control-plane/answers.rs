//! The table that the stand-in is held to, against the real server.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use trident_lab::control_plane::{ControlPlane, Stop};
use trident_lab::kube::ApiServer;
use trident_lab::tls::Pki;

#[path = "../lab/tests/servers/kube_answers.rs"]
mod kube_answers;

#[tokio::test(flavor = "multi_thread")]
async fn the_stand_in_answers_like_this() -> Result<()> {
    crate::use_ring();
    let pki = Pki::new();
    let plane = ControlPlane::start(&pki).await?;
    for node in ["node-1", "node-2"] {
        plane.add_node(node)?;
    }
    // Its memory of events begins when it does.
    plane.stop(Stop::InOrder)?;
    plane.start_again().await?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("https://{}", listener.local_addr()?);
    plane.serve(listener)?;
    let server = kube_answers::Server { url: &url, pki: &pki };
    let differences = kube_answers::differences(&server).await?;
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}
