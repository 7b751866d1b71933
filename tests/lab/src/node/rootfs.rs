//! Root file systems: made once per release and kept in the target directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::scratch;

const PACKAGES: &str =
    "systemd,systemd-sysv,dbus,libpam-systemd,udev,kmod,iproute2,procps,ca-certificates";
const TRIM: &str = include_str!("rootfs.sh");

/// A Debian release that a node can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Release {
    /// Debian 12, systemd 252.
    Bookworm,
    /// Debian 13, systemd 257.
    Trixie,
}

impl Release {
    /// Both, oldest first.
    pub const ALL: [Self; 2] = [Self::Bookworm, Self::Trixie];

    /// The release's code name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }
}

/// The cache of unpacked root file systems.
#[derive(Debug)]
pub struct Rootfs;

impl Rootfs {
    /// The directory of a root file system, never to be written to. The first call makes it, which
    /// takes about a minute; a lock makes other test processes wait for it.
    pub fn prepare(release: Release) -> Result<PathBuf> {
        let base = scratch::lab_dir()?.join("rootfs");
        let name = format!("{}-{}", release.name(), fingerprint());
        let done = base.join(&name);
        if done.is_dir() {
            return Ok(done);
        }
        fs::create_dir_all(&base)?;
        let lock = File::create(base.join(format!("{name}.lock")))?;
        lock.lock().context("cannot lock the root file system's cache")?;
        if !done.is_dir() {
            build(release, &base.join(format!("{name}.new")), &done)?;
        }
        Ok(done)
    }
}

/// Changes whenever a different root file system would be made.
fn fingerprint() -> String {
    let digest = Sha256::new().chain_update(PACKAGES).chain_update(TRIM).finalize();
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn build(release: Release, new: &Path, done: &Path) -> Result<()> {
    let started = Instant::now();
    eprintln!("lab: making the {} root file system in {}", release.name(), done.display());
    if new.exists() {
        fs::remove_dir_all(new).context("cannot remove a half-made root file system")?;
    }
    let status = mmdebstrap(release, new).status().context("cannot run mmdebstrap")?;
    ensure!(status.success(), "mmdebstrap for {} ended with {status}", release.name());
    fs::rename(new, done)?;
    eprintln!("lab: made it in {:.1} s", started.elapsed().as_secs_f32());
    Ok(())
}

fn mmdebstrap(release: Release, target: &Path) -> Command {
    // Its mounts must not show in the caller's namespace, and nothing of it may outlive the caller.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "unshare", "--mount", "--pid", "--mount-proc"]);
    command.args(["--fork", "--kill-child", "--propagation", "private", "--", "mmdebstrap"]);
    command.args(["--quiet", "--variant=minbase", "--format=directory"]);
    command.arg(format!("--include={PACKAGES}"));
    let keyring = format!("/usr/share/keyrings/debian-archive-{}-stable.gpg", release.name());
    if Path::new(&keyring).exists() {
        command.arg(format!("--keyring={keyring}"));
    }
    // mmdebstrap runs a hook by `sh -c HOOK exec ROOT`.
    command.arg(format!("--customize-hook={}", hook()));
    command.arg(release.name()).arg(target);
    command.args(mirror());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Hands the script over as a word, so that it needs no file.
fn hook() -> String {
    format!("sh -c '{}' trim \"$1\"", TRIM.replace('\'', r"'\''"))
}

/// `DEBIAN_MIRROR`, else the archive that this machine's apt uses, else none: mmdebstrap has a
/// default.
fn mirror() -> Option<String> {
    std::env::var("DEBIAN_MIRROR").ok().filter(|mirror| !mirror.is_empty()).or_else(apt_mirror)
}

fn apt_mirror() -> Option<String> {
    let filters = ["Origin: Debian", "Label: Debian", "Component: main", "Created-By: Packages"];
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)"])
        .args(filters)
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(str::to_owned)
}
