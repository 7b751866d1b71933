//! One cgroup per node: the way to kill all of it for certain.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::scratch::poll;

/// Joins the cgroup, then asks to be killed together with the thread that started it.
const ENTER: &str = r#"echo 0 > "$1" && shift && exec setpriv --pdeathsig KILL -- "$@""#;

/// A node's own cgroup, removed with everything in it on drop.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let dir = root()?.join(name);
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { dir })
    }

    /// The beginning of a command that joins it, and that the kernel kills when the thread that
    /// spawned it ends.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", ENTER, "enter"]).arg(self.dir.join("cgroup.procs"));
        command
    }

    /// Kills every process in it and clears it, so that it can be booted in again.
    pub(crate) fn clear(&self) -> Result<()> {
        kill(&self.dir)?;
        clear_below(&self.dir)
    }

    /// Every process in it, by its number outside.
    pub(super) fn processes(&self) -> Vec<u32> {
        let mut found = Vec::new();
        collect(&self.dir, &mut found);
        found
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.dir) {
            eprintln!("lab: {error:#}");
        }
    }
}

/// Where the unified hierarchy is mounted: on its own, or beside the old one.
pub(super) fn root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let unified = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = unified
        .filter(|fields| fields.get(2) == Some(&"cgroup2"))
        .find_map(|fields| fields.get(1).map(PathBuf::from));
    found.context("no unified cgroup hierarchy is mounted")
}

/// Kills what is in a cgroup and removes it. One that is gone already is no error.
pub(super) fn remove(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    kill(dir)?;
    clear_below(dir)?;
    let removed = poll(Duration::from_secs(5), || fs::remove_dir(dir).is_ok() || !dir.exists());
    ensure!(removed, "cannot remove {}", dir.display());
    remove_twin(dir);
    Ok(())
}

/// systemd's old hierarchy, where it is mounted too: nspawn makes the same directories there.
pub(super) fn twins() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let named = |options: &str| options.split(',').any(|option| option == "name=systemd");
    let old = fields.find(|fields| {
        fields.get(2) == Some(&"cgroup") && fields.get(3).is_some_and(|options| named(options))
    })?;
    old.get(1).map(PathBuf::from)
}

/// Removes an empty cgroup of the old hierarchy; the kill of its twin may take some milliseconds.
fn remove_twin(dir: &Path) {
    if let (Some(twins), Some(name)) = (twins(), dir.file_name()) {
        let twin = twins.join(name);
        poll(Duration::from_secs(1), || {
            remove_tree(&twin);
            !twin.exists()
        });
    }
}

fn kill(dir: &Path) -> Result<()> {
    match fs::write(dir.join("cgroup.kill"), "1") {
        Err(error) if dir.exists() => Err(error).context("cannot kill a node's cgroup"),
        _ => Ok(()),
    }
}

/// Removes the cgroups below; their processes take some milliseconds to be gone after a kill.
fn clear_below(dir: &Path) -> Result<()> {
    let cleared = poll(Duration::from_secs(5), || {
        for child in children(dir) {
            remove_tree(&child);
        }
        children(dir).is_empty() && read_pids(dir).is_empty()
    });
    ensure!(cleared, "processes survive in {}", dir.display());
    Ok(())
}

pub(super) fn remove_tree(dir: &Path) {
    for child in children(dir) {
        remove_tree(&child);
    }
    let _ = fs::remove_dir(dir);
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn collect(dir: &Path, found: &mut Vec<u32>) {
    found.extend(read_pids(dir));
    for child in children(dir) {
        collect(&child, found);
    }
}

fn read_pids(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
