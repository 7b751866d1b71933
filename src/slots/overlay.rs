//! Confexts below a writable `/etc`: each image mounted, their `etc` laid over the host's, and what users
//! change on top of all of it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree, unmount,
};
use thiserror::Error;

use super::gpt::{PartError, loop_options};
use super::mounts;

/// Where images are mounted: `/run` moves along to the real root.
pub(super) const IMAGES: &str = "/run/trident/confexts";
/// What users changed, in the real root. It outlives every set.
pub(super) const CHANGES: &str = "/var/lib/trident/etc";
/// The overlay's name among the mounts.
const SOURCE: &str = "trident-slots";
/// What one call of the kernel takes.
const MAX_OPTIONS: usize = 4095;

#[derive(Debug, Error)]
pub(super) enum OverlayError {
    #[error("cannot make {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot run mount")]
    NoMount { source: io::Error },
    #[error("cannot mount {}: {said}", image.display())]
    Image { image: PathBuf, said: String },
    #[error("cannot mount {}", image.display())]
    Table { image: PathBuf, source: PartError },
    #[error("{} holds no directory etc", .0.display())]
    NoEtc(PathBuf),
    #[error("these are more confexts than the kernel takes at once")]
    TooMany,
    #[error("cannot lay confexts over {}", etc.display())]
    Overlay { etc: PathBuf, source: io::Error },
    #[error("cannot keep the mount {}", point.display())]
    Below { point: PathBuf, source: io::Error },
    #[error("cannot look at the mounts")]
    Mounts { source: io::Error },
}

/// The places, as they are found from here.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) images: PathBuf,
    pub(super) etc: PathBuf,
    pub(super) changes: PathBuf,
}

impl Places {
    /// The n-th image, read-only.
    ///
    /// # Errors
    /// [`OverlayError`]; then nothing is mounted there.
    pub(super) fn mount_image(&self, number: usize, image: &Path) -> Result<PathBuf, OverlayError> {
        let point = self.images.join(number.to_string());
        directory(&point, 0o755)?;
        let options = loop_options(image)
            .map_err(|source| OverlayError::Table { image: image.to_owned(), source })?;
        let mut command = Command::new("mount");
        command.arg("-o").arg(format!("{options},ro,nosuid,nodev"));
        command.arg("--").arg(image).arg(&point);
        let output = command.output().map_err(|source| OverlayError::NoMount { source })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            return Err(OverlayError::Image { image: image.to_owned(), said });
        }
        let etc = point.join("etc");
        if fs::symlink_metadata(&etc).is_ok_and(|found| found.is_dir()) {
            return Ok(etc);
        }
        let _gone_with_the_boot = unmount(&point, UnmountFlags::DETACH);
        Err(OverlayError::NoEtc(image.to_owned()))
    }

    /// Whether there is anything to lay: images, or changes that would else be lost from sight.
    pub(super) fn needed(&self, images: &[PathBuf]) -> bool {
        !images.is_empty() || self.changes.join("upper").exists()
    }

    /// Lays the images' directories over `etc`, the first on top, and the changes above them.
    ///
    /// # Errors
    /// [`OverlayError`]; then `etc` is as it was.
    pub(super) fn lay(&self, images: &[PathBuf]) -> Result<(), OverlayError> {
        let (upper, work) = (self.changes.join("upper"), self.changes.join("work"));
        for path in [&upper, &work] {
            directory(path, 0o755)?;
        }
        let below = self.kept()?;
        let options = options(images, &self.etc, &upper, &work)?;
        let flags = MountFlags::empty();
        mount(SOURCE, &self.etc, "overlay", flags, options.as_c_str()).map_err(|source| {
            OverlayError::Overlay { etc: self.etc.clone(), source: source.into() }
        })?;
        for (point, tree) in below {
            let kept = move_mount(tree, "", CWD, &point, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
            if let Err(source) = kept {
                let _already_failed = unmount(&self.etc, UnmountFlags::DETACH);
                return Err(OverlayError::Below { point, source: source.into() });
            }
        }
        Ok(())
    }

    /// Copies of what is mounted below `etc`: the overlay would hide it.
    fn kept(&self) -> Result<Vec<(PathBuf, OwnedFd)>, OverlayError> {
        let all = mounted()?;
        let mut points: Vec<_> = all.into_iter().map(|mount| mount.point).collect();
        points.retain(|point| point.starts_with(&self.etc) && *point != self.etc);
        points.sort();
        points.dedup();
        // One below another comes along with it.
        let mut outer: Vec<PathBuf> = Vec::new();
        for point in points {
            if !outer.last().is_some_and(|above| point.starts_with(above)) {
                outer.push(point);
            }
        }
        outer.into_iter().map(copy).collect()
    }

    /// Takes back whatever an earlier run left.
    ///
    /// # Errors
    /// [`OverlayError`]
    pub(super) fn clear(&self) -> Result<(), OverlayError> {
        for mount in mounted()?.iter().rev() {
            let overlay = mount.point == self.etc && mount.source == Path::new(SOURCE);
            if overlay || mount.point.starts_with(&self.images) {
                unmount(&mount.point, UnmountFlags::DETACH)
                    .map_err(|source| OverlayError::Mounts { source: source.into() })?;
            }
        }
        Ok(())
    }
}

fn mounted() -> Result<Vec<mounts::Mount>, OverlayError> {
    let text =
        fs::read("/proc/self/mountinfo").map_err(|source| OverlayError::Mounts { source })?;
    Ok(mounts::parse(&String::from_utf8_lossy(&text)))
}

fn copy(point: PathBuf) -> Result<(PathBuf, OwnedFd), OverlayError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    match open_tree(CWD, &point, flags) {
        Ok(tree) => Ok((point, tree)),
        Err(source) => Err(OverlayError::Below { point, source: source.into() }),
    }
}

fn options(
    images: &[PathBuf],
    etc: &Path,
    upper: &Path,
    work: &Path,
) -> Result<CString, OverlayError> {
    let lower: Vec<_> = images.iter().map(PathBuf::as_path).chain([etc]).map(escape).collect();
    let lower = lower.join(":");
    let text = format!("lowerdir={lower},upperdir={},workdir={}", escape(upper), escape(work));
    match CString::new(text) {
        Ok(text) if text.as_bytes().len() <= MAX_OPTIONS => Ok(text),
        _ => Err(OverlayError::TooMany),
    }
}

/// The kernel parts options at commas, and directories at colons.
fn escape(path: &Path) -> String {
    let mut text = String::new();
    for sign in path.to_string_lossy().chars() {
        if matches!(sign, '\\' | ',' | ':') {
            text.push('\\');
        }
        text.push(sign);
    }
    text
}

fn directory(path: &Path, mode: u32) -> Result<(), OverlayError> {
    let made = fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|source| OverlayError::Directory { path: path.to_owned(), source })
}
