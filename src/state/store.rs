use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tracing::error;

use serde_json::Value;

use super::found::{Found, look, place};
use super::salvage::salvage;
use super::{State, file};
use crate::steps::{self, Step};

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

/// What a file is worth.
enum Worth {
    All(State),
    /// What could be read of it, and what could not.
    Part(State, String),
    /// Nothing, and why.
    Nothing(&'static str, String),
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
        match self.worth(&self.look()?.1) {
            Worth::All(state) => Ok(state),
            // Looked at again under the lock: another process may have set it aside already.
            Worth::Part(..) | Worth::Nothing(..) => self.update(|state| state.clone()),
        }
    }

    /// Reads, changes and writes the state under the lock; flushed when it returns. An unchanged state is
    /// not written.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing was changed.
    pub fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        let _lock = self.lock("lock", Wait::Yes)?;
        let (place, found) = self.look()?;
        let before = match self.worth(&found) {
            Worth::All(state) => state,
            Worth::Part(state, lost) => {
                self.keep_copy(&place, &found, &lost)?;
                self.write(&place, &state)?;
                state
            }
            Worth::Nothing(kind, why) => {
                self.set_aside(&place, &found, (kind, &why))?;
                State::default()
            }
        };
        let mut state = before.clone();
        let result = change(&mut state);
        if state != before {
            state.machine = Some(self.machine.clone());
            self.write(&place, &state)?;
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

    /// What there is, and where links have led to it.
    fn look(&self) -> Result<(PathBuf, Found), StoreError> {
        let failed = |source| StoreError::Read { path: self.path.clone(), source };
        let place = place(&self.path).map_err(failed)?;
        let found = look(&place).map_err(failed)?;
        Ok((place, found))
    }

    fn worth(&self, found: &Found) -> Worth {
        let unreadable = |why: &str| Worth::Nothing("unreadable", why.to_owned());
        let bytes = match found {
            Found::Nothing => return Worth::All(State::default()),
            Found::Other { .. } => return unreadable("it is no file"),
            Found::File(bytes) => bytes,
        };
        let fields = match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return unreadable("it holds no object"),
            Err(problem) => return unreadable(&problem.to_string()),
        };
        let machine = fields.get("machine").filter(|machine| !machine.is_null());
        if machine.is_some_and(|machine| *machine != *self.machine) {
            return Worth::Nothing("foreign", "it belongs to another machine".to_owned());
        }
        match serde_json::from_slice(bytes) {
            Ok(state) => Worth::All(state),
            Err(problem) => match salvage(fields) {
                Some((state, lost)) => {
                    Worth::Part(state, format!("{problem}; not taken over: [{}]", lost.join(", ")))
                }
                None => unreadable(&problem.to_string()),
            },
        }
    }

    /// Named after its content: a crash loop leaves one file, not thousands.
    fn aside(place: &Path, found: &Found, kind: &str) -> PathBuf {
        let suffix = match found {
            Found::Other { inode } => format!("{inode:08x}"),
            Found::File(bytes) => hex(&Sha256::digest(bytes)).chars().take(8).collect(),
            Found::Nothing => String::new(),
        };
        place.with_added_extension(format!("{kind}-{suffix}"))
    }

    fn set_aside(
        &self,
        place: &Path,
        found: &Found,
        (kind, why): (&str, &str),
    ) -> Result<(), StoreError> {
        let aside = Self::aside(place, found, kind);
        error!(kept = %aside.display(), "the state file cannot be used, going on without it: {}", why);
        file::rename_flushed(place, &aside).map_err(|source| self.not_written(source))
    }

    /// Before what could be read of it takes its place.
    fn keep_copy(&self, place: &Path, found: &Found, lost: &str) -> Result<(), StoreError> {
        let Found::File(bytes) = found else { return Ok(()) };
        let aside = Self::aside(place, found, "unreadable");
        error!(kept = %aside.display(), "the state file cannot be read as a whole, going on with what can be: {}", lost);
        file::replace(&aside, bytes).map_err(|source| self.not_written(source))
    }

    fn write(&self, place: &Path, state: &State) -> Result<(), StoreError> {
        let bytes =
            serde_json::to_vec_pretty(state).map_err(|source| StoreError::Render { source })?;
        file::replace(place, &bytes).map_err(|source| self.not_written(source))
    }

    fn not_written(&self, source: io::Error) -> StoreError {
        StoreError::Write { path: self.path.clone(), source }
    }

    fn lock(&self, name: &str, wait: Wait) -> Result<Option<File>, StoreError> {
        let path = self.path.with_added_extension(name);
        steps::done(Step::FileLock, &path, || locked(&path, &wait))
            .map_err(|source| StoreError::Lock { path, source })
    }
}

/// The file that stands for the lock, made where it is missing; `None`: another holds it.
fn locked(path: &Path, wait: &Wait) -> io::Result<Option<File>> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match wait {
        Wait::Yes => file.lock()?,
        Wait::No => match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(source)) => return Err(source),
        },
    }
    Ok(Some(file))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

enum Wait {
    Yes,
    No,
}
