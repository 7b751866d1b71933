use trident_lab::node::{Node, Release};
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let node = Node::builder(Release::Bookworm, "n").boot().await?;
    println!("real {}", node.boot_id().await?);
    for p in [
        "Type=exec",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelLogs=yes",
        "ProtectControlGroups=yes",
        "ProtectClock=yes",
        "ProtectHostname=yes",
        "RestrictNamespaces=yes",
        "PrivateNetwork=yes",
        "RemoveIPC=yes",
        "MemoryDenyWriteExecute=yes",
        "SystemCallFilter=@system-service",
        "CapabilityBoundingSet=",
    ] {
        let out = node
            .run(&[
                "systemd-run",
                "--wait",
                "-P",
                "-q",
                "-p",
                p,
                "cat",
                "/proc/sys/kernel/random/boot_id",
            ])
            .await?;
        println!("{p} {:?} {} {}", out.code, out.stdout.trim(), out.stderr.trim());
    }
    Ok(())
}
