//! The wanted set, as a fragment of a Host Configuration has it, and what of it is this store's business.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::super::manifest::Mode;
use super::super::word::{Kind, Sha384};

/// A fragment: what is not `os` is somebody else's. Without it, the file is no wanted set: an empty one must
/// not empty a slot.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Wanted {
    pub os: Os,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Os {
    #[serde(default)]
    pub sysexts: Vec<Item>,
    #[serde(default)]
    pub confexts: Vec<Item>,
    #[serde(default)]
    pub extension_store: Option<PathBuf>,
    #[serde(default)]
    pub extension_mode: Option<Mode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Item {
    pub url: Address,
    pub sha384: Sha384,
    #[serde(default)]
    pub path: Option<PathBuf>,
    #[serde(default)]
    pub scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    #[default]
    Shared,
    Slotted,
}

/// Where the image of a slotted extension is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl Address {
    /// What people are told: nothing of it is a secret, as long as it is a file.
    pub fn shown(&self) -> &str {
        &self.0
    }

    /// The path of a `file://` URL.
    pub fn file(&self) -> Option<&Path> {
        let path = Path::new(self.0.strip_prefix("file://")?);
        let plain = path.is_absolute() && !self.0.contains(['%', '?', '#']);
        plain.then_some(path)
    }
}

/// One image of the effective set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slotted {
    pub kind: Kind,
    pub url: Address,
    pub sha384: Sha384,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WantedError {
    #[error(
        "{kind} {url} is slotted and has a path: the path of a slotted extension is the store's"
    )]
    SlottedWithPath { kind: Kind, url: String },
    #[error("{kind} {url} is no file:// URL with an absolute path")]
    NoFile { kind: Kind, url: String },
    #[error("{kind} {url} stands there twice")]
    Twice { kind: Kind, url: String },
    #[error("two extensions are to be at {}", .0.display())]
    SamePath(PathBuf),
    #[error("the mode is shared, and {0} extensions are slotted")]
    SharedMode(usize),
}

impl Wanted {
    /// What is slotted, each once. The rest is left where its own path says.
    ///
    /// # Errors
    /// [`WantedError`]: nothing silently wins.
    pub fn slotted(&self) -> Result<Vec<Slotted>, WantedError> {
        let sysexts = self.os.sysexts.iter().map(|item| (Kind::Sysext, item));
        let all: Vec<_> =
            sysexts.chain(self.os.confexts.iter().map(|it| (Kind::Confext, it))).collect();
        distinct_paths(&all)?;
        let mut set: Vec<Slotted> = Vec::new();
        for (kind, item) in all.into_iter().filter(|(_, item)| item.scope == Scope::Slotted) {
            let url = || item.url.shown().to_owned();
            if item.path.is_some() {
                return Err(WantedError::SlottedWithPath { kind, url: url() });
            }
            if item.url.file().is_none() {
                return Err(WantedError::NoFile { kind, url: url() });
            }
            let same =
                |it: &Slotted| it.kind == kind && (it.url == item.url || it.sha384 == item.sha384);
            if set.iter().any(same) {
                return Err(WantedError::Twice { kind, url: url() });
            }
            set.push(Slotted { kind, url: item.url.clone(), sha384: item.sha384.clone() });
        }
        match self.os.extension_mode {
            Some(Mode::Shared) if !set.is_empty() => Err(WantedError::SharedMode(set.len())),
            _ => Ok(set),
        }
    }
}

fn distinct_paths(all: &[(Kind, &Item)]) -> Result<(), WantedError> {
    let paths: Vec<_> = all.iter().filter_map(|(_, item)| item.path.as_ref()).collect();
    for (at, path) in paths.iter().enumerate() {
        if paths.iter().take(at).any(|earlier| earlier == path) {
            return Err(WantedError::SamePath((*path).clone()));
        }
    }
    Ok(())
}
