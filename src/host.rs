//! What this host says of itself: version, boot id, machine id, name, uptime. Every path is below a root.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::config::{CurrentVersion, Fallback};

pub mod alive;
mod os_release;
#[cfg(test)]
mod tests;

/// `LoadCredential=` of the units.
const BOOT_ID_CREDENTIAL: &str = "boot-id";
/// Larger files are not what they should be.
const MAX_BYTES: u64 = 1024 * 1024;

/// Longest version, in bytes: none longer can be asked for, and it stands in every status.
const MAX_VERSION: usize = 256;

/// A host tree: `/`, or a directory in tests.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

/// A fact about the host that could not be read.
#[derive(Debug, Error)]
pub enum HostError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is larger than {MAX_BYTES} bytes", path.display())]
    TooLarge { path: PathBuf },
    #[error("no usable {key} in {}", path.display())]
    NoVersion { path: PathBuf, key: String },
    #[error("{} holds no machine id (empty or uninitialized)", path.display())]
    NoMachineId { path: PathBuf },
}

impl Host {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where the tree begins.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The running version, by the configured file, key and fallback.
    ///
    /// # Errors
    /// Only under [`Fallback::Error`].
    pub fn version(&self, how: &CurrentVersion) -> Result<String, HostError> {
        match (self.version_in_file(how), &how.fallback) {
            (Ok(version), _) => Ok(version),
            (Err(problem), Fallback::Error) => Err(problem),
            (Err(_), Fallback::Zero) => Ok("0.0.0".to_owned()),
            (Err(_), Fallback::Verbatim(text)) => Ok(text.clone()),
        }
    }

    /// The running version as it stands there.
    ///
    /// # Errors
    /// The file, its key or its value cannot be used.
    pub fn version_in_file(&self, how: &CurrentVersion) -> Result<String, HostError> {
        let text = self.read(&how.path)?;
        os_release::value(&text, &how.key)
            .filter(|version| (1..=MAX_VERSION).contains(&version.len()))
            .ok_or_else(|| HostError::NoVersion { path: how.path.clone(), key: how.key.clone() })
    }

    /// A new one at each boot of the kernel; a soft-reboot keeps it. From the unit's credential where there
    /// is one: the `/proc` of a sandbox has none, or that of a container's host.
    pub fn boot_id(&self) -> Result<String, HostError> {
        let credential = std::env::var_os("CREDENTIALS_DIRECTORY")
            .map(|directory| PathBuf::from(directory).join(BOOT_ID_CREDENTIAL))
            .filter(|path| path.exists());
        let path = credential.unwrap_or_else(|| PathBuf::from("/proc/sys/kernel/random/boot_id"));
        self.read(&path).map(trimmed)
    }

    /// The 32 hexadecimal digits of `/etc/machine-id`.
    pub fn machine_id(&self) -> Result<String, HostError> {
        let path = Path::new("/etc/machine-id");
        let id = trimmed(self.read(path)?).to_ascii_lowercase();
        let good = id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
        if good { Ok(id) } else { Err(HostError::NoMachineId { path: path.to_owned() }) }
    }

    /// Lower-cased, as kubelet registers it.
    pub fn hostname(&self) -> String {
        rustix::system::uname().nodename().to_string_lossy().to_lowercase()
    }

    /// `None` where the firmware gives none, or it may not be read.
    pub fn product_uuid(&self) -> Option<String> {
        let uuid = self.read(Path::new("/sys/class/dmi/id/product_uuid")).ok().map(trimmed)?;
        (!uuid.is_empty()).then_some(uuid)
    }

    fn read(&self, path: &Path) -> Result<String, HostError> {
        let below = self.root.join(path.strip_prefix("/").unwrap_or(path));
        let failed = |source| HostError::Read { path: path.to_owned(), source };
        let file = open(&below).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(HostError::TooLarge { path: path.to_owned() });
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A file, and nothing else: to open a device may do something, and a pipe has no end. Not waited for.
fn open(path: &Path) -> io::Result<File> {
    let is_file = |metadata: std::fs::Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("not a regular file")),
    };
    is_file(std::fs::metadata(path)?)?;
    let wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(wait).open(path)?;
    is_file(file.metadata()?)?;
    Ok(file)
}

fn trimmed(text: String) -> String {
    text.trim().to_owned()
}

/// Time since the kernel booted, suspends included. Never jumps.
pub fn uptime() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
