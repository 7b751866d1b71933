//! A disk that is full or read-only, in the mount namespace of one thread.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// In KiB: for some files of the agent's.
const SIZE: u32 = 64;
const JUNK: &str = "junk";

/// A small disk, mounted for the thread that made it and those that it starts from then on.
#[derive(Debug)]
pub struct SmallDisk {
    directory: PathBuf,
}

impl SmallDisk {
    /// Mounts it on a directory. Needs root.
    pub fn mount(directory: &Path) -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS).context("cannot make a mount namespace: not root?")?;
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        std::fs::create_dir_all(directory)?;
        let size = format!("size={SIZE}k");
        mount(Some("disk"), directory, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))
            .context("cannot mount a small disk")?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Leaves no room for another byte.
    pub fn fill(&self) -> Result<()> {
        let mut junk = File::create(self.directory.join(JUNK))?;
        while junk.write_all(&[0; 4096]).is_ok() {}
        let more = File::create(self.directory.join("more")).and_then(|mut it| it.write_all(&[0]));
        let _ = std::fs::remove_file(self.directory.join("more"));
        ensure!(more.is_err(), "there is room left");
        Ok(())
    }

    /// Makes room again.
    pub fn empty(&self) -> Result<()> {
        std::fs::remove_file(self.directory.join(JUNK)).context("it was not filled")
    }

    /// Whether it can be written.
    pub fn read_only(&self, on: bool) -> Result<()> {
        let flags = if on { MsFlags::MS_RDONLY } else { MsFlags::empty() };
        let none = None::<&str>;
        mount(none, &self.directory, none, MsFlags::MS_REMOUNT | flags, none)
            .context("cannot mount it again")
    }
}
