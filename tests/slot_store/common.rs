//! Files and images for the tests of the slots.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub(crate) fn put(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().context("no parent")?)?;
    Ok(fs::write(path, bytes)?)
}

#[derive(Clone, Copy)]
pub(crate) enum Format {
    Squashfs,
    Erofs,
}

/// Makes an image of a directory.
pub(crate) fn make_image(tree: &Path, image: &Path, format: Format) -> Result<()> {
    fs::create_dir_all(image.parent().context("no parent")?)?;
    let mut command = match format {
        Format::Squashfs => Command::new("mksquashfs"),
        Format::Erofs => Command::new("mkfs.erofs"),
    };
    match format {
        Format::Squashfs => command.args([tree, image]).args([
            "-quiet",
            "-noappend",
            "-all-root",
            "-processors",
            "1",
        ]),
        Format::Erofs => command.arg("--all-root").args([image, tree]),
    };
    let output = command.output();
    let output = output.context("squashfs-tools or erofs-utils are not installed: make setup")?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

/// What the machine must be able to do: to skip silently would be to pass.
pub(crate) fn needed() -> Result<()> {
    let filesystems = fs::read_to_string("/proc/filesystems")?;
    for name in ["squashfs", "erofs", "overlay"] {
        // A module that is not loaded yet is loaded by the first mount.
        let loaded =
            filesystems.lines().any(|line| line.trim_start_matches("nodev").trim() == name);
        let loadable = || Command::new("modprobe").arg(name).status().is_ok_and(|it| it.success());
        ensure!(loaded || loadable(), "this kernel has no {name}: images cannot be mounted");
    }
    ensure!(Path::new("/dev/loop-control").exists(), "there is no /dev/loop-control");
    Ok(())
}
