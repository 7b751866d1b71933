//! Commands and files inside a running node.

use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::Node;
use super::processes::kill_child;

/// How long a command may take, unless said otherwise.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a command gave.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit code; `None` when it was killed.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    /// Its trimmed standard output; an error unless it exited with 0.
    pub fn text(&self) -> Result<&str> {
        ensure!(self.code == Some(0), "exit code {:?}: {}{}", self.code, self.stdout, self.stderr);
        Ok(self.stdout.trim())
    }
}

impl Node {
    /// Runs a short command inside. Never let one live across a reboot: it would hang the shutdown.
    pub async fn run(&self, command: &[&str]) -> Result<Output> {
        self.run_with(command, b"", COMMAND_LIMIT).await
    }

    /// Runs a command inside with an input and a limit, after which it is killed.
    pub async fn run_with(
        &self,
        command: &[&str],
        input: &[u8],
        limit: Duration,
    ) -> Result<Output> {
        let mut child = self.enter(command)?;
        let outer = child.id().context("no process id")?;
        let stdin = child.stdin.take();
        let work = async {
            if let Some(mut stdin) = stdin {
                // A command may end without reading its input.
                let _ = stdin.write_all(input).await;
            }
            child.wait_with_output().await
        };
        let mut work = pin!(work);
        let Ok(output) = tokio::time::timeout(limit, &mut work).await else {
            // The command first, so that its nsenter buries it: an orphan's zombie delays a
            // shutdown by ten seconds.
            kill_child(outer);
            let _ = tokio::time::timeout(Duration::from_secs(2), work).await;
            bail!("{command:?} took more than {limit:?}\n{}", self.story());
        };
        let output = output?;
        Ok(Output {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn enter(&self, command: &[&str]) -> Result<Child> {
        let leader = self.leader()?;
        Command::new("nsenter")
            .arg(format!("--target={leader}"))
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"])
            .args(["--", "env", "-i", PATH, "LANG=C.UTF-8", "SYSTEMD_PAGER=cat"])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run nsenter")
    }

    /// Runs `systemctl`.
    pub async fn systemctl(&self, arguments: &[&str]) -> Result<Output> {
        self.run(&[&["systemctl"], arguments].concat()).await
    }

    /// A property of a unit, as `systemctl show` prints it.
    pub async fn show(&self, unit: &str, property: &str) -> Result<String> {
        let output = self.systemctl(&["show", "--value", "-p", property, unit]).await?;
        Ok(output.text()?.to_owned())
    }

    /// Writes a file in the running node, with the directories above it.
    pub async fn write_file(&self, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let script = r#"mkdir -p "${1%/*}/" && cat > "$1""#;
        let command = ["sh", "-c", script, "write", path];
        self.run_with(&command, bytes.as_ref(), COMMAND_LIMIT).await?.text()?;
        Ok(())
    }

    /// Reads a file: in the running node, or on the disk of one that is off.
    pub async fn read_file(&self, path: &str) -> Result<String> {
        if !self.is_running() {
            return Ok(String::from_utf8(self.layer().read(path)?)?);
        }
        let output = self.run(&["cat", path]).await?;
        output.text()?;
        Ok(output.stdout)
    }

    /// The boot id, as `/proc` prints it.
    pub async fn boot_id(&self) -> Result<String> {
        Ok(self.read_file("/proc/sys/kernel/random/boot_id").await?.trim().to_owned())
    }

    /// A connection to the node's system bus, from outside.
    pub async fn system_bus(&self) -> Result<zbus::Connection> {
        let socket = self.root()?.join("run/dbus/system_bus_socket");
        let address = format!("unix:path={}", socket.display());
        let connection = zbus::connection::Builder::address(address.as_str()).build();
        connection.await.context("cannot connect to the node's system bus")
    }
}
