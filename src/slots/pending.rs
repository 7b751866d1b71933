//! `slot-loader.pending`: which slot has a set that no boot has proved yet.

use std::io;

use serde::{Deserialize, Serialize};

use super::durable;
use super::manifest::SCHEMA_VERSION;
use super::store::Store;
use super::tree::{bounded, regular_below};
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
