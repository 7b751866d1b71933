use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tracing::error;

use super::{State, file};

/// A larger file is not ours.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The state file of one machine.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    machine: String,
}

/// The memory cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("cannot read the state file {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the state file {}: nothing is started that depends on it", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot lock {}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("cannot render the state")]
    Render { source: serde_json::Error },
}

/// Held by a running operation, so that there is one at a time.
#[derive(Debug)]
pub struct OperationLock {
    _file: File,
}

/// Why a file is not obeyed.
enum Unusable {
    Unreadable(String),
    Foreign,
}

impl Store {
    /// `machine_id`: as `/etc/machine-id` has it; the file of another machine is set aside.
    pub fn new(path: &Path, machine_id: &str) -> Self {
        Self { path: path.to_owned(), machine: hex(&Sha256::digest(machine_id.as_bytes())) }
    }

    /// The state as it was last written. A file that cannot be used is set aside, and counts as none.
    ///
    /// # Errors
    /// [`StoreError`]; a missing file is the empty state.
    pub fn read(&self) -> Result<State, StoreError> {
        match self.parse(&self.bytes()?) {
            Ok(state) => Ok(state),
            // Looked at again under the lock: another process may have set it aside already.
            Err(_) => self.update(|state| state.clone()),
        }
    }

    /// Reads, changes and writes the state under the lock; flushed when it returns. An unchanged state is
    /// not written.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing was changed.
    pub fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        let _lock = self.lock("lock", Wait::Yes)?;
        let bytes = self.bytes()?;
        let before = match self.parse(&bytes) {
            Ok(state) => state,
            Err(why) => {
                self.set_aside(&bytes, &why)?;
                State::default()
            }
        };
        let mut state = before.clone();
        let result = change(&mut state);
        if state != before {
            state.machine = Some(self.machine.clone());
            self.write(&state)?;
        }
        Ok(result)
    }

    /// `None`: another operation holds it.
    pub fn lock_operation(&self) -> Result<Option<OperationLock>, StoreError> {
        Ok(self.lock("operation", Wait::No)?.map(|file| OperationLock { _file: file }))
    }

    /// `None`: another process delivers events.
    pub fn lock_report(&self) -> Result<Option<OperationLock>, StoreError> {
        Ok(self.lock("report", Wait::No)?.map(|file| OperationLock { _file: file }))
    }

    fn bytes(&self) -> Result<Vec<u8>, StoreError> {
        let failed = |source| StoreError::Read { path: self.path.clone(), source };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(source)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    fn parse(&self, bytes: &[u8]) -> Result<State, Unusable> {
        if bytes.is_empty() && !self.path.exists() {
            return Ok(State::default());
        }
        let state: State = serde_json::from_slice(bytes)
            .map_err(|problem| Unusable::Unreadable(problem.to_string()))?;
        match &state.machine {
            Some(machine) if *machine != self.machine => Err(Unusable::Foreign),
            _ => Ok(state),
        }
    }

    /// Named after its content: a crash loop leaves one file, not thousands.
    fn set_aside(&self, bytes: &[u8], why: &Unusable) -> Result<(), StoreError> {
        let suffix: String = hex(&Sha256::digest(bytes)).chars().take(8).collect();
        let (kind, reason) = match why {
            Unusable::Unreadable(problem) => ("unreadable", problem.as_str()),
            Unusable::Foreign => ("foreign", "it belongs to another machine"),
        };
        let aside = self.path.with_added_extension(format!("{kind}-{suffix}"));
        error!(kept = %aside.display(), "the state file cannot be used, going on without it: {}", reason);
        file::rename_flushed(&self.path, &aside)
            .map_err(|source| StoreError::Write { path: self.path.clone(), source })
    }

    fn write(&self, state: &State) -> Result<(), StoreError> {
        let bytes =
            serde_json::to_vec_pretty(state).map_err(|source| StoreError::Render { source })?;
        file::replace(&self.path, &bytes)
            .map_err(|source| StoreError::Write { path: self.path.clone(), source })
    }

    fn lock(&self, name: &str, wait: Wait) -> Result<Option<File>, StoreError> {
        let path = self.path.with_added_extension(name);
        let failed = |source| StoreError::Lock { path: path.clone(), source };
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        match wait {
            Wait::Yes => file.lock().map_err(failed)?,
            Wait::No => match file.try_lock() {
                Ok(()) => {}
                Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
                Err(std::fs::TryLockError::Error(source)) => return Err(failed(source)),
            },
        }
        Ok(Some(file))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

enum Wait {
    Yes,
    No,
}
