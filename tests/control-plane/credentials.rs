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
use crate::booted::{carry_out, eventually, expect_code, scenario};

const WATCHER: &str = "trident-acl-agent.service";
const KUBECONFIG: &str = "/etc/trident-acl-agent/kubeconfig";
const TOKEN: &str = "/etc/trident-acl-agent/token";

/// The certificate ends under an open watch, and kubelet is late with the next one; then it is in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_ends_and_is_replaced() -> Result<()> {
    let lab = lab(setup()).await?;
    status_line(&lab, "idle; watching Node").await?;
    // Long enough to connect with it, also on a busy machine.
    let end = kubelet_gets(&lab, Duration::from_secs(15)).await?;
    lab.node.systemctl(&["restart", WATCHER]).await?.text()?;
    status_line(&lab, "idle; watching Node").await?;
    until(end).await;

    // The watch goes on, as it does with the real server; what is written is refused.
    let stage = Request::stage(Uuid::new_v4());
    lab.ask(&stage)?;
    status_line(&lab, "401 Unauthorized").await?;
    ensure!(lab.codes(STATUS, &stage).is_empty(), "it was taken");
    // Long enough for a server to start, also on a busy machine.
    let end = kubelet_gets(&lab, Duration::from_secs(90)).await?;
    lab.terminal(STATUS, &stage, SOON).await?;
    ensure!(lab.codes(STATUS, &stage) == ["InProgress", "Success"]);

    // Taken over as soon as a watch ends, which it does here before its time.
    kubelet_gets(&lab, Duration::from_secs(3600)).await?;
    lab.kube.replace().await?;
    eventually("the certificate is taken over", || async {
        Ok(lab.story().contains("the credentials were replaced, connected anew"))
    })
    .await
    .map_err(|late| late.context(lab.story()))?;
    let refusals = || lab.story().matches("401 Unauthorized").count();
    let before = refusals();
    until(end).await;
    carry_out(&lab, &Request::stage(Uuid::new_v4()), "Success").await?;
    ensure!(before > 0 && refusals() == before, "{}", lab.story());
    Ok(())
}

/// A new certificate, which takes the old one's place as kubelet does it: a link is turned. When it ends.
async fn kubelet_gets(lab: &Lab<ControlPlane>, life: Duration) -> Result<SystemTime> {
    let end = SystemTime::now() + life;
    let name = format!("system:node:{NODE}");
    let credential = lab.pki.client_cert_expiring(&name, "system:nodes", end);
    let file = format!("{KUBELET}.{}", life.as_secs());
    lab.node.write_file(&file, credential.combined_pem()).await?;
    let turn = format!("ln -s {file} {KUBELET}.next; mv -T {KUBELET}.next {KUBELET}");
    lab.node.run(&["sh", "-euc", &turn]).await?.text()?;
    Ok(end)
}

async fn until(moment: SystemTime) {
    tokio::time::sleep(moment.duration_since(SystemTime::now()).unwrap_or_default()).await;
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
