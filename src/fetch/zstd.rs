//! A compressed member as the raw image that it holds. Its hash, over the compressed bytes, is checked before
//! the end is told.

use std::fmt;
use std::io::{self, BufReader, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest, Sha384 as Hasher};
use thiserror::Error;
use trident_slots::Sha384;

#[derive(Debug, Error)]
enum MemberError {
    #[error("it broke off: {found} of {expected} compressed bytes came")]
    Short { found: u64, expected: u64 },
    #[error("its compressed bytes have not the SHA-384 of the metadata: it is {0}")]
    Hash(Sha384),
    #[error("it is not compressed with zstd, or broken")]
    Zstd(#[source] FrameDecoderError),
}

/// Counts and hashes what is read.
struct Hashed<R> {
    from: R,
    hasher: Hasher,
    count: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(buffer)?;
        self.hasher.update(buffer.get(..length).unwrap_or_default());
        self.count = self.count.saturating_add(length as u64);
        Ok(length)
    }
}

pub(crate) struct Image<R> {
    source: Hashed<BufReader<io::Take<R>>>,
    decoder: FrameDecoder,
    compressed: u64,
    sha384: Sha384,
}

impl<R: Read> Image<R> {
    /// `compressed`: how many bytes of `from` are the member's.
    pub(crate) fn new(from: R, compressed: u64, sha384: Sha384) -> Self {
        let from = BufReader::new(from.take(compressed));
        let source = Hashed { from, hasher: Hasher::new(), count: 0 };
        Self { source, decoder: FrameDecoder::new(), compressed, sha384 }
    }

    /// Block by block: what a small input would become is never there at once.
    fn decode(&mut self) -> Result<(), FrameDecoderError> {
        while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
            self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))?;
        }
        Ok(())
    }

    /// Begins the next frame; whether there is one.
    fn begin(&mut self) -> Result<bool, MemberError> {
        while self.source.count < self.compressed {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = self.source.by_ref().take(length.into());
                    drop(io::copy(&mut { skipped }, &mut io::sink()));
                }
                Err(problem) => return Err(self.because(problem)),
            }
        }
        Ok(false)
    }

    /// A stream that ends early breaks whatever was being read.
    fn because(&mut self, problem: FrameDecoderError) -> MemberError {
        let expected = self.compressed;
        let rest = io::copy(&mut self.source, &mut io::sink());
        match (self.source.count, rest) {
            (found, Ok(_)) if found < expected => MemberError::Short { found, expected },
            _ => MemberError::Zstd(problem),
        }
    }

    fn finish(&mut self) -> Result<(), MemberError> {
        let found = Sha384::of_digest(&self.source.hasher.finalize_reset());
        if found == self.sha384 { Ok(()) } else { Err(MemberError::Hash(found)) }
    }
}

impl<R: Read> Read for Image<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Err(problem) = self.decode() {
                return Err(io::Error::other(self.because(problem)));
            }
            match self.decoder.read(buffer)? {
                0 if buffer.is_empty() => return Ok(0),
                0 => {}
                length => return Ok(length),
            }
            if !self.begin().map_err(io::Error::other)? {
                self.finish().map_err(io::Error::other)?;
                return Ok(0);
            }
        }
    }
}

impl<R> fmt::Debug for Image<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("compressed", &self.compressed).finish_non_exhaustive()
    }
}
