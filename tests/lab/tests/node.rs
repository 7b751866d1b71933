//! A node boots, reboots, loses its power, and leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tonic::transport::{Channel, Endpoint};
use trident_lab::node::{BOOT_LIMIT, Node, Release};
use trident_lab::trident::proto::v1::commit_service_client::CommitServiceClient;
use trident_lab::trident::proto::v1::update_service_client::UpdateServiceClient;
use trident_lab::trident::proto::v1::{
    CommitRequest, FinalizeUpdateRequest, HostConfiguration, StageUpdateRequest,
};
use trident_lab::trident::{Method, Outcome, Tridentd};

const URL: &str = "https://updates.lab.test/2.0.0.cosi";
const LIMIT: Duration = Duration::from_secs(10);
const READ_HELLO: &str = "exec 3<>/dev/tcp/updates.lab.test/8080 && cat <&3";

#[tokio::test(flavor = "multi_thread")]
async fn bookworm_follows_the_slots() -> Result<()> {
    follow_the_slots(Release::Bookworm).await
}

#[tokio::test(flavor = "multi_thread")]
async fn trixie_follows_the_slots() -> Result<()> {
    follow_the_slots(Release::Trixie).await
}

async fn follow_the_slots(release: Release) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let daemon = Tridentd::start_new(dir.path(), &dir.path().join("trident.sock"), "1.0.0")?;
    daemon.add_image(URL, "2.0.0");
    let begun = Instant::now();
    let firmware = daemon.clone();
    let node = Node::builder(release, "node-1")
        .bind(dir.path(), "/run/trident")
        .before_boot(move |_, layer| layer.os_release(&firmware.firmware_boot().os_release()))
        .boot()
        .await?;
    eprintln!("{release:?}: first boot {:?}", begun.elapsed());
    serve_hello(node.bind("127.0.0.1:8080")?)?;
    look_around(&node, "1.0.0").await?;
    let (boot_id, pid1) = (node.boot_id().await?, node.pid1_start_time()?);

    arm(&daemon, &node.root()?.join("run/trident/trident.sock")).await?;
    let begun = Instant::now();
    node.reboot().await?;
    eprintln!("{release:?}: reboot {:?}", begun.elapsed());
    look_around(&node, "2.0.0").await?;
    ensure!(node.boot_id().await? != boot_id && node.pid1_start_time()? != pid1);
    ensure!(node.boot_count() == 2);
    let channel = connect(&node.root()?.join("run/trident/trident.sock")).await?;
    CommitServiceClient::new(channel).commit(CommitRequest { reboot: None }).await?;
    daemon.wait_ended(Method::Commit, 1, LIMIT).await?;
    let outcome = daemon.calls_of(Method::Commit)[0].outcome.clone();
    ensure!(matches!(outcome, Some(Outcome::Succeeded(_))), "{outcome:?}");
    node.poweroff().await?;
    ensure!(node.read_file("/etc/hostname").await? == "node-1\n");
    let begun = Instant::now();
    leaves_nothing(node)?;
    eprintln!("{release:?}: drop {:?}", begun.elapsed());
    Ok(())
}

async fn look_around(node: &Node, version: &str) -> Result<()> {
    let os_release = node.read_file("/etc/os-release").await?;
    ensure!(os_release.contains(&format!("VERSION_ID={version}\n")), "{os_release}");
    ensure!(node.run(&["bash", "-c", READ_HELLO]).await?.text()? == "hello");
    node.run(&["test", "-S", "/run/trident/trident.sock"]).await?.text()?;
    ensure!(node.systemctl(&["is-system-running"]).await?.text()? == "running");
    ensure!(node.run(&["hostname"]).await?.text()? == "node-1");
    Ok(())
}

fn serve_hello(listener: std::net::TcpListener) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"hello").await;
        }
    });
    Ok(())
}

async fn connect(socket: &Path) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))?;
    Ok(endpoint.origin("http://localhost".parse()?).connect().await?)
}

