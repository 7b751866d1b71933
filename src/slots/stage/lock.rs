//! One staging at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use thiserror::Error;

const LOCK: &str = ".lock";
/// Of a process id.
const MAX_HOLDER: u64 = 32;

/// Held until it is dropped.
#[derive(Debug)]
pub(in super::super) struct Lock {
    _file: File,
}

#[derive(Debug, Error)]
pub enum LockError {
    #[error("process {0} works on the store; --wait waits for it")]
    Held(String),
    #[error("cannot lock the store")]
    Io(#[from] io::Error),
}

impl Lock {
    pub(in super::super) fn take(store: &Path, wait: bool) -> Result<Self, LockError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(store.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if wait => file.lock()?,
            Err(TryLockError::WouldBlock) => return Err(LockError::Held(holder(&file))),
            Err(TryLockError::Error(problem)) => return Err(problem.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", std::process::id())?;
        Ok(Self { _file: file })
    }
}

fn holder(file: &File) -> String {
    let mut text = String::new();
    let read = file.take(MAX_HOLDER).read_to_string(&mut text);
    let good = read.is_ok() && !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if good { text } else { "unknown".to_owned() }
}
