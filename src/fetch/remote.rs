//! One file somewhere else, read whole or by parts, and a reader over its parts.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::error::FetchError;

/// A file that is read more than once.
pub(crate) trait Remote: Debug {
    /// `None`: it is not told.
    fn size(&self) -> Option<u64>;
    /// Whether [`Remote::part`] works.
    fn has_parts(&self) -> Result<bool, FetchError>;
    /// All of it.
    fn whole(&self) -> Result<Box<dyn Read>, FetchError>;
    /// `length` bytes from `from` on, or an error.
    fn part(&self, from: u64, length: u64) -> Result<Box<dyn Read>, FetchError>;
}

/// A file of this host.
#[derive(Debug)]
pub(crate) struct Local {
    path: PathBuf,
    size: u64,
}

impl Local {
    pub(crate) fn open(path: PathBuf) -> Result<Self, FetchError> {
        let found = std::fs::metadata(&path)?;
        match found.is_file() {
            true => Ok(Self { path, size: found.len() }),
            false => Err(io::Error::other("it is not a regular file").into()),
        }
    }
}

impl Remote for Local {
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }

    fn has_parts(&self) -> Result<bool, FetchError> {
        Ok(true)
    }

    fn whole(&self) -> Result<Box<dyn Read>, FetchError> {
        Ok(Box::new(File::open(&self.path)?))
    }

    fn part(&self, from: u64, length: u64) -> Result<Box<dyn Read>, FetchError> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(Box::new(file.take(length)))
    }
}

/// What a tar is walked over: from one header to the next, with as little of what is between as possible.
pub(crate) trait Forward: Read {
    /// Goes forward to this byte, which may be beyond the end.
    fn go_to(&mut self, position: u64) -> io::Result<()>;
}

/// Where nothing can be left out.
pub(crate) struct Whole {
    from: Box<dyn Read>,
    position: u64,
}

impl Whole {
    pub(crate) fn new(from: Box<dyn Read>) -> Self {
        Self { from, position: 0 }
    }
}

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(buffer)?;
        self.position = self.position.saturating_add(length as u64);
        Ok(length)
    }
}

impl Forward for Whole {
    fn go_to(&mut self, position: u64) -> io::Result<()> {
        let between = position.saturating_sub(self.position);
        io::copy(&mut self.by_ref().take(between), &mut io::sink()).map(drop)
    }
}

/// Enough for a header and the small members after it.
const BLOCK: u64 = 16 * 1024;

/// Where it can: what is read is asked for block by block.
pub(crate) struct Parts<'a> {
    remote: &'a dyn Remote,
    size: u64,
    position: u64,
    block: Vec<u8>,
    block_at: u64,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(remote: &'a dyn Remote, size: u64) -> Self {
        Self { remote, size, position: 0, block: Vec::new(), block_at: 0 }
    }

    /// What is at hand from here on.
    fn at_hand(&self) -> &[u8] {
        let inside = self.position.checked_sub(self.block_at);
        let inside = inside.and_then(|it| usize::try_from(it).ok());
        inside.and_then(|it| self.block.get(it..)).unwrap_or_default()
    }

    fn load(&mut self) -> io::Result<()> {
        let length = BLOCK.min(self.size.saturating_sub(self.position));
        self.block.clear();
        self.block_at = self.position;
        if length > 0 {
            let part = self.remote.part(self.position, length).map_err(io::Error::other)?;
            part.take(length).read_to_end(&mut self.block)?;
        }
        Ok(())
    }
}

impl Read for Parts<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at_hand().is_empty() {
            self.load()?;
        }
        let length = self.at_hand().read(buffer)?;
        self.position = self.position.saturating_add(length as u64);
        Ok(length)
    }
}

impl Forward for Parts<'_> {
    fn go_to(&mut self, position: u64) -> io::Result<()> {
        self.position = position;
        Ok(())
    }
}
