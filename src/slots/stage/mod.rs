//! Staging: the whole set of the slot that will boot next, built beside it and exchanged in one step.
//!
//! `lock ─▶ clear leftovers ─▶ mark pending ─▶ reserve room ─▶ fill ─▶ manifest ─▶ flush ─▶ exchange ─▶ flush`
//!
//! A crash at any point leaves the old set or the new one in the slot, and the other slot is never touched.

mod build;
mod bundle;
mod fill;
mod image;
mod lock;
mod place;
mod source;
mod wanted;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::durable;
use super::manifest::ManifestError;
use super::pending::Proof;
use super::report::Report;
use super::store::{DEFAULT_STORE, Store, StoreError};
use super::tree::Tree;
use super::word::Slot;
use build::Work;
pub use bundle::{Bundle, BundleError, MAX_METADATA, Member};
pub use fill::FillError;
pub(super) use lock::Lock;
pub(super) use lock::LockError;
use place::PlaceError;
pub use source::{Files, Known, Problem, Sources, Take};
use wanted::WantedError;
pub use wanted::{Address, Origin, Place, Slotted, Wanted};

/// What the program was called with.
#[derive(Debug, Clone)]
pub struct Staging {
    pub tree: Tree,
    pub wanted: Wanted,
    /// What a COSI file brings along.
    pub bundle: Option<Bundle>,
    /// Before what the wanted set says.
    pub store: Option<PathBuf>,
    /// Instead of what is found.
    pub booted: Option<Slot>,
    pub target: Option<Slot>,
    /// The version of the OS that the set is for.
    pub os_version: Option<String>,
    /// The first time: the running slot has no loader yet.
    pub first: bool,
    pub wait: bool,
}

/// What happens, for whoever watches.
#[derive(Debug)]
pub enum Event<'a> {
    Reused {
        of: &'a Origin,
        from: Slot,
    },
    Copied {
        of: &'a Origin,
        done: u64,
        size: u64,
    },
    /// Merged nowhere, but allowed.
    OtherOs {
        name: &'a str,
        id: &'a str,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub enum Staged {
    /// Nothing is slotted, and there is no store.
    Unused,
    Set {
        slot: Slot,
        extensions: usize,
        reused: usize,
    },
}

#[derive(Debug, Error)]
pub enum StageError {
    #[error("the wanted set is refused")]
    Wanted(#[from] WantedError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(
        "the slot that runs has no slot loader, and a rollback to it would have no extensions: --first says that this is meant"
    )]
    NoLoader,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot work in the store")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Fill(#[from] FillError),
    #[error("the set is refused")]
    Set(#[from] ManifestError),
    #[error("cannot render the manifest")]
    Render(#[from] serde_json::Error),
}

const LEFTOVER: &str = ".staging-";

/// # Errors
/// [`StageError`]; then both slots are as they were.
pub fn stage(
    staging: &Staging,
    sources: &mut dyn Sources,
    said: &mut dyn FnMut(&Event<'_>),
) -> Result<Staged, StageError> {
    let slotted = staging.wanted.slotted(staging.bundle.as_ref())?;
    let path = staging.store.clone().or_else(|| staging.wanted.os.extension_store.clone());
    let path = path.unwrap_or_else(|| DEFAULT_STORE.into());
    if slotted.is_empty() && is_unused(&staging.tree, &path)? {
        return Ok(Staged::Unused);
    }
    place::may_hold(&staging.tree, &path)?;
    let slot = place::target(&staging.tree, staging.booted, staging.target)?;
    if !staging.first && !slotted.is_empty() && Report::read(&staging.tree).is_none() {
        return Err(StageError::NoLoader);
    }
    let store = open(&staging.tree, &path)?;
    let _lock = Lock::take(store.root(), staging.wait)?;
    clear(&store)?;
    let proof = store.proof()?;
    store.mark_pending(slot)?;
    let work = Work::new(staging, &store, slot);
    let built = work.build(&slotted, sources, said);
    if built.is_err() {
        withdraw(&store, &proof);
    }
    let staged = built?;
    work.publish()?;
    Ok(staged)
}

/// What was not built must not look like a set that waits for its boot. What cannot be taken back now, the
/// next staging takes.
fn withdraw(store: &Store, before: &Proof) {
    if let (Ok(()), Proof::Proved) = (clear(store), before) {
        drop(store.confirm());
    }
}

fn is_unused(tree: &Tree, path: &Path) -> Result<bool, StageError> {
    let Some(store) = Store::open(tree, path)? else { return Ok(true) };
    Ok(!Slot::BOTH.into_iter().any(|slot| store.directory(slot).exists()))
}

/// Makes the store where it is not, and what lies above it.
fn open(tree: &Tree, path: &Path) -> Result<Store, StageError> {
    if let Some(store) = Store::open(tree, path)? {
        return Ok(store);
    }
    for above in path.ancestors().skip(1) {
        if let Ok(found) = tree.directory(above) {
            make_below(&found, path.strip_prefix(above).unwrap_or(path))?;
            break;
        }
    }
    let astray = || io::Error::other("the way to it has a link that leads nowhere").into();
    Store::open(tree, path)?.ok_or_else(astray)
}

fn make_below(directory: &Path, inside: &Path) -> io::Result<()> {
    let mut here = directory.to_owned();
    for part in inside.components() {
        let above = here.clone();
        here.push(part);
        match fs::create_dir(&here) {
            // By another staging, at the same time.
            Err(there) if there.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        durable::flush(&above)?;
    }
    Ok(())
}

/// Removes what interrupted stagings left.
pub(super) fn clear(store: &Store) -> io::Result<()> {
    for entry in fs::read_dir(store.root())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(LEFTOVER) {
            image::unmount_below(&entry.path())?;
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
