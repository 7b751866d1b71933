//! The `extensions` section of a COSI file's metadata: images that travel with an OS.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::super::object::object;
use super::super::word::{Kind, Sha384, is_component};
use super::wanted::Scope;

/// Larger metadata is none; a list of all packages of an OS needs a twentieth of it.
pub const MAX_METADATA: u64 = 16 * 1024 * 1024;
/// As many as a manifest may list.
const MAX_EXTENSIONS: usize = 256;
/// The directory of a COSI file's images.
const IMAGES: &str = "images/";
/// Of components below it.
const MAX_DEPTH: usize = 4;
const MAX_COMPONENT: usize = 200;

/// What of it may be slotted. The rest of the metadata is somebody else's, and a later version may say more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Bundle {
    #[serde(default)]
    sysexts: Vec<Bundled>,
    #[serde(default)]
    confexts: Vec<Bundled>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Bundled {
    pub(super) image: Member,
    #[serde(default)]
    pub(super) path: Option<PathBuf>,
    #[serde(default)]
    pub(super) scope: Option<Scope>,
}

/// One member of the tar: an image, compressed with zstd.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    #[serde(deserialize_with = "below_images")]
    pub path: String,
    pub compressed_size: u64,
    pub uncompressed_size: u64,
    /// Of the compressed bytes.
    pub sha384: Sha384,
}

#[derive(Debug, Error)]
pub enum BundleError {
    #[error("the COSI metadata cannot be understood")]
    Malformed(#[from] serde_json::Error),
    #[error("the COSI metadata lists {0} extensions, at most {MAX_EXTENSIONS} are allowed")]
    TooMany(usize),
}

#[derive(Deserialize)]
struct Whole(#[serde(deserialize_with = "object")] Metadata);

#[derive(Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "object")]
    extensions: Bundle,
}

impl Bundle {
    /// Of `metadata.json`. One without the section has no extensions.
    ///
    /// # Errors
    /// [`BundleError`]
    pub fn parse(metadata: &[u8]) -> Result<Self, BundleError> {
        let Whole(Metadata { extensions: bundle }) = serde_json::from_slice(metadata)?;
        let count = bundle.sysexts.len() + bundle.confexts.len();
        if count > MAX_EXTENSIONS {
            return Err(BundleError::TooMany(count));
        }
        Ok(bundle)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Kind, &Bundled)> {
        let sysexts = self.sysexts.iter().map(|it| (Kind::Sysext, it));
        sysexts.chain(self.confexts.iter().map(|it| (Kind::Confext, it)))
    }

    /// Every member that is named, whoever's business it is.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.all().map(|(_, it)| &it.image)
    }
}

fn below_images<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let path = String::deserialize(from)?;
    let inside = path.strip_prefix(IMAGES).unwrap_or_default();
    let plain = inside.split('/').all(|part| is_component(part, MAX_COMPONENT));
    if plain && inside.split('/').count() <= MAX_DEPTH {
        return Ok(path);
    }
    let shown: String = path.chars().take(64).collect();
    Err(serde::de::Error::custom(format!("{shown:?} is no image below {IMAGES}")))
}