async fn arm(daemon: &Tridentd, socket: &Path) -> Result<()> {
    let mut client = UpdateServiceClient::new(connect(socket).await?);
    let config = format!(r#"{{"image":{{"url":"{URL}","sha384":"{}"}}}}"#, "ab".repeat(48));
    let config = Some(HostConfiguration { config });
    client.update_stage(StageUpdateRequest { config }).await?;
    daemon.wait_ended(Method::UpdateStage, 1, LIMIT).await?;
    client.update_finalize(FinalizeUpdateRequest { reboot: None }).await?;
    daemon.wait_ended(Method::UpdateFinalize, 1, LIMIT).await
}

#[tokio::test(flavor = "multi_thread")]
async fn files_survive_a_power_cut() -> Result<()> {
    let unit = "[Service]\nExecStart=/bin/sleep infinity\n";
    let node = Node::builder(Release::Bookworm, "node-1")
        .file("/etc/systemd/system/sleeper.service", unit, 0o644)
        .want("sleeper.service")
        .boot()
        .await?;
    ensure!(node.show("sleeper.service", "ActiveState").await? == "active");
    let memory = node.memory("sleeper.service").await?;
    ensure!(memory.resident > 0 && memory.resident >= memory.anonymous, "{memory:?}");
    node.write_file("/var/lib/test/kept", "kept").await?;
    node.write_file("/run/lost", "lost").await?;
    node.run(&["sync", "-f", "/var/lib/test/kept"]).await?.text()?;
    node.kill_power().await?;
    ensure!(!node.is_running() && node.read_file("/var/lib/test/kept").await? == "kept");
    node.layer().install("/etc/added", "while off", 0o644)?;
    node.boot_again().await?;
    node.wait_boot(2, BOOT_LIMIT).await?;
    ensure!(node.read_file("/var/lib/test/kept").await? == "kept");
    ensure!(node.read_file("/etc/added").await? == "while off");
    ensure!(node.read_file("/run/lost").await.is_err());
    leaves_nothing(node)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bus_and_the_journal_are_seen_from_outside() -> Result<()> {
    let id = "00112233445566778899aabbccddeeff";
    let node = Node::builder(Release::Trixie, "node-1").machine_id(id).boot().await?;
    let bus = node.system_bus().await?;
    let destination = "org.freedesktop.systemd1";
    let proxy = zbus::Proxy::new(
        &bus,
        destination,
        "/org/freedesktop/systemd1",
        format!("{destination}.Manager"),
    )
    .await?;
    let version: String = proxy.get_property("Version").await?;
    ensure!(version.starts_with("257"), "{version}");
    node.run(&["systemd-cat", "-t", "lab", "echo", "a line"]).await?.text()?;
    node.run(&["journalctl", "--sync"]).await?.text()?;
    let entries = node.journal(&["-t", "lab"])?;
    ensure!(entries.len() == 1 && entries[0]["MESSAGE"] == "a line", "{entries:?}");
    ensure!(entries[0]["_MACHINE_ID"] == id);
    drop(bus);
    leaves_nothing(node)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_is_an_error_with_a_story() -> Result<()> {
    let node = Node::builder(Release::Bookworm, "node-1").boot().await?;
    let limit = Duration::from_millis(200);
    let slow = node.run_with(&["sleep", "60"], b"", limit).await.err().context("no limit")?;
    ensure!(slow.to_string().contains("Reached target"), "{slow}");
    let never = node.wait_boot(2, limit).await.err().context("no limit")?;
    ensure!(never.to_string().contains("boot 2 to complete"), "{never}");
    // The command was killed, so it hangs no reboot.
    node.reboot().await?;
    node.poweroff().await?;
    let off = node.wait_boot(3, BOOT_LIMIT).await.err().context("it is off")?;
    ensure!(off.to_string().contains("powered off"), "{off}");
    leaves_nothing(node)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_before_boot_leaves_the_node_off() -> Result<()> {
    let builder = Node::builder(Release::Bookworm, "node-1");
    let built = builder.before_boot(|_, _| anyhow::bail!("no firmware")).boot().await;
    let error = built.err().context("it booted")?;
    ensure!(error.to_string().contains("no firmware"), "{error}");
    Ok(())
}

fn leaves_nothing(node: Node) -> Result<()> {
    let name = node.name().to_owned();
    let scratch = node.console_log().parent().context("no directory")?.to_path_buf();
    ensure!(!processes(&name).is_empty() || !node.is_running());
    drop(node);
    nothing_runs(&name)?;
    ensure!(cgroup(&name).is_none(), "the cgroup is left");
    ensure!(!scratch.exists() && !std::env::temp_dir().join(&name).exists());
    Ok(())
}

fn nothing_runs(name: &str) -> Result<()> {
    let left = processes(name);
    ensure!(left.is_empty(), "processes are left: {left:?}");
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    ensure!(!mounts.contains(name), "mounts are left: {mounts}");
    Ok(())
}

/// Processes that have the node's name in their command line or their cgroup. A zombie whose parent
/// was killed waits for this machine's PID 1, and does not count.
fn processes(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let read = |path: &Path, file| fs::read_to_string(path.join(file)).unwrap_or_default();
    let named = |path: &PathBuf| {
        let zombie = read(path, "stat").contains(") Z ");
        !zombie && (read(path, "cmdline") + &read(path, "cgroup")).contains(name)
    };
    entries.map(|entry| entry.path()).filter(named).collect()
}

fn cgroup(name: &str) -> Option<PathBuf> {
    let places = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    places.iter().map(|place| Path::new(place).join(name)).find(|dir| dir.exists())
}

/// Not a test: boots a node in a process that the test below kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a helper of killing_the_test_kills_the_node"]
async fn helper_holds_a_node() -> Result<()> {
    let node = Node::builder(Release::Bookworm, "node-1").boot().await?;
    println!("\nNODE {}", node.name());
    std::future::pending().await
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_test_kills_the_node() -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "helper_holds_a_node", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(child.stdout.take().context("no output")?);
    let mut lines = output.lines().map_while(Result::ok);
    let name = lines.find_map(|line| Some(line.strip_prefix("NODE ")?.to_owned()));
    child.kill()?;
    child.wait()?;
    let name = name.context("the helper booted nothing")?;
    let deadline = Instant::now() + LIMIT;
    while nothing_runs(&name).is_err() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    nothing_runs(&name)?;
    // Its directories and its cgroup are swept by the next node.
    let next = Node::builder(Release::Bookworm, "node-1").start().await?;
    ensure!(cgroup(&name).is_none() && !std::env::temp_dir().join(&name).exists());
    leaves_nothing(next)
}
