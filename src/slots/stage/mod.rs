//! Staging: the whole set of the slot that will boot next, built beside it and exchanged in one step.
//!
//! `lock ─▶ clear leftovers ─▶ mark pending ─▶ reserve room ─▶ fill ─▶ manifest ─▶ flush ─▶ exchange ─▶ flush`
//!
//! A crash at any point leaves the old set or the new one in the slot, and the other slot is never touched.

mod fill;
mod image;
mod lock;
mod place;
mod wanted;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::durable;
use super::manifest::{Extension, Manifest, ManifestError, Mode, SCHEMA_VERSION};
use super::pending::Proof;
use super::report::Report;
use super::store::{DEFAULT_STORE, MANIFEST, Store, StoreError};
use super::tree::Tree;
use super::word::{Kind, Slot};
use fill::FillError;
pub(super) use lock::Lock;
pub(super) use lock::LockError;
use place::PlaceError;
pub use wanted::Wanted;
use wanted::{Slotted, WantedError};

/// What the program was called with.
#[derive(Debug, Clone)]
pub struct Staging {
    pub tree: Tree,
    pub wanted: Wanted,
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
        url: &'a str,
        from: Slot,
    },
    Copied {
        url: &'a str,
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
pub fn stage(staging: &Staging, said: &mut dyn FnMut(&Event<'_>)) -> Result<Staged, StageError> {
    let slotted = staging.wanted.slotted()?;
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
    let work = Work { staging, store: &store, slot, directory: directory(&store, slot) };
    let built = work.build(&slotted, said);
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
    Store::open(tree, path)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
}

fn make_below(directory: &Path, inside: &Path) -> io::Result<()> {
    let mut here = directory.to_owned();
    for part in inside.components() {
        let above = here.clone();
        here.push(part);
        fs::create_dir(&here)?;
        durable::flush(&above)?;
    }
    Ok(())
}

/// Of one process: another's leftovers are cleared before.
fn directory(store: &Store, slot: Slot) -> PathBuf {
    store.root().join(format!("{LEFTOVER}{slot}-{}", std::process::id()))
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

struct Work<'a> {
    staging: &'a Staging,
    store: &'a Store,
    slot: Slot,
    directory: PathBuf,
}

/// Where a wanted image is.
enum Found {
    Here((Slot, Extension)),
    There(fill::Opened),
}

/// An image on its way.
enum Way {
    Reused(Extension),
    Copied { reserved: fill::Reserved, file: PathBuf },
}

impl Work<'_> {
    fn build(
        &self,
        slotted: &[Slotted],
        said: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Staged, StageError> {
        fs::create_dir(&self.directory)?;
        for kind in Kind::BOTH {
            fs::create_dir(self.directory.join(kind.directory()))?;
        }
        let ways = self.ways(slotted, said)?;
        let reused = ways.iter().filter(|way| matches!(way, Way::Reused(_))).count();
        let mut extensions = Vec::new();
        for (wanted, way) in slotted.iter().zip(ways) {
            extensions.push(match way {
                Way::Reused(extension) => extension,
                Way::Copied { reserved, file } => {
                    let url = wanted.url.shown();
                    let size = fill::copy(reserved, wanted, |done, size| {
                        said(&Event::Copied { url, done, size });
                    })?;
                    fill::admit(wanted, size, &file, &self.directory)?
                }
            });
        }
        self.warn(&extensions, said);
        let staged = Staged::Set { slot: self.slot, extensions: extensions.len(), reused };
        self.write(extensions)?;
        Ok(staged)
    }

    /// Links what is there, and takes the room for all the rest before any of it is copied.
    fn ways(
        &self,
        slotted: &[Slotted],
        said: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Vec<Way>, StageError> {
        // A set that cannot be read has nothing to reuse, and is about to be replaced or is the running one.
        let sets = Slot::BOTH.into_iter().filter_map(|slot| self.store.manifest(slot).ok()?);
        let sets: Vec<_> = sets.collect();
        let mut found = Vec::new();
        for wanted in slotted {
            found.push(match fill::reusable(self.store, &sets, wanted) {
                Some(reused) => Found::Here(reused),
                None => Found::There(fill::open(&self.staging.tree, wanted)?),
            });
        }
        let size = |found: &Found| match found {
            Found::Here(_) => None,
            Found::There(opened) => Some(opened.size),
        };
        fill::has_room(&self.directory, found.iter().filter_map(size))?;
        let numbered = found.into_iter().zip(slotted).enumerate();
        numbered.map(|(number, (found, wanted))| self.way(number, found, wanted, said)).collect()
    }

    fn way(
        &self,
        number: usize,
        found: Found,
        wanted: &Slotted,
        said: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Way, StageError> {
        match found {
            Found::Here((from, mut extension)) => {
                let old = self.store.found(from, &extension.file);
                extension.file = fill::place(wanted.kind, &extension.name.file_name());
                fill::reuse(&old, &self.directory.join(&extension.file))?;
                said(&Event::Reused { url: wanted.url.shown(), from });
                Ok(Way::Reused(extension))
            }
            Found::There(opened) => {
                let file = self.directory.join(format!("new-{number}"));
                Ok(Way::Copied { reserved: fill::reserve(opened, &file)?, file })
            }
        }
    }

    fn warn(&self, extensions: &[Extension], said: &mut dyn FnMut(&Event<'_>)) {
        let os = os_id(&self.staging.tree);
        for extension in extensions.iter().filter(|it| it.kind == Kind::Sysext) {
            let id = extension.release.get("ID").unwrap_or_default();
            if id != "_any" && Some(id) != os.as_deref() {
                said(&Event::OtherOs { name: extension.name.as_str(), id });
            }
        }
    }

    fn write(&self, extensions: Vec<Extension>) -> Result<(), StageError> {
        let manifest = Manifest {
            schema_version: SCHEMA_VERSION.to_owned(),
            slot: self.slot,
            mode: self.staging.wanted.os.extension_mode.unwrap_or(Mode::Managed),
            os_version: self.staging.os_version.clone(),
            extensions,
        };
        manifest.check()?;
        let bytes = serde_json::to_vec_pretty(&manifest)?;
        // As the loader will read it: what it would refuse is not published.
        Manifest::parse(&bytes, self.slot)?;
        durable::write(&self.directory.join(MANIFEST), &bytes)?;
        for kind in Kind::BOTH {
            durable::flush(&self.directory.join(kind.directory()))?;
        }
        Ok(durable::flush(&self.directory)?)
    }

    /// The slot has the old set or the new one, never a mixture.
    fn publish(&self) -> Result<(), StageError> {
        let slot = self.store.directory(self.slot);
        if slot.exists() {
            durable::exchange(&self.directory, &slot)?;
            // The old set: if it cannot be removed now, the next staging does.
            drop(fs::remove_dir_all(&self.directory));
        } else {
            durable::put(&self.directory, &slot)?;
        }
        Ok(())
    }
}

fn os_id(tree: &Tree) -> Option<String> {
    let text = tree.read(Path::new("/etc/os-release"), 64 * 1024).ok()?;
    let fields = super::release::parse_release(&String::from_utf8_lossy(&text)).ok()?;
    fields.get("ID").map(str::to_owned)
}
