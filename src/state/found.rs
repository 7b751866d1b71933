//! What stands where the state file should be.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A larger file is not ours.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Longest chain of links that is followed.
const MAX_LINKS: usize = 8;

pub(super) enum Found {
    Nothing,
    File(Vec<u8>),
    /// A directory, a pipe, a device.
    Other {
        inode: u64,
    },
}

/// Looks, and waits for nothing: a pipe has no end, and to open a device may do something.
pub(super) fn look(path: &Path) -> io::Result<Found> {
    match opened(path) {
        Ok(found) => found.map_or_else(|inode| Ok(Found::Other { inode }), read),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(error),
    }
}

/// The file; or the inode of what is none.
fn opened(path: &Path) -> io::Result<Result<File, u64>> {
    let seen = std::fs::metadata(path)?;
    if !seen.is_file() {
        return Ok(Err(seen.ino()));
    }
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(no_wait).open(path).map(Ok)
}

fn read(file: File) -> io::Result<Found> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(Found::File(bytes))
}

/// Where links lead from here. Who keeps the state on another disk by a link is to find it there.
pub(super) fn place(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&place) {
            Ok(target) => place = super::file::directory_of(&place).join(target),
            // No link, or nothing there yet.
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::other("too many links, one after the other"))
}
