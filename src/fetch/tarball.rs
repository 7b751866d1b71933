//! A walk over the members of a tar that a stranger made: nothing is unpacked, nothing is kept but a name.

use std::io::{self, Read};

use tar::{EntryType, Header, PaxExtensions};

use super::error::TarError;
use super::remote::Forward;

/// A COSI file has a handful; a walk through more is somebody's joke.
const MAX_MEMBERS: usize = 4096;
/// Of what comes before a member and names it.
const MAX_EXTRA: u64 = 64 * 1024;
const BLOCK: u64 = 512;

/// A member as its header has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// Where its bytes begin.
    pub(crate) offset: u64,
    pub(crate) regular: bool,
}

/// What an extended header says of the member after it.
#[derive(Debug, Default)]
struct Extra {
    path: Option<String>,
    size: Option<u64>,
}

pub(crate) struct Walk<I> {
    input: I,
    /// Where the next header is.
    next: u64,
    seen: usize,
}

impl<I: Forward> Walk<I> {
    pub(crate) fn new(input: I) -> Self {
        Self { input, next: 0, seen: 0 }
    }

    /// `None`: there are no more.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, TarError> {
        let mut extra = Extra::default();
        loop {
            let at = self.next;
            let Some(header) = self.header()? else { return Ok(None) };
            let kind = header.entry_type();
            if kind == EntryType::GNUSparse {
                return Err(TarError::Sparse);
            }
            let own = header.entry_size().map_err(|_not_a_number| TarError::Broken(at))?;
            let offset = at.saturating_add(BLOCK);
            match kind {
                EntryType::XHeader => {
                    extra.read_pax(&self.bytes(own)?, at)?;
                    self.pass(offset, own, at)?;
                }
                EntryType::GNULongName => {
                    extra.path = Some(text(self.bytes(own)?.as_slice()));
                    self.pass(offset, own, at)?;
                }
                EntryType::XGlobalHeader | EntryType::GNULongLink => self.pass(offset, own, at)?,
                _ => {
                    let size = extra.size.unwrap_or(own);
                    self.pass(offset, size, at)?;
                    let path = extra.path.take().unwrap_or_else(|| text(&header.path_bytes()));
                    let path = path.strip_prefix("./").map(str::to_owned).unwrap_or(path);
                    return Ok(Some(Member { path, size, offset, regular: kind.is_file() }));
                }
            }
        }
    }

    /// The bytes of the member that was found last.
    pub(crate) fn body(&mut self, member: &Member) -> io::Result<io::Take<&mut I>> {
        self.input.go_to(member.offset)?;
        Ok(self.input.by_ref().take(member.size))
    }

    fn header(&mut self) -> Result<Option<Header>, TarError> {
        self.seen += 1;
        if self.seen > MAX_MEMBERS {
            return Err(TarError::TooMany(MAX_MEMBERS));
        }
        self.input.go_to(self.next)?;
        let mut header = Header::new_old();
        let mut read = Vec::new();
        self.input.by_ref().take(BLOCK).read_to_end(&mut read)?;
        if read.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if read.len() as u64 != BLOCK {
            return Err(TarError::Short);
        }
        header.as_mut_bytes().copy_from_slice(&read);
        let said = header.cksum().map_err(|_not_a_number| TarError::Broken(self.next))?;
        match said == sum(&read) {
            true => Ok(Some(header)),
            false => Err(TarError::Broken(self.next)),
        }
    }

    /// Of an extended header, which stands right here.
    fn bytes(&mut self, size: u64) -> Result<Vec<u8>, TarError> {
        if size > MAX_EXTRA {
            return Err(TarError::LongName(MAX_EXTRA));
        }
        let mut bytes = Vec::new();
        self.input.by_ref().take(size).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == size { Ok(bytes) } else { Err(TarError::Short) }
    }

    fn pass(&mut self, offset: u64, size: u64, at: u64) -> Result<(), TarError> {
        let padded = size.checked_next_multiple_of(BLOCK);
        let next = padded.and_then(|it| offset.checked_add(it));
        self.next = next.ok_or(TarError::Broken(at))?;
        Ok(())
    }
}

impl Extra {
    fn read_pax(&mut self, bytes: &[u8], at: u64) -> Result<(), TarError> {
        let broken = || TarError::Broken(at);
        for record in PaxExtensions::new(bytes) {
            let record = record.map_err(|_malformed| broken())?;
            match record.key_bytes() {
                b"path" => self.path = Some(text(record.value_bytes())),
                b"size" => {
                    let size = record.value().ok().and_then(|it| it.parse().ok());
                    self.size = Some(size.ok_or_else(broken)?);
                }
                key if key.starts_with(b"GNU.sparse.") => return Err(TarError::Sparse),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A name for comparing: one that is no text is no name that is looked for.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// Of all bytes of a header, its own checksum taken as spaces.
fn sum(header: &[u8]) -> u32 {
    let own = 148..156;
    let byte = |(at, byte): (usize, &u8)| if own.contains(&at) { 32 } else { u32::from(*byte) };
    header.iter().enumerate().map(byte).sum()
}
