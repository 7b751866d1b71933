//! Certificates that end and are replaced, and an agent that does not use kubelet's identity.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use trident_lab::control_plane::ControlPlane;
use trident_lab::kube::ApiServer;
use trident_lab::lab::{API, CA, KUBELET, Lab, NODE, Request, SOON, STATUS};
use trident_lab::tls::{Login, Pem, kubeconfig};
use uuid::Uuid;

use super::{lab, policy, setup, status_line};
use crate::booted::{eventually, expect_code, scenario};

const WATCHER: &str = "trident-acl-agent.service";
const KUBECONFIG: &str = "/etc/trident-acl-agent/kubeconfig";
const TOKEN: &str = "/etc/trident-acl-agent/token";

/// The certificate ends under an open watch, and kubelet is late with the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_ends_and_is_replaced() -> Result<()> {
    let lab = lab(setup()).await?;
    status_line(&lab, "idle; watching Node").await?;
    // Long enough to connect with it, also on a busy machine.
    let end = SystemTime::now() + Duration::from_secs(15);
    let name = format!("system:node:{NODE}");
    let short = lab.pki.client_cert_expiring(&name, "system:nodes", end);
    lab.node.write_file(KUBELET, short.combined_pem()).await?;
    lab.node.systemctl(&["restart", WATCHER]).await?.text()?;
    status_line(&lab, "idle; watching Node").await?;
    tokio::time::sleep(end.duration_since(SystemTime::now()).unwrap_or_default()).await;

    // The watch goes on, as it does with the real server; what is written is refused.
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    status_line(&lab, "401 Unauthorized").await?;
    ensure!(lab.codes(STATUS, &stage).is_empty(), "it was taken");
    let next = lab.pki.kubelet_cert(NODE);
    lab.node.write_file(KUBELET, next.combined_pem()).await?;
    lab.terminal(STATUS, &stage, SOON).await?;
    ensure!(lab.codes(STATUS, &stage) == ["InProgress", "Success"]);
    Ok(())
}

/// With what `rbac-agent.yaml` gives, and under the policies.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_in_kubelets_place() -> Result<()> {
    let setup =
        setup().setting("KUBERNETES_KUBECONFIG", KUBECONFIG).setting("KUBERNETES_NODE_NAME", NODE);
    let lab = lab(setup).await?;
    policy::apply(&lab.kube).await?;
    let login = Login::TokenFile(Path::new(TOKEN));
    let config = kubeconfig(API, Pem::File(Path::new(CA)), login);
    let old = give_token(&lab).await?;
    lab.node.write_file(KUBECONFIG, config).await?;
    status_line(&lab, "idle; watching Node").await?;
    scenario::an_update_from_stage_to_commit(&lab).await?;

    // The token is one of the Node that was, not of its name.
    lab.kube.admin().expect(&["delete", "node", NODE])?;
    lab.kube.add_node(NODE)?;
    let old = lab.kube.bearer("old", &old)?;
    // The server remembers for some seconds whom a token stood for.
    eventually("the token has ended", || async {
        Ok(old.run(&["get", "node", NODE])?.stderr.contains("Unauthorized"))
    })
    .await?;
    let rollback = Request::rollback(Uuid::new_v4());
    lab.ask(&rollback)?;
    status_line(&lab, "401 Unauthorized").await?;
    give_token(&lab).await?;
    let status = lab.terminal(STATUS, &rollback, SOON).await?;
    expect_code(&lab, &status, "Success")
}

async fn give_token(lab: &Lab<ControlPlane>) -> Result<String> {
    let token = policy::token(&lab.kube, "trident-acl-agent", Some(NODE))?;
    lab.node.write_file(TOKEN, &token).await?;
    Ok(token)
}
