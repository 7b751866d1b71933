//! A stream of the network as a plain reader.

use std::fmt;
use std::io::{self, Read};
use std::pin::Pin;
use std::rc::Rc;

use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use tokio::runtime::Runtime;

type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>>>>;

/// Everything that comes, to its end.
pub(crate) struct Body {
    runtime: Rc<Runtime>,
    chunks: Chunks,
    rest: Bytes,
}

impl Body {
    pub(crate) fn new(
        runtime: &Rc<Runtime>,
        chunks: impl Stream<Item = io::Result<Bytes>> + 'static,
    ) -> Self {
        Self { runtime: Rc::clone(runtime), chunks: Box::pin(chunks), rest: Bytes::new() }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.runtime.block_on(self.chunks.next()) {
                Some(chunk) => self.rest = chunk?,
                None => return Ok(0),
            }
        }
        let length = self.rest.len().min(buffer.len());
        if let Some(part) = buffer.get_mut(..length) {
            self.rest.copy_to_slice(part);
        }
        Ok(length)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}
