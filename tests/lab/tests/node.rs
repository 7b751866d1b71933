use trident_lab::node::{Node, Release};
#[tokio::test]
async fn quick() -> anyhow::Result<()> {
    for release in Release::ALL {
        let t = std::time::Instant::now();
        let node = Node::builder(release, "node-1").boot().await?;
        eprintln!("{release:?} boot {:?}", t.elapsed());
        eprintln!(
            "{} {}",
            node.boot_id().await?,
            node.run(&["systemctl", "is-system-running"])
                .await?
                .text()?
        );
        node.reboot().await?;
        eprintln!("{release:?} reboot {:?}", t.elapsed());
        eprintln!("{}", node.boot_id().await?);
    }
    Ok(())
}
