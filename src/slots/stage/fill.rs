//! One image into the staging directory: linked from a slot that has it already, or written as its source gives it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use sha2::{Digest, Sha384 as Hasher};
use thiserror::Error;

use super::super::durable;
use super::super::manifest::{Extension, Manifest, Source};
use super::super::store::Store;
use super::super::word::{Kind, Sha384, Slot};
use super::image::{Found, LookError, look_into};
use super::source::{Known, Problem};
use super::wanted::Slotted;

#[derive(Debug, Error)]
pub enum FillError {
    #[error("cannot get {of}")]
    Source { of: String, source: Problem },
    #[error("there is no room in the store: {needed} bytes are needed, and {free} are free")]
    NoRoom { needed: u64, free: u64 },
    #[error("cannot take the room in the store")]
    Room(#[source] io::Error),
    #[error("cannot copy {of}")]
    Copy { of: String, source: io::Error },
    #[error("{of} should have {expected} bytes, and gave {found}")]
    Length { of: String, expected: u64, found: u64 },
    #[error("{of} has not the wanted SHA-384: it is {found}")]
    Content { of: String, found: Sha384 },
    #[error("{of} is refused")]
    Refused { of: String, source: LookError },
    #[error("{of} did not come")]
    Missing { of: String },
}

impl FillError {
    /// Of the other side.
    pub fn source(wanted: &Slotted, source: impl Into<Problem>) -> Self {
        Self::Source { of: wanted.origin.to_string(), source: source.into() }
    }

    pub(super) fn taken(wanted: &Slotted, file: String) -> Self {
        Self::Refused { of: wanted.origin.to_string(), source: LookError::Taken(file) }
    }
}

/// A wanted image that a slot holds already, whole.
pub(super) fn reusable(
    store: &Store,
    sets: &[Manifest],
    wanted: &Slotted,
) -> Option<(Slot, Extension)> {
    let records = sets.iter().flat_map(|set| set.extensions.iter().map(|it| (set.slot, it)));
    let mut same = records.filter(|(_, it)| it.kind == wanted.kind && is_record_of(it, wanted));
    // A record is a promise, and the file may have changed since.
    let whole = same.find(|(slot, extension)| store.verify(*slot, extension).is_ok());
    whole.map(|(slot, extension)| (slot, extension.clone()))
}

/// The raw image is the same, or what its kind of source has of it.
fn is_record_of(record: &Extension, wanted: &Slotted) -> bool {
    let (raw, hash) = (wanted.origin.raw_hash(), wanted.origin.hash());
    let from_same = record.source.as_ref().is_some_and(|source| {
        source.kind == wanted.origin.source_kind() && Some(&source.hash) == hash.as_ref()
    });
    raw == Some(&record.sha384) || (raw.is_none() && from_same)
}

/// Where an image stands in a slot's directory.
pub(super) fn place(kind: Kind, file_name: &str) -> String {
    format!("{}/{file_name}", kind.directory())
}

/// A link, or a copy on a file system without hard links. Never over what is there: that may be a link to an
/// image of the slot that runs.
pub(super) fn reuse(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(problem) if problem.kind() != io::ErrorKind::AlreadyExists => {
            let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o644).open(to)?;
            io::copy(&mut File::open(from)?, &mut copy)?;
            copy.sync_all()
        }
        linked => linked,
    }
}

/// The place of an image that is to come, its room in the store taken.
#[derive(Debug)]
pub(super) struct Reserved {
    target: File,
    size: u64,
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

/// Takes the room, so that nobody else does while the first images come.
pub(super) fn reserve(size: u64, target: &Path) -> Result<Reserved, FillError> {
    let mut options = OpenOptions::new();
    let target = options.write(true).create_new(true).mode(0o644).open(target);
    let target = target.map_err(FillError::Room)?;
    if size > 0 {
        fallocate(&target, FallocateFlags::empty(), 0, size)
            .map_err(|source| FillError::Room(source.into()))?;
    }
    Ok(Reserved { target, size })
}

const CHUNK: usize = 128 * 1024;

/// Writes all that comes, hashing what is written; flushed when it returns. `said` gets the bytes done so far.
pub(super) fn copy(
    reserved: &mut Reserved,
    from: &mut dyn Read,
    wanted: &Slotted,
    mut said: impl FnMut(u64, u64),
) -> Result<Sha384, FillError> {
    let of = || wanted.origin.to_string();
    let failed = |source| FillError::Copy { of: of(), source };
    let size = reserved.size;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let length = from.read(&mut buffer).map_err(failed)?;
        let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else { break };
        done += length as u64;
        // What gives more than it said may have no end.
        if done > size {
            break;
        }
        hasher.update(read);
        reserved.target.write_all(read).map_err(failed)?;
        said(done, size);
    }
    if done != size {
        return Err(FillError::Length { of: of(), expected: size, found: done });
    }
    let found = Sha384::of_digest(&hasher.finalize());
    if wanted.origin.raw_hash().is_some_and(|raw| *raw != found) {
        return Err(FillError::Content { of: of(), found });
    }
    reserved.target.sync_all().map_err(failed)?;
    Ok(found)
}

/// An image that has come, whole.
#[derive(Debug)]
pub(super) struct Come<'a> {
    pub(super) wanted: &'a Slotted,
    pub(super) known: &'a Known,
    pub(super) sha384: Sha384,
    pub(super) file: &'a Path,
}

/// Looks into it, gives it its name, and makes its record.
pub(super) fn admit(come: Come<'_>, staging: &Path) -> Result<Extension, FillError> {
    let Come { wanted, known, sha384, file: from } = come;
    let of = || wanted.origin.to_string();
    let refused = |source| FillError::Refused { of: of(), source };
    let found = look_into(from, &staging.join("look"), wanted.kind).map_err(refused)?;
    let Found { id, name, release } = found;
    let expected = name.file_name();
    match &known.file_name {
        Some(found) if *found != expected => {
            return Err(refused(LookError::FileName { found: found.clone(), expected }));
        }
        _ => {}
    }
    let file = place(wanted.kind, &expected);
    let target = staging.join(&file);
    if target.exists() {
        return Err(FillError::taken(wanted, file));
    }
    durable::shift(from, &target).map_err(|source| FillError::Copy { of: of(), source })?;
    let hash = wanted.origin.hash().or(known.hash.clone());
    let source = Source {
        kind: wanted.origin.source_kind(),
        hash: hash.unwrap_or_else(|| (&sha384).into()),
        location: Some(of()),
    };
    Ok(Extension {
        kind: wanted.kind,
        id,
        name,
        file,
        size: known.size,
        sha384,
        required: true,
        source: Some(source),
        release,
    })
}
