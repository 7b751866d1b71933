use std::path::Path;
use std::time::Duration;
use trident_lab::lab::Setup;
use trident_lab::node::Release;
#[tokio::test(flavor = "multi_thread")]
async fn trace() -> anyhow::Result<()> {
    let dropin = "/etc/systemd/system/trident-acl-agent.service.d/60-trace.conf";
    let text = "[Service]\nType=exec\nExecStart=\nExecStart=/bin/sh -c 'kill -STOP $$$$; exec /usr/bin/trident-acl-agent'\nTimeoutStartSec=infinity\nWatchdogSec=0\n";
    let setup = Setup::new(Release::Trixie, Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release/trident-acl-agent"));
    let lab = setup.file(dropin, text).boot().await?;
    std::fs::write("/tmp/k/booted", "x")?;
    while !Path::new("/tmp/k/done").exists() { tokio::time::sleep(Duration::from_millis(200)).await; }
    eprintln!("{:?}", lab.kube.requests().len());
    eprintln!("{}", lab.story());
    Ok(())
}
