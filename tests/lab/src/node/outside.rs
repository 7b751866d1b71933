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

    /// The same in the export format, field by field: names, and values as bytes.
    pub fn journal_fields(&self, arguments: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
        let bytes = self.journalctl_bytes(&[&["-o", "export"], arguments].concat())?;
        export_fields(&bytes).context("an odd export of the journal")
    }

    fn journalctl(&self, arguments: &[&str]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.journalctl_bytes(arguments)?).into_owned())
    }

    fn journalctl_bytes(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let journal = self.layer().upper().join("var/log/journal");
        let output = Command::new("journalctl")
            .args(["--no-pager", "--quiet", "-D"])
            .arg(journal)
            .args(arguments)
            .output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() || complaint.is_empty(), "journalctl: {complaint}");
        Ok(output.stdout)
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

/// `NAME=value` lines; or a line with the name alone, a length of eight bytes, and that many.
fn export_fields(mut bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut fields = Vec::new();
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let (line, rest) = (bytes.get(..end)?, bytes.get(end + 1..)?);
        bytes = rest;
        if line.is_empty() {
            continue;
        }
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if let Some(at) = line.iter().position(|byte| *byte == b'=') {
            fields.push((name(line.get(..at)?), line.get(at + 1..)?.to_vec()));
            continue;
        }
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        fields.push((name(line), rest.get(..length)?.to_vec()));
        bytes = rest.get(length + 1..)?;
    }
    Some(fields)
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(STORY_LINES)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_is_read_field_by_field() {
        let binary = [b"B\n".as_slice(), &7_u64.to_le_bytes(), b"x\nC=3\n\n\n"].concat();
        let bytes = [b"A=1=2\n".as_slice(), &binary, b"\nD=\n"].concat();
        let fields = export_fields(&bytes).unwrap();
        let expected = [("A", "1=2"), ("B", "x\nC=3\n\n"), ("D", "")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        assert_eq!(fields, expected);
        assert_eq!(export_fields(b"A\n\xff\xff\xff\xff\xff\xff\xff\xffx\n"), None);
    }
}
