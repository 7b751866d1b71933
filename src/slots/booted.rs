//! Which slot booted: the name of the partition that backs its `/usr`, through whatever lies between.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::mounts::{self, Mount};
use super::tree::{Tree, TreeError};
use super::word::Slot;

/// More layers than anybody stacks; a ring of them ends here.
const MAX_LAYERS: usize = 16;
/// Of a mount table.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The slot cannot be told, and is not guessed.
#[derive(Debug, Error)]
pub enum BootedError {
    #[error(transparent)]
    Mounts(#[from] TreeError),
    #[error("nothing is mounted at {}", .0.display())]
    NotMounted(PathBuf),
    #[error("{} is mounted from {}, which is no block device", point.display(), from.display())]
    NoDevice { point: PathBuf, from: PathBuf },
    #[error("{} is not in /sys", .0.display())]
    Unknown(PathBuf),
    #[error("the partitions {0:?} have no name that ends in -a, _a, -b or _b")]
    NoSuffix(Vec<String>),
    #[error("the partitions {0:?} are of both slots")]
    Both(Vec<String>),
    #[error("more than {MAX_LAYERS} layers of devices")]
    TooDeep,
}

/// Looks from `root` (`/sysroot` in an initrd, `/` on a host) at its `usr`, or else at itself.
///
/// # Errors
/// [`BootedError`]
pub fn booted_slot(tree: &Tree, root: &Path) -> Result<Slot, BootedError> {
    backing(tree, root)?.slot()
}

/// The names of the partitions that something lies on.
#[derive(Debug)]
pub(super) struct Backing(Vec<String>);

impl Backing {
    pub(super) fn slot(self) -> Result<Slot, BootedError> {
        let mut slots: Vec<_> = self.slotted().map(|(_, slot)| slot).collect();
        slots.sort();
        slots.dedup();
        match slots.as_slice() {
            [slot] => Ok(*slot),
            [] => Err(BootedError::NoSuffix(self.0)),
            _ => Err(BootedError::Both(self.0)),
        }
    }

    pub(super) fn slotted(&self) -> impl Iterator<Item = (&str, Slot)> {
        self.0.iter().filter_map(|name| Some((name.as_str(), suffix(name)?)))
    }
}

/// Of a root's `usr` if that is a mount of its own, else of the root.
pub(super) fn backing(tree: &Tree, root: &Path) -> Result<Backing, BootedError> {
    let mounts = mounted(tree)?;
    let usr = mounts::at(&mounts, &root.join("usr"));
    backing_of(tree, &mounts, root, usr.or_else(|| mounts::at(&mounts, root)))
}

/// Of the mount that a path is on.
pub(super) fn backing_below(tree: &Tree, path: &Path) -> Result<Backing, BootedError> {
    let mounts = mounted(tree)?;
    backing_of(tree, &mounts, path, mounts::of(&mounts, path))
}

fn mounted(tree: &Tree) -> Result<Vec<Mount>, BootedError> {
    let table = tree.read(Path::new("/proc/self/mountinfo"), MAX_BYTES)?;
    Ok(mounts::parse(&String::from_utf8_lossy(&table)))
}

fn backing_of(
    tree: &Tree,
    mounts: &[Mount],
    path: &Path,
    mount: Option<&Mount>,
) -> Result<Backing, BootedError> {
    let mount = mount.ok_or_else(|| BootedError::NotMounted(path.to_owned()))?;
    let look = Look { tree, mounts };
    let mut names = Vec::new();
    look.partitions(&look.device_of(mount)?, MAX_LAYERS, &mut names)?;
    names.sort();
    names.dedup();
    Ok(Backing(names))
}

/// Of all partitions that there are.
pub(super) fn partition_names(tree: &Tree) -> Vec<String> {
    let devices = std::fs::read_dir(tree.at("/sys/class/block")).into_iter().flatten().flatten();
    devices.filter_map(|device| partition_name(&device.path())).collect()
}

fn suffix(name: &str) -> Option<Slot> {
    let ends =
        |slot: &Slot| name.ends_with(&format!("-{slot}")) || name.ends_with(&format!("_{slot}"));
    Slot::BOTH.into_iter().find(ends)
}

struct Look<'a> {
    tree: &'a Tree,
    mounts: &'a [Mount],
}

impl Look<'_> {
    /// Its directory in `/sys`.
    fn device_of(&self, mount: &Mount) -> Result<PathBuf, BootedError> {
        let numbered = self.tree.at("/sys/dev/block").join(&mount.device);
        if numbered.exists() {
            return Ok(numbered);
        }
        // btrfs and its like show a number of their own; the source names the device.
        let name = mount.source.strip_prefix("/dev");
        let name = name.map_err(|_elsewhere| BootedError::NoDevice {
            point: mount.point.clone(),
            from: mount.source.clone(),
        })?;
        self.named(name).ok_or_else(|| BootedError::Unknown(mount.source.clone()))
    }

    /// `sda2`, or `mapper/root`: then the one that device-mapper calls so.
    fn named(&self, name: &Path) -> Option<PathBuf> {
        let blocks = self.tree.at("/sys/class/block");
        let Ok(mapped) = name.strip_prefix("mapper") else {
            return Some(blocks.join(name)).filter(|path| path.exists());
        };
        let mapped = mapped.to_str()?;
        let all = std::fs::read_dir(blocks).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        all.into_iter().find(|path| line(&path.join("dm/name")).is_some_and(|it| it == mapped))
    }

    /// Collects the names of the partitions that a device lies on.
    fn partitions(
        &self,
        device: &Path,
        layers: usize,
        names: &mut Vec<String>,
    ) -> Result<(), BootedError> {
        let layers = layers.checked_sub(1).ok_or(BootedError::TooDeep)?;
        if let Some(name) = partition_name(device) {
            names.push(name);
            return Ok(());
        }
        if let Some(file) = line(&device.join("loop/backing_file")) {
            return match mounts::of(self.mounts, Path::new(&file)) {
                Some(mount) => self.partitions(&self.device_of(mount)?, layers, names),
                None => Err(BootedError::NotMounted(file.into())),
            };
        }
        // A partition of a loop device or of a disk without names: what the whole lies on.
        if device.join("partition").exists() {
            let whole =
                std::fs::canonicalize(device).ok().and_then(|it| Some(it.parent()?.to_owned()));
            return whole.map_or(Ok(()), |whole| self.partitions(&whole, layers, names));
        }
        let slaves = std::fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
        slaves.map(|slave| slave.path()).try_for_each(|it| self.partitions(&it, layers, names))
    }
}

fn partition_name(device: &Path) -> Option<String> {
    let event = std::fs::read_to_string(device.join("uevent")).ok()?;
    let name = event.lines().find_map(|line| line.strip_prefix("PARTNAME="))?;
    Some(name.to_owned())
}

fn line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}
