//! Names and directories that belong to one test process, and the sweep of those whose process is
//! gone.
//!
//! A name is `lab-PID-STARTTIME-NUMBER`: a process id alone is used again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::cgroup;
use super::processes::start_time;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A name that no other node of any test process has.
pub(super) fn unique_name() -> Result<String> {
    let pid = std::process::id();
    let start = start_time(pid).context("no start time in /proc/self/stat")?;
    Ok(format!("lab-{pid}-{start}-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// `<target>/lab`: on a real file system, as overlayfs wants it.
pub(crate) fn lab_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let tagged = exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let target = tagged.map_or(here, Path::to_path_buf);
    let lab = target.join("lab");
    fs::create_dir_all(&lab)?;
    lab.canonicalize().with_context(|| format!("cannot find {}", lab.display()))
}

/// The directories of one node, removed in `drop` unless `LAB_KEEP` is set.
#[derive(Debug)]
pub(crate) struct Scratch {
    name: String,
    dir: PathBuf,
    sockets: PathBuf,
}

impl Scratch {
    /// Makes the directories, after sweeping what dead test processes left.
    pub(crate) fn new() -> Result<Self> {
        sweep().context("cannot sweep the leavings of dead test processes")?;
        let name = unique_name()?;
        let dir = nodes_dir()?.join(&name);
        for part in ["upper", "work", "merged"] {
            fs::create_dir_all(dir.join(part))?;
        }
        // Socket addresses are limited to 108 bytes, and a target directory can be deep.
        let sockets = std::env::temp_dir().join(&name);
        fs::create_dir_all(&sockets)?;
        Ok(Self { name, dir, sockets })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self, part: &str) -> PathBuf {
        self.dir.join(part)
    }

    /// A short path for a socket.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        self.sockets.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.sockets);
        if std::env::var_os("LAB_KEEP").is_some() {
            let _ = fs::write(self.dir.join("keep"), "");
            eprintln!("lab: kept {}", self.dir.display());
        } else if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("lab: cannot remove {}: {error}", self.dir.display());
        }
    }
}

fn nodes_dir() -> Result<PathBuf> {
    let nodes = lab_dir()?.join("nodes");
    fs::create_dir_all(&nodes)?;
    Ok(nodes)
}

fn sweep() -> Result<()> {
    let stale = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| is_stale(path)).collect()
    };
    for group in stale(&cgroup::root()?) {
        cgroup::remove(&group)?;
    }
    let twins = cgroup::twins();
    twins.iter().flat_map(|twins| stale(twins)).for_each(|twin| cgroup::remove_tree(&twin));
    for dir in stale(&nodes_dir()?).into_iter().chain(stale(&std::env::temp_dir())) {
        // Another test process may be sweeping the same one.
        let _ = fs::remove_dir_all(dir);
    }
    Ok(())
}

/// True for a name of ours whose process is gone, unless it is to be kept.
fn is_stale(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((pid, start)) = owner(&name) else {
        return false;
    };
    start_time(pid) != Some(start) && !path.join("keep").exists()
}

fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix("lab-")?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Asks again every few milliseconds until `ready` is true; for states of the kernel that nothing
/// announces.
pub(crate) fn poll(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if ready() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
