//! One image into the staging directory: linked from a slot that has it already, or copied from its source.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use sha2::{Digest, Sha384 as Hasher};
use thiserror::Error;

use super::super::durable;
use super::super::manifest::{Extension, Manifest, Source, SourceKind};
use super::super::store::Store;
use super::super::tree::Tree;
use super::super::word::{Kind, Sha384, Slot};
use super::image::{Found, LookError, look_into};
use super::wanted::Slotted;

#[derive(Debug, Error)]
pub enum FillError {
    #[error("cannot open {url}")]
    Open { url: String, source: io::Error },
    #[error("{url} is not a regular file")]
    NoFile { url: String },
    #[error("there is no room in the store: {needed} bytes are needed, and {free} are free")]
    NoRoom { needed: u64, free: u64 },
    #[error("cannot take the room in the store")]
    Room(#[source] io::Error),
    #[error("cannot copy {url}")]
    Copy { url: String, source: io::Error },
    #[error("{url} had {expected} bytes, and gave {found}")]
    Length { url: String, expected: u64, found: u64 },
    #[error("{url} has not the wanted SHA-384: it is {found}")]
    Content { url: String, found: Sha384 },
    #[error("{url} is refused")]
    Refused { url: String, source: LookError },
}

/// A wanted image that a slot holds already, whole.
pub(super) fn reusable(
    store: &Store,
    sets: &[Manifest],
    wanted: &Slotted,
) -> Option<(Slot, Extension)> {
    let records = sets.iter().flat_map(|set| set.extensions.iter().map(|it| (set.slot, it)));
    let mut same = records.filter(|(_, it)| it.kind == wanted.kind && it.sha384 == wanted.sha384);
    // A record is a promise, and the file may have changed since.
    let whole = same.find(|(slot, extension)| store.verify(*slot, extension).is_ok());
    whole.map(|(slot, extension)| (slot, extension.clone()))
}

/// Where an image stands in a slot's directory.
pub(super) fn place(kind: Kind, file_name: &str) -> String {
    format!("{}/{file_name}", kind.directory())
}

/// Of another file system, or of one without hard links: a copy.
pub(super) fn reuse(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(_) => {
            fs::copy(from, to)?;
            File::open(to)?.sync_all()
        }
    }
}

/// An image that is to be copied.
#[derive(Debug)]
pub(super) struct Opened {
    source: File,
    pub(super) size: u64,
}

/// The same, with its room in the store taken.
#[derive(Debug)]
pub(super) struct Reserved {
    source: File,
    target: File,
    size: u64,
}

pub(super) fn open(tree: &Tree, wanted: &Slotted) -> Result<Opened, FillError> {
    let url = || wanted.url.shown().to_owned();
    let failed = |source| FillError::Open { url: url(), source };
    let path = wanted.url.file().ok_or_else(|| FillError::NoFile { url: url() })?;
    let path = tree.at(path);
    let found = fs::metadata(&path).map_err(failed)?;
    if !found.is_file() {
        return Err(FillError::NoFile { url: url() });
    }
    Ok(Opened { source: File::open(&path).map_err(failed)?, size: found.len() })
}

/// Looked at before any of it is taken: taking what is not there fills the disk first.
pub(super) fn has_room(
    directory: &Path,
    sizes: impl Iterator<Item = u64>,
) -> Result<(), FillError> {
    let found = statvfs(directory).map_err(|source| FillError::Room(source.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let needed = sizes.fold(0, u64::saturating_add);
    if needed <= free { Ok(()) } else { Err(FillError::NoRoom { needed, free }) }
}

/// Takes the room, so that nobody else does while the first images are copied.
pub(super) fn reserve(opened: Opened, target: &Path) -> Result<Reserved, FillError> {
    let Opened { source, size } = opened;
    let mut options = OpenOptions::new();
    let target = options.write(true).create_new(true).mode(0o644).open(target);
    let target = target.map_err(FillError::Room)?;
    if size > 0 {
        fallocate(&target, FallocateFlags::empty(), 0, size)
            .map_err(|source| FillError::Room(source.into()))?;
    }
    Ok(Reserved { source, target, size })
}

const CHUNK: usize = 128 * 1024;

/// Copies, hashing what is written; flushed when it returns. `said` gets the bytes done so far.
pub(super) fn copy(
    mut reserved: Reserved,
    wanted: &Slotted,
    mut said: impl FnMut(u64, u64),
) -> Result<u64, FillError> {
    let url = || wanted.url.shown().to_owned();
    let failed = |source| FillError::Copy { url: url(), source };
    let size = reserved.size;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let length = reserved.source.read(&mut buffer).map_err(failed)?;
        let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else { break };
        done += length as u64;
        // A file that grows while it is read has no end.
        if done > size {
            break;
        }
        hasher.update(read);
        reserved.target.write_all(read).map_err(failed)?;
        said(done, size);
    }
    if done != size {
        return Err(FillError::Length { url: url(), expected: size, found: done });
    }
    let found = Sha384::of_digest(&hasher.finalize());
    if found != wanted.sha384 {
        return Err(FillError::Content { url: url(), found });
    }
    reserved.target.sync_all().map_err(failed)?;
    Ok(size)
}

/// Looks into a copied image, gives it its name, and makes its record.
pub(super) fn admit(
    wanted: &Slotted,
    size: u64,
    copied: &Path,
    staging: &Path,
) -> Result<Extension, FillError> {
    let url = || wanted.url.shown().to_owned();
    let refused = |source| FillError::Refused { url: url(), source };
    let found = look_into(copied, &staging.join("look"), wanted.kind).map_err(refused)?;
    let Found { id, name, release } = found;
    let called = wanted.url.file().and_then(Path::file_name).unwrap_or_default();
    let (called, expected) = (called.to_string_lossy(), name.file_name());
    if called != expected {
        return Err(refused(LookError::FileName { found: called.into_owned(), expected }));
    }
    let file = place(wanted.kind, &expected);
    let target = staging.join(&file);
    let taken = || refused(io::Error::other(format!("{file} stands there twice")).into());
    if target.exists() {
        return Err(taken());
    }
    durable::shift(copied, &target).map_err(|source| FillError::Copy { url: url(), source })?;
    Ok(Extension {
        kind: wanted.kind,
        id,
        name,
        file,
        size,
        sha384: wanted.sha384.clone(),
        required: true,
        source: Some(Source {
            kind: SourceKind::Url,
            hash: (&wanted.sha384).into(),
            location: Some(url()),
        }),
        release,
    })
}
