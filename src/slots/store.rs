//! The store: one directory, on storage that an update of the OS does not replace.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha384 as Hasher};
use thiserror::Error;

use super::manifest::{Extension, MAX_BYTES, Manifest, ManifestError};
use super::tree::{Tree, bounded, regular_below};
use super::word::{Sha384, Slot};

pub const DEFAULT_STORE: &str = "/var/trident/extensions";
pub(super) const MANIFEST: &str = "manifest.json";

/// A store that is there.
#[derive(Debug, Clone)]
pub struct Store {
    /// As its own host will name it.
    path: PathBuf,
    /// As it is found from here.
    found: PathBuf,
}

#[derive(Debug, Error)]
pub enum StoreError {
    #[error("the store's path {} is not absolute and plain", .0.display())]
    OddPath(PathBuf),
    #[error("cannot open the store {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read the manifest of slot {slot}")]
    Read { slot: Slot, source: io::Error },
    #[error("the manifest of slot {0} is larger than {MAX_BYTES} bytes")]
    TooLarge(Slot),
    #[error("the manifest of slot {slot} is refused")]
    Refused { slot: Slot, source: ManifestError },
}

/// Why an image cannot be used.
#[derive(Debug, Error)]
pub enum ImageError {
    #[error("cannot open {file}")]
    Open { file: String, source: io::Error },
    #[error("cannot read {file}")]
    Read { file: String, source: io::Error },
    #[error("{file} has {found} bytes, and {expected} are recorded")]
    Size { file: String, found: u64, expected: u64 },
    #[error("{file} holds no file system or partition table that is known")]
    Shape { file: String },
    #[error("{file} has not the recorded SHA-384: it is {found}")]
    Content { file: String, found: Sha384 },
}

impl Store {
    /// `None`: there is none, or its place is not there.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn open(tree: &Tree, path: &Path) -> Result<Option<Self>, StoreError> {
        let plain = path.is_absolute() && !path.components().any(|it| it.as_os_str() == "..");
        if !plain {
            return Err(StoreError::OddPath(path.to_owned()));
        }
        match tree.directory(path) {
            Ok(found) => Ok(Some(Self { path: path.to_owned(), found })),
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Open { path: path.to_owned(), source }),
        }
    }

    /// A path in the store, as the host that it belongs to names it.
    pub fn named(&self, slot: Slot, file: &str) -> PathBuf {
        self.path.join(slot.name()).join(file)
    }

    /// The same, from here.
    pub fn found(&self, slot: Slot, file: &str) -> PathBuf {
        self.directory(slot).join(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn root(&self) -> &Path {
        &self.found
    }

    pub(super) fn directory(&self, slot: Slot) -> PathBuf {
        self.found.join(slot.name())
    }

    /// `None`: the slot has no set.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn manifest(&self, slot: Slot) -> Result<Option<Manifest>, StoreError> {
        let file = match regular_below(&self.found, &format!("{slot}/{MANIFEST}")) {
            Ok(file) => file,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Read { slot, source }),
        };
        let bytes = bounded(file, MAX_BYTES).map_err(|source| StoreError::Read { slot, source })?;
        let bytes = bytes.ok_or(StoreError::TooLarge(slot))?;
        let manifest = Manifest::parse(&bytes, slot);
        manifest.map(Some).map_err(|source| StoreError::Refused { slot, source })
    }

    /// Present, regular, of the recorded size, and begun like an image.
    ///
    /// # Errors
    /// [`ImageError`]
    pub fn look_at(&self, slot: Slot, extension: &Extension) -> Result<File, ImageError> {
        let file = || extension.file.clone();
        let opened = regular_below(&self.directory(slot), &extension.file);
        let opened = opened.map_err(|source| ImageError::Open { file: file(), source })?;
        let found =
            opened.metadata().map_err(|source| ImageError::Read { file: file(), source })?;
        if found.len() != extension.size {
            let (found, expected) = (found.len(), extension.size);
            return Err(ImageError::Size { file: file(), found, expected });
        }
        match has_shape(&opened) {
            Ok(true) => Ok(opened),
            Ok(false) => Err(ImageError::Shape { file: file() }),
            Err(source) => Err(ImageError::Read { file: file(), source }),
        }
    }

    /// And its content too.
    ///
    /// # Errors
    /// [`ImageError`]
    pub fn verify(&self, slot: Slot, extension: &Extension) -> Result<(), ImageError> {
        let mut opened = self.look_at(slot, extension)?;
        let file = || extension.file.clone();
        let found = opened.rewind().and_then(|()| sha384(opened));
        let found = found.map_err(|source| ImageError::Read { file: file(), source })?;
        match found == extension.sha384 {
            true => Ok(()),
            false => Err(ImageError::Content { file: file(), found }),
        }
    }
}

/// Where each kind of image says what it is: squashfs, erofs, ext4, a partition table.
const SHAPES: [(usize, &[u8]); 4] =
    [(0, b"hsqs"), (1024, b"\xe2\xe1\xf5\xe0"), (1080, b"\x53\xef"), (512, b"EFI PART")];

/// One image that is none keeps systemd-sysext from merging any, so the beginning is looked at.
fn has_shape(file: &File) -> io::Result<bool> {
    let mut head = Vec::new();
    file.take(2048).read_to_end(&mut head)?;
    let has = |(at, mark): &(usize, &[u8])| head.get(*at..).is_some_and(|it| it.starts_with(mark));
    Ok(SHAPES.iter().any(has))
}

/// How much is read at once.
const CHUNK: usize = 128 * 1024;

/// Of all that is left to read.
pub(super) fn sha384(mut file: impl Read) -> io::Result<Sha384> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = file.read(&mut buffer)?;
        match buffer.get(..length) {
            Some([]) | None => return Ok(Sha384::of_digest(&hasher.finalize())),
            Some(read) => hasher.update(read),
        }
    }
}
