//! The set that takes a slot's place: built in a directory beside the slots, exchanged in one step.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::super::durable;
use super::super::manifest::{Extension, Manifest, Mode, SCHEMA_VERSION};
use super::super::release::parse_release;
use super::super::store::{MANIFEST, Store};
use super::super::tree::Tree;
use super::super::word::{Kind, Slot};
use super::fill::{self, Come, FillError, Reserved};
use super::source::{Known, Sources};
use super::wanted::Slotted;
use super::{Event, LEFTOVER, StageError, Staged, Staging};

pub(super) struct Work<'a> {
    staging: &'a Staging,
    store: &'a Store,
    slot: Slot,
    directory: PathBuf,
}

/// Where a wanted image is.
enum Found {
    Here((Slot, Extension)),
    There(Known),
}

/// An image that is to come.
struct Coming<'a> {
    /// Its place in the set.
    at: usize,
    wanted: &'a Slotted,
    known: Known,
    reserved: Reserved,
    file: PathBuf,
}

/// Whoever watches.
type Said<'a> = dyn FnMut(&Event<'_>) + 'a;
/// The set as far as it is there.
type Set = Vec<Option<Extension>>;

impl<'a> Work<'a> {
    /// The directory is of one process: another's leftovers are cleared before.
    pub(super) fn new(staging: &'a Staging, store: &'a Store, slot: Slot) -> Self {
        let directory = store.root().join(format!("{LEFTOVER}{slot}-{}", std::process::id()));
        Self { staging, store, slot, directory }
    }

    pub(super) fn build(
        &self,
        slotted: &[Slotted],
        sources: &mut dyn Sources,
        said: &mut Said<'_>,
    ) -> Result<Staged, StageError> {
        fs::create_dir(&self.directory)?;
        for kind in Kind::BOTH {
            fs::create_dir(self.directory.join(kind.directory()))?;
        }
        let found = self.find(slotted, sources)?;
        let (mut set, coming) = self.link_and_reserve(slotted, found, said)?;
        let reused = set.iter().flatten().count();
        self.fetch(coming, sources, &mut set, said)?;
        let extensions: Vec<_> = set.into_iter().flatten().collect();
        self.warn(&extensions, said);
        let staged = Staged::Set { slot: self.slot, extensions: extensions.len(), reused };
        self.write(extensions)?;
        Ok(staged)
    }

    fn find(
        &self,
        slotted: &[Slotted],
        sources: &mut dyn Sources,
    ) -> Result<Vec<Found>, FillError> {
        // A set that cannot be read has nothing to reuse, and is about to be replaced or is the running one.
        let sets = Slot::BOTH.into_iter().filter_map(|slot| self.store.manifest(slot).ok()?);
        let sets: Vec<_> = sets.collect();
        let one = |wanted: &Slotted| match fill::reusable(self.store, &sets, wanted) {
            Some(reused) => Ok(Found::Here(reused)),
            None => {
                let known = sources.look(wanted);
                known.map(Found::There).map_err(|source| FillError::source(wanted, source))
            }
        };
        slotted.iter().map(one).collect()
    }

    /// Links what is there, and takes the room for all the rest before any of it travels.
    fn link_and_reserve<'b>(
        &self,
        slotted: &'b [Slotted],
        found: Vec<Found>,
        said: &mut Said<'_>,
    ) -> Result<(Set, Vec<Coming<'b>>), StageError> {
        let size = |found: &Found| match found {
            Found::Here(_) => None,
            Found::There(known) => Some(known.size),
        };
        fill::has_room(&self.directory, found.iter().filter_map(size))?;
        let (mut set, mut coming) = (Set::new(), Vec::new());
        for (at, (found, wanted)) in found.into_iter().zip(slotted).enumerate() {
            set.push(match found {
                Found::Here((from, record)) => Some(self.link(from, record, wanted, said)?),
                Found::There(known) => {
                    let file = self.directory.join(format!("new-{at}"));
                    let reserved = fill::reserve(known.size, &file)?;
                    coming.push(Coming { at, wanted, known, reserved, file });
                    None
                }
            });
        }
        Ok((set, coming))
    }

    fn link(
        &self,
        from: Slot,
        mut extension: Extension,
        wanted: &Slotted,
        said: &mut Said<'_>,
    ) -> Result<Extension, StageError> {
        let old = self.store.found(from, &extension.file);
        extension.file = fill::place(wanted.kind, &extension.name.file_name());
        let new = self.directory.join(&extension.file);
        if new.exists() {
            return Err(FillError::taken(wanted, extension.file).into());
        }
        fill::reuse(&old, &new)?;
        said(&Event::Reused { of: &wanted.origin, from });
        Ok(extension)
    }

    fn fetch(
        &self,
        mut coming: Vec<Coming<'_>>,
        sources: &mut dyn Sources,
        set: &mut Set,
        said: &mut Said<'_>,
    ) -> Result<(), FillError> {
        let wanted: Vec<_> = coming.iter().map(|it| it.wanted).collect();
        sources.fetch(&wanted, &mut |number, bytes| {
            let Some(coming) = coming.get_mut(number) else { return Ok(()) };
            let extension = take(coming, bytes, &self.directory, said)?;
            if let Some(place) = set.get_mut(coming.at) {
                *place = Some(extension);
            }
            Ok(())
        })?;
        let missing = coming.iter().find(|it| set.get(it.at).is_none_or(Option::is_none));
        match missing {
            Some(coming) => Err(FillError::Missing { of: coming.wanted.origin.to_string() }),
            None => Ok(()),
        }
    }

    fn warn(&self, extensions: &[Extension], said: &mut Said<'_>) {
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
    pub(super) fn publish(&self) -> Result<(), StageError> {
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

/// One image, from its first byte to its record.
fn take(
    coming: &mut Coming<'_>,
    bytes: &mut dyn Read,
    staging: &Path,
    said: &mut Said<'_>,
) -> Result<Extension, FillError> {
    let Coming { wanted, known, reserved, file, .. } = coming;
    let of = &wanted.origin;
    let sha384 = fill::copy(reserved, bytes, wanted, |done, size| {
        said(&Event::Copied { of, done, size });
    })?;
    fill::admit(Come { wanted, known, sha384, file }, staging)
}

fn os_id(tree: &Tree) -> Option<String> {
    let text = tree.read(Path::new("/etc/os-release"), 64 * 1024).ok()?;
    let fields = parse_release(&String::from_utf8_lossy(&text)).ok()?;
    fields.get("ID").map(str::to_owned)
}
