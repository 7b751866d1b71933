use anyhow::Result;
use trident_lab::lab::{SOON, Setup};
use trident_lab::node::Release;
#[tokio::main]
async fn main() -> Result<()> {
    let lab = Setup::new(Release::Trixie, std::env::var("LAB_AGENT")?).boot().await?;
    lab.kube.wait_for_watches(1, SOON).await?;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let m = lab.node.memory("trident-acl-agent.service").await?;
    println!("RSS {} KiB anon {} file {}", m.resident, m.anonymous, m.file);
    let pid = lab.node.main_pid("trident-acl-agent.service").await?;
    let out = std::process::Command::new("sh")
        .arg("-c")
        .arg(std::env::var("HOLD")?)
        .arg("sh")
        .arg(pid.to_string())
        .output()?;
    println!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    Ok(())
}
