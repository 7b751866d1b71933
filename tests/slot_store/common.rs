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
    /// The first, as the root partition of a table.
    Partitioned,
}

/// Makes an image of a directory.
pub(crate) fn make_image(tree: &Path, image: &Path, format: Format) -> Result<()> {
    fs::create_dir_all(image.parent().context("no parent")?)?;
    let mut command = match format {
        Format::Squashfs | Format::Partitioned => Command::new("mksquashfs"),
        Format::Erofs => Command::new("mkfs.erofs"),
    };
    match format {
        Format::Squashfs | Format::Partitioned => command.args([tree, image]).args([
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
    if matches!(format, Format::Partitioned) {
        fs::write(image, in_a_table(&fs::read(image)?))?;
    }
    Ok(())
}

/// A partition table with one root partition (x86-64) from sector 8 on.
fn in_a_table(file_system: &[u8]) -> Vec<u8> {
    let sectors = file_system.len().div_ceil(512) as u64;
    let mut image = vec![0; 8 * 512];
    image[512..520].copy_from_slice(b"EFI PART");
    image[584] = 2;
    image[592] = 1;
    image[596] = 128;
    let kind = b"\xe3\xbc\x68\x4f\xcd\xe8\xb1\x4d\x96\xe7\xfb\xca\xf9\x84\xb7\x09";
    image[1024..1040].copy_from_slice(kind);
    image[1056] = 8;
    image[1064..1072].copy_from_slice(&(7 + sectors).to_le_bytes());
    image.extend(file_system);
    image.resize(image.len().next_multiple_of(512), 0);
    image
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
