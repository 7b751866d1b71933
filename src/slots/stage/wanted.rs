//! The wanted set: what a fragment of a Host Configuration and the metadata of a COSI file ask for together, and
//! what of it is this store's business.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::super::manifest::{Mode, SourceKind};
use super::super::object::object;
use super::super::word::{Hash, Kind, Sha384};
use super::bundle::{Bundle, Member};

/// A fragment: what is not `os` is somebody else's. Without it, the file is no wanted set: an empty one must
/// not empty a slot.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Wanted {
    #[serde(deserialize_with = "object")]
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

/// Where the image of an extension is. As typed it may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

/// What a slotted image's address may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    File(&'a Path),
    /// The whole URL.
    Https(&'a str),
    /// What follows the scheme: a reference.
    Oci(&'a str),
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Address {
    /// `None`: nothing that an image is fetched from.
    pub fn place(&self) -> Option<Place<'_>> {
        let (scheme, rest) = self.0.split_once("://")?;
        if rest.is_empty() || self.0.chars().any(|it| it.is_control() || it.is_whitespace()) {
            return None;
        }
        let plain = rest.starts_with('/') && !rest.contains(['%', '?', '#']);
        match scheme {
            "file" if plain => Some(Place::File(Path::new(rest))),
            "https" => Some(Place::Https(&self.0)),
            "oci" => Some(Place::Oci(rest)),
            _ => None,
        }
    }
}

/// Without what may be a secret: who asks, and what follows the path.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        let end = if scheme == "file" { None } else { rest.find(['?', '#']) };
        let rest = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        match scheme {
            "" => write!(f, "{host}{path}"),
            _ => write!(f, "{scheme}://{host}{path}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// One image of the effective set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slotted {
    pub kind: Kind,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// With the hash of the raw image.
    Url { url: Address, sha384: Sha384 },
    /// Of the COSI file.
    Member(Member),
}

impl Origin {
    pub(super) fn raw_hash(&self) -> Option<&Sha384> {
        match self {
            Self::Url { sha384, .. } => Some(sha384),
            Self::Member(_) => None,
        }
    }

    /// The source's own hash, where the wanted set says it.
    pub(super) fn hash(&self) -> Option<Hash> {
        match (self, self.source_kind()) {
            (Self::Url { .. }, SourceKind::Oci) => None,
            (Self::Url { sha384, .. }, _) => Some(sha384.into()),
            (Self::Member(member), _) => Some((&member.sha384).into()),
        }
    }

    pub(super) fn source_kind(&self) -> SourceKind {
        match self {
            Self::Member(_) => SourceKind::Cosi,
            Self::Url { url, .. } if matches!(url.place(), Some(Place::Oci(_))) => SourceKind::Oci,
            Self::Url { .. } => SourceKind::Url,
        }
    }

    /// The last component of a path that says what it is.
    pub fn file_name(&self) -> Option<String> {
        let Self::Url { url, .. } = self else { return None };
        let path = match url.place()? {
            Place::File(path) => path.to_str()?,
            Place::Https(url) => url.split(['?', '#']).next()?,
            Place::Oci(_) => return None,
        };
        Some(path.rsplit('/').next().unwrap_or_default().to_owned())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, .. } => url.fmt(f),
            Self::Member(member) => f.write_str(&member.path),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WantedError {
    #[error(
        "{kind} {of} is slotted and has a path: the path of a slotted extension is the store's"
    )]
    SlottedWithPath { kind: Kind, of: String },
    #[error("{kind} {of} is slotted and has no URL of file (with an absolute path), https or oci")]
    NoSource { kind: Kind, of: String },
    #[error("{kind} {of} stands there twice")]
    Twice { kind: Kind, of: String },
    #[error("two extensions are to be at {}", .0.display())]
    SamePath(PathBuf),
    #[error("the mode is shared, and {0} extensions are slotted")]
    SharedMode(usize),
}

/// An entry of either side.
struct Entry<'a> {
    slotted: Slotted,
    scope: Scope,
    path: Option<&'a Path>,
}

impl Wanted {
    /// What is slotted, each once. The rest is left where its own path says.
    ///
    /// # Errors
    /// [`WantedError`]: nothing silently wins.
    pub fn slotted<'a>(&'a self, bundle: Option<&'a Bundle>) -> Result<Vec<Slotted>, WantedError> {
        let all: Vec<_> = self.entries().chain(self.bundled(bundle)).collect();
        distinct_paths(&all)?;
        let mut set: Vec<Slotted> = Vec::new();
        for entry in all.into_iter().filter(|it| it.scope == Scope::Slotted) {
            let kind = entry.slotted.kind;
            let of = || entry.slotted.origin.to_string();
            if entry.path.is_some() {
                return Err(WantedError::SlottedWithPath { kind, of: of() });
            }
            if matches!(&entry.slotted.origin, Origin::Url { url, .. } if url.place().is_none()) {
                return Err(WantedError::NoSource { kind, of: of() });
            }
            if set.iter().any(|it| it.is_as(&entry.slotted)) {
                return Err(WantedError::Twice { kind, of: of() });
            }
            set.push(entry.slotted);
        }
        match self.os.extension_mode {
            Some(Mode::Shared) if !set.is_empty() => Err(WantedError::SharedMode(set.len())),
            _ => Ok(set),
        }
    }

    fn entries<'a>(&'a self) -> impl Iterator<Item = Entry<'a>> {
        let sysexts = self.os.sysexts.iter().map(|item| (Kind::Sysext, item));
        let all = sysexts.chain(self.os.confexts.iter().map(|item| (Kind::Confext, item)));
        all.map(|(kind, item)| {
            let origin = Origin::Url { url: item.url.clone(), sha384: item.sha384.clone() };
            let slotted = Slotted { kind, origin };
            Entry { slotted, scope: item.scope, path: item.path.as_deref() }
        })
    }

    /// What travels with an OS is of that OS: slotted, unless it has a place of its own or nothing is slotted.
    fn bundled<'a>(&'a self, bundle: Option<&'a Bundle>) -> impl Iterator<Item = Entry<'a>> {
        let shared = self.os.extension_mode == Some(Mode::Shared);
        bundle.into_iter().flat_map(Bundle::all).map(move |(kind, item)| {
            let own = if shared || item.path.is_some() { Scope::Shared } else { Scope::Slotted };
            let slotted = Slotted { kind, origin: Origin::Member(item.image.clone()) };
            let scope = item.scope.unwrap_or(own);
            Entry { slotted, scope, path: item.path.as_deref() }
        })
    }
}

impl Slotted {
    fn is_as(&self, other: &Self) -> bool {
        let same = match (&self.origin, &other.origin) {
            (Origin::Url { url, sha384 }, Origin::Url { url: there, sha384: hash }) => {
                url == there || sha384 == hash
            }
            (Origin::Member(here), Origin::Member(there)) => {
                here.path == there.path || here.sha384 == there.sha384
            }
            _ => false,
        };
        self.kind == other.kind && same
    }
}

fn distinct_paths(all: &[Entry<'_>]) -> Result<(), WantedError> {
    let paths: Vec<_> = all.iter().filter_map(|entry| entry.path).collect();
    for (at, path) in paths.iter().enumerate() {
        if paths.iter().take(at).any(|earlier| earlier == path) {
            return Err(WantedError::SamePath(path.to_path_buf()));
        }
    }
    Ok(())
}
