//! What can be seen of a node without asking it: its journal, its processes, its console.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Node;
use super::processes::{field, inner_pid, start_time};

/// Lines of console and of journal in an error.
const STORY_LINES: usize = 40;

/// What a process holds in memory, in KiB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// `VmRSS`.
    pub resident: u64,
    /// `RssAnon`: what is its own.
    pub anonymous: u64,
    /// `RssFile`: mapped files, shared with others.
    pub file: u64,
}

impl Node {
    /// Entries of the journal over all boots, also of a node that is off. The arguments are
    /// `journalctl`'s.
    pub fn journal(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let output = self.journalctl(&[&["-o", "json", "--all"], arguments].concat())?;
        let lines = output.lines().filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(line).context("odd journal entry")).collect()
    }

    fn journalctl(&self, arguments: &[&str]) -> Result<String> {
        let journal = self.layer().upper().join("var/log/journal");
        let output = Command::new("journalctl")
            .args(["--no-pager", "--quiet", "-D"])
            .arg(journal)
            .args(arguments)
            .output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() || complaint.is_empty(), "journalctl: {complaint}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// When PID 1 started, in clock ticks of this machine. A soft-reboot keeps it, a reboot does
    /// not.
    pub fn pid1_start_time(&self) -> Result<u64> {
        start_time(self.leader()?).context("PID 1 is gone")
    }

    /// The main process of a unit, by its number outside.
    pub async fn main_pid(&self, unit: &str) -> Result<u32> {
        let inside = self.show(unit, "MainPID").await?;
        ensure!(inside != "0", "{unit} has no main process");
        let processes = self.cgroup.processes();
        let found = processes.into_iter().find(|pid| inner_pid(*pid).as_deref() == Some(&inside));
        found.with_context(|| format!("no process of the node has the number {inside} inside"))
    }

    /// The memory of a unit's main process.
    pub async fn memory(&self, unit: &str) -> Result<Memory> {
        let pid = self.main_pid(unit).await?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let read = |key: &str| -> Result<u64> {
            let value = field(&status, key).and_then(|value| value.strip_suffix(" kB"));
            Ok(value.with_context(|| format!("no {key} in the status of {unit}"))?.parse()?)
        };
        Ok(Memory { resident: read("VmRSS")?, anonymous: read("RssAnon")?, file: read("RssFile")? })
    }

    /// The ends of the console log and of the journal, for an error.
    pub fn story(&self) -> String {
        let console = fs::read(self.console_log()).unwrap_or_default();
        let console = String::from_utf8_lossy(&console).into_owned();
        let lines = STORY_LINES.to_string();
        let journal = self.journalctl(&["-n", &lines]).unwrap_or_else(|error| error.to_string());
        format!("console:\n{}\njournal:\n{journal}", tail(&console))
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(STORY_LINES)..).unwrap_or_default().join("\n")
}
