//! Replacing a file so that a power cut leaves the old one or the new one, whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::steps::{self, Step};

/// Owner only.
const MODE: u32 = 0o600;

/// Writes `bytes` to a temporary file beside `path`, flushes it, renames it and flushes the directory.
///
/// # Errors
/// Any step's own; `path` is untouched unless the rename was reached.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_added_extension("new");
    write_flushed(&temporary, bytes)?;
    rename_flushed(&temporary, path)
}

fn write_flushed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = steps::done(Step::FileWrite, path, || write(path, bytes))?;
    steps::done(Step::FileFlush, path, || file.sync_all())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Renames within one directory, and flushes that.
#[expect(clippy::disallowed_methods, reason = "this is the place: the flushes stand around it")]
pub(super) fn rename_flushed(from: &Path, to: &Path) -> io::Result<()> {
    steps::done(Step::FileRename, to, || std::fs::rename(from, to))?;
    steps::done(Step::DirectoryFlush, to, || File::open(directory_of(to))?.sync_all())
}

pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
