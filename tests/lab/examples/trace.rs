use anyhow::{Context, Result};
use std::process::{Child, Command};
use std::time::Duration;
use trident_lab::lab::{COMMIT_STATUS, Request, SOON, Setup};
use trident_lab::node::{Node, Release};
use trident_lab::trident::{Method, Script};
const W: &str = "trident-acl-agent.service";
const DROPIN: &str = "[Service]\nExecStart=\nExecStart=/bin/sh -c 'kill -STOP $$$$; exec /usr/bin/trident-acl-agent'\nWatchdogSec=0\nTimeoutStartSec=120\nSystemCallFilter=\n";
async fn attach(node: &Node, n: u32) -> Result<Child> {
    let pid = loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(pid) = node.main_pid(W).await else { continue };
        let st = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        if st.contains("T (stopped)") {
            break pid;
        }
    };
    Command::new("python3")
        .arg("/tmp/demo-w/pt.py")
        .arg(pid.to_string())
        .arg("/tmp/demo-w/u-relr")
        .arg(format!("/tmp/demo-w/hot.{n}"))
        .spawn()
        .context("python")
}
#[tokio::main]
async fn main() -> Result<()> {
    let agent = std::env::var("LAB_AGENT")?;
    let setup =
        Setup::new(Release::Trixie, agent).setting("ORCHESTRATION_HEARTBEAT_INTERVAL", "5s");
    let lab = setup.boot().await?;
    let limit = SOON;
    lab.kube.wait_for_watches(1, SOON).await?;
    lab.node
        .write_file("/etc/systemd/system/trident-acl-agent.service.d/90-trace.conf", DROPIN)
        .await?;
    lab.node.systemctl(&["daemon-reload"]).await?.text()?;
    lab.node.systemctl(&["--no-block", "restart", W]).await?.text()?;
    let mut a = attach(&lab.node, 1).await?;
    lab.kube.wait_for_watches(1, SOON).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let update = uuid::Uuid::new_v4();
    lab.trident.next(Method::UpdateStage, Script::new().delay(Duration::from_secs(8)));
    println!("{}", lab.carry_out(&Request::stage(update), limit).await?);
    lab.kube.reset_connections();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let f = Request::finalize(update);
    println!("{}", lab.carry_out(&f, limit).await?);
    lab.node.wait_started(2, limit).await?;
    let _ = a.wait();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut b = attach(&lab.node, 2).await?;
    println!("{}", lab.terminal(COMMIT_STATUS, &f, limit).await?);
    tokio::time::sleep(Duration::from_secs(3)).await;
    drop(lab);
    let _ = b.wait();
    Ok(())
}
