//! Looking after a store: what is in it, whether it is whole, and what nobody names.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Serialize;
use thiserror::Error;

use super::chain::chain;
use super::manifest::Manifest;
use super::pending::Proof;
use super::report::Report;
use super::stage::{Lock, LockError, clear};
use super::store::{Store, StoreError};
use super::tree::Tree;
use super::word::{Kind, Name, Slot};

/// Both sets, what this boot published, and what tells the sets apart.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    pub store: PathBuf,
    pub a: Option<Manifest>,
    pub b: Option<Manifest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
    /// `None`: no loader ran in this boot.
    pub published: Option<Report>,
    pub differences: Vec<Difference>,
}

/// An extension that is not the same in both slots.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    pub kind: Kind,
    pub name: Name,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    OnlyInA,
    OnlyInB,
    OtherContent,
}

/// An image that is not as its record says.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Damage {
    pub slot: Slot,
    pub kind: Kind,
    pub name: Name,
    pub reason: String,
}

#[derive(Debug, Error)]
pub enum KeepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("a set waits for the boot that proves it: what seems unused may be needed to go back")]
    Pending,
    #[error("cannot work in the store")]
    Io(#[from] io::Error),
}

impl Store {
    /// # Errors
    /// [`KeepError`]
    pub fn list(&self, tree: &Tree) -> Result<Listing, KeepError> {
        let (a, b) = (self.manifest(Slot::A)?, self.manifest(Slot::B)?);
        let differences = differences(a.as_ref(), b.as_ref());
        let pending = match self.proof()? {
            Proof::Proved => None,
            Proof::Pending(slot) => Some(slot.name().to_owned()),
            Proof::Unreadable => Some("unreadable".to_owned()),
        };
        let (store, published) = (self.path().to_owned(), Report::read(tree));
        Ok(Listing { store, a, b, pending, published, differences })
    }

    /// Hashes every image of both slots.
    ///
    /// # Errors
    /// A manifest that cannot be read; what is wrong with images is the answer.
    pub fn damages(&self) -> Result<Vec<Damage>, KeepError> {
        let mut damages = Vec::new();
        for slot in Slot::BOTH {
            for extension in self.manifest(slot)?.map(|it| it.extensions).unwrap_or_default() {
                if let Err(problem) = self.verify(slot, &extension) {
                    let (kind, name) = (extension.kind, extension.name);
                    damages.push(Damage { slot, kind, name, reason: chain(&problem) });
                }
            }
        }
        Ok(damages)
    }

    /// Removes the images that neither manifest names, and what interrupted stagings left.
    ///
    /// # Errors
    /// [`KeepError`]; also while a set is pending.
    pub fn prune(&self, wait: bool) -> Result<Vec<PathBuf>, KeepError> {
        let _lock = Lock::take(self.root(), wait)?;
        if self.proof()? != Proof::Proved {
            return Err(KeepError::Pending);
        }
        let sets = [(Slot::A, self.manifest(Slot::A)?), (Slot::B, self.manifest(Slot::B)?)];
        clear(self)?;
        let mut removed = Vec::new();
        for (slot, set) in sets {
            let named = set.map(|it| it.extensions).unwrap_or_default();
            let named: BTreeSet<_> =
                named.into_iter().map(|it| self.found(slot, &it.file)).collect();
            for kind in Kind::BOTH {
                for path in images(&self.directory(slot).join(kind.directory()))? {
                    if !named.contains(&path) {
                        fs::remove_file(&path)?;
                        removed.push(path);
                    }
                }
            }
        }
        Ok(removed)
    }
}

fn images(directory: &std::path::Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(problem) => return Err(problem),
    };
    let mut images = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            images.push(entry.path());
        }
    }
    images.sort();
    Ok(images)
}

fn differences(a: Option<&Manifest>, b: Option<&Manifest>) -> Vec<Difference> {
    let entries = |set: Option<&Manifest>| set.map(|it| it.extensions.clone()).unwrap_or_default();
    let (a, b) = (entries(a), entries(b));
    let of_a = a.iter().filter_map(|one| {
        let other = b.iter().find(|it| it.kind == one.kind && it.id == one.id);
        let what = match other {
            None => What::OnlyInA,
            Some(other) if other.sha384 != one.sha384 => What::OtherContent,
            Some(_) => return None,
        };
        Some(Difference { kind: one.kind, name: one.name.clone(), what })
    });
    let of_b = b.iter().filter(|one| !a.iter().any(|it| it.kind == one.kind && it.id == one.id));
    let of_b =
        of_b.map(|it| Difference { kind: it.kind, name: it.name.clone(), what: What::OnlyInB });
    of_a.chain(of_b).collect()
}
