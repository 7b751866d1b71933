//! A host tree: `/`, `/sysroot`, or a directory in tests. Links in it lead nowhere else.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;
use thiserror::Error;

#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
}

/// A file of the tree could not be read.
#[derive(Debug, Error)]
pub enum TreeError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot go to {}", path.display())]
    Place { path: PathBuf, source: io::Error },
    #[error("{} is larger than {most} bytes", path.display())]
    TooLarge { path: PathBuf, most: u64 },
}

impl Tree {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where an absolute path of the tree is. Links in it are followed as they stand: for what the kernel
    /// shows.
    pub fn at(&self, inside: impl AsRef<Path>) -> PathBuf {
        self.root.join(inside.as_ref().strip_prefix("/").unwrap_or(inside.as_ref()))
    }

    /// The tree whose root is this directory.
    #[must_use]
    pub fn below(&self, inside: &Path) -> Self {
        Self { root: self.at(inside) }
    }

    /// The directory as the tree's own root would see it: links are followed, and none leads out.
    ///
    /// # Errors
    /// Not found, or no directory.
    pub fn directory(&self, inside: &Path) -> io::Result<PathBuf> {
        self.resolved(inside, DIRECTORY)
    }

    /// A regular file, likewise.
    ///
    /// # Errors
    /// Not found, or something else than a file: opening a device or a pipe does something.
    pub fn file(&self, inside: &Path) -> io::Result<PathBuf> {
        let found = self.resolved(inside, OFlags::PATH | OFlags::CLOEXEC)?;
        match found.metadata()?.is_file() {
            true => Ok(found),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }

    /// Where a path is, or is to be made: what of it is there is resolved likewise.
    ///
    /// # Errors
    /// [`TreeError::Place`]
    pub fn place(&self, inside: &Path) -> Result<PathBuf, TreeError> {
        let failed = |source| TreeError::Place { path: inside.to_owned(), source };
        for above in inside.ancestors() {
            let rest = inside.strip_prefix(above).unwrap_or(inside);
            match self.directory(above) {
                Ok(found) if rest.as_os_str().is_empty() => return Ok(found),
                Ok(found) => return Ok(found.join(rest)),
                Err(absent) if is_absent(&absent) => {}
                Err(problem) => return Err(failed(problem)),
            }
        }
        Err(failed(io::ErrorKind::NotFound.into()))
    }

    fn resolved(&self, inside: &Path, flags: OFlags) -> io::Result<PathBuf> {
        let root = open(&self.root, DIRECTORY, Mode::empty())?;
        let inside = inside.strip_prefix("/").unwrap_or(inside);
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        // Out of / leads nothing; and a sandbox that forbids set-uid files knows no openat2.
        let found = match self.root.as_os_str() == "/" {
            true => openat(root, inside, flags, Mode::empty())?,
            false => openat2(root, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT)?,
        };
        std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))
    }

    /// A small file, whole.
    ///
    /// # Errors
    /// [`TreeError`]
    pub fn read(&self, inside: &Path, most: u64) -> Result<Vec<u8>, TreeError> {
        let failed = |source| TreeError::Read { path: inside.to_owned(), source };
        let found = self.resolved(inside, OFlags::PATH | OFlags::CLOEXEC);
        let file = found.and_then(File::open).map_err(failed)?;
        bounded(file, most)
            .map_err(failed)?
            .ok_or_else(|| TreeError::TooLarge { path: inside.to_owned(), most })
    }
}

fn is_absent(problem: &io::Error) -> bool {
    matches!(problem.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// `None`: there is more.
pub(super) fn bounded(file: File, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// A regular file below a directory; a link anywhere on the way is an error, and so is anything else that
/// can be opened.
pub(super) fn regular_below(directory: &Path, inside: &str) -> io::Result<File> {
    let found = open(directory, DIRECTORY, Mode::empty())?;
    // Looked at before it is opened: opening a device or a pipe does something.
    let looked = below(&found, inside, OFlags::PATH)?;
    if !File::from(looked).metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::from(below(&found, inside, OFlags::RDONLY | OFlags::NONBLOCK)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Step by step, none of them a link or upwards.
fn below(directory: &OwnedFd, inside: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let mut here = directory.try_clone()?;
    let mut parts = Path::new(inside).components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        let flags = if parts.peek().is_some() { DIRECTORY } else { flags | OFlags::CLOEXEC };
        let next = openat(&here, name, flags | OFlags::NOFOLLOW, Mode::empty());
        here = next.map_err(|problem| match problem {
            Errno::NOTDIR => io::Error::other("its directory is a link, or none"),
            other => other.into(),
        })?;
    }
    Ok(here)
}
