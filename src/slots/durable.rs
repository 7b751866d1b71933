//! Files and directories that a power cut leaves old or new, whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Writes a temporary file beside `path`, flushes it, renames it and flushes the directory.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_added_extension("new");
    write(&new, bytes)?;
    put(&new, path)
}

/// A new file, flushed; its directory is not.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Moves within one directory, and flushes that.
#[expect(clippy::disallowed_methods, reason = "this is the place: the flushes stand around it")]
pub(super) fn put(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    flush_above(to)
}

/// Moves within one file system; who flushes is the caller's.
#[expect(clippy::disallowed_methods, reason = "within a directory that is flushed as a whole")]
pub(super) fn shift(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Two directories change places, in one step; flushed.
pub(super) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?;
    flush_above(other)
}

pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => flush_above(path).map(|()| true),
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(problem) => Err(problem),
    }
}

pub(super) fn flush(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn flush_above(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), flush)
}
