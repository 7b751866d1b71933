//! Where a set may be staged: which slot, and on which storage.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::super::booted::{Backing, BootedError, backing, backing_below, partition_names};
use super::super::tree::Tree;
use super::super::word::Slot;

/// Where systemd looks for extensions: what is there is merged without being asked.
const SEARCHED: [&str; 12] = [
    "/run/extensions",
    "/etc/extensions",
    "/var/lib/extensions",
    "/usr/lib/extensions",
    "/usr/local/lib/extensions",
    "/.extra/sysext",
    "/run/confexts",
    "/var/lib/confexts",
    "/usr/lib/confexts",
    "/usr/local/lib/confexts",
    "/.extra/confext",
    "/.extra/global_sysext",
];

#[derive(Debug, Error)]
pub enum PlaceError {
    #[error("this host has no A/B volumes that can be told")]
    NoSlots(#[source] BootedError),
    #[error("this host has no A/B volumes: {absent} is absent, the other one of {present}")]
    NoOther { present: String, absent: String },
    #[error("slot {0} is the one that runs: its set cannot be changed under it")]
    Booted(Slot),
    #[error("the store {} lies where systemd looks for extensions ({searched})", store.display())]
    Searched { store: PathBuf, searched: &'static str },
    #[error("the store {} lies on the volume {volume}, which an update of slot {slot} replaces", store.display())]
    Replaced { store: PathBuf, volume: String, slot: Slot },
}

/// The slot to stage for.
///
/// # Errors
/// [`PlaceError`]
pub(super) fn target(
    tree: &Tree,
    booted: Option<Slot>,
    asked: Option<Slot>,
) -> Result<Slot, PlaceError> {
    let booted = match booted {
        Some(slot) => slot,
        None => {
            let found = backing(tree, Path::new("/")).map_err(PlaceError::NoSlots)?;
            has_other(tree, &found)?;
            found.slot().map_err(PlaceError::NoSlots)?
        }
    };
    match asked.unwrap_or(booted.other()) {
        slot if slot == booted => Err(PlaceError::Booted(slot)),
        slot => Ok(slot),
    }
}

/// Half a pair is none.
fn has_other(tree: &Tree, found: &Backing) -> Result<(), PlaceError> {
    let all = partition_names(tree);
    for (present, slot) in found.slotted() {
        let stem = present.strip_suffix(slot.name()).unwrap_or(present);
        let absent = format!("{stem}{}", slot.other());
        if !all.contains(&absent) {
            return Err(PlaceError::NoOther { present: present.to_owned(), absent });
        }
    }
    Ok(())
}

/// # Errors
/// [`PlaceError`]
pub(super) fn may_hold(tree: &Tree, store: &Path) -> Result<(), PlaceError> {
    if let Some(searched) = SEARCHED.into_iter().find(|path| store.starts_with(path)) {
        return Err(PlaceError::Searched { store: store.to_owned(), searched });
    }
    // Storage whose partition cannot be told is not one that is known to be replaced.
    let Ok(found) = backing_below(tree, store) else { return Ok(()) };
    match found.slotted().next() {
        Some((volume, slot)) => {
            Err(PlaceError::Replaced { store: store.to_owned(), volume: volume.to_owned(), slot })
        }
        None => Ok(()),
    }
}
