//! `slot-loader.pending`: which slot has a set that no boot has proved yet.

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::durable;
use super::manifest::SCHEMA_VERSION;
use super::report::{Outcome, Report};
use super::stage::{Lock, LockError};
use super::store::{Store, StoreError};
use super::tree::{Tree, bounded, regular_below};
use super::word::Slot;

const PENDING: &str = "slot-loader.pending";
const MAX_BYTES: u64 = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    pub schema_version: String,
    pub slot: Slot,
}

/// Whether a set is unproved. A marker that cannot be read marks all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    Proved,
    Pending(Slot),
    Unreadable,
}

impl Store {
    /// # Errors
    /// Of the file system.
    pub fn proof(&self) -> io::Result<Proof> {
        let file = match regular_below(self.root(), PENDING) {
            Ok(file) => file,
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(Proof::Proved),
            Err(problem) => return Err(problem),
        };
        let bytes = bounded(file, MAX_BYTES)?.unwrap_or_default();
        Ok(match serde_json::from_slice::<Pending>(&bytes) {
            Ok(pending) => Proof::Pending(pending.slot),
            Err(_) => Proof::Unreadable,
        })
    }

    pub(super) fn mark_pending(&self, slot: Slot) -> io::Result<()> {
        let pending = Pending { schema_version: SCHEMA_VERSION.to_owned(), slot };
        durable::replace(&self.root().join(PENDING), &serde_json::to_vec_pretty(&pending)?)
    }

    /// After a boot that was committed. Whether there was a mark.
    ///
    /// # Errors
    /// Of the file system.
    pub fn confirm(&self) -> io::Result<bool> {
        durable::remove(&self.root().join(PENDING))
    }
}

/// Why the mark of a boot that was committed still stands.
#[derive(Debug, Error)]
pub enum ConfirmError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot work in the store")]
    Io(#[from] io::Error),
}

/// After the boot that `report` is of was committed: its set is proved. Whether a mark was taken away. One of
/// the other slot stays, and so does one whose set did not load.
///
/// # Errors
/// [`ConfirmError`]; [`LockError::Held`] while somebody makes another set.
pub fn confirm_boot(tree: &Tree, report: &Report) -> Result<bool, ConfirmError> {
    let (Some(slot), false) = (report.slot, report.outcome == Outcome::Failed) else {
        return Ok(false);
    };
    let Some(store) = Store::open(tree, &report.store)? else { return Ok(false) };
    if store.proof()? == Proof::Proved {
        return Ok(false);
    }
    let _lock = Lock::take(store.root(), false)?;
    match store.proof()? {
        Proof::Pending(other) if other != slot => Ok(false),
        _ => Ok(store.confirm()?),
    }
}
