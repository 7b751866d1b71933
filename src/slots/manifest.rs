//! `manifest.json`: what one slot's set is made of. `docs/schemas/slot-manifest-1.0.json` is the same for
//! machines; what a schema cannot say (a name that stands there twice) only the parser refuses.

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::fields::Fields;
use super::word::{Hash, Id, Kind, Name, Sha384, Slot, is_component};

/// The only version there is.
pub const SCHEMA_VERSION: &str = "1.0";
/// A larger file is not ours; the largest allowed set needs half of it.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;
/// More than a kernel would stack, and than a person would look through.
const MAX_EXTENSIONS: usize = 256;
/// Of components in `file`.
const MAX_DEPTH: usize = 4;
const MAX_COMPONENT: usize = 255;
const MAX_TEXT: usize = 2048;

/// The set of one slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    pub schema_version: String,
    pub slot: Slot,
    pub mode: Mode,
    /// The version of the OS that the set was staged for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub os_version: Option<String>,
    pub extensions: Vec<Extension>,
}

/// Whether slots have their own sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[serde(alias = "acl")]
    Managed,
    /// Nothing is slotted: the loader publishes nothing.
    Shared,
}

/// One image of the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extension {
    pub kind: Kind,
    pub id: Id,
    pub name: Name,
    /// Below the slot's directory.
    #[serde(deserialize_with = "relative")]
    pub file: String,
    pub size: u64,
    /// Of the raw file.
    pub sha384: Sha384,
    /// Without it, the whole set fails.
    #[serde(default = "yes")]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub source: Option<Source>,
    #[serde(default)]
    pub release: Fields,
}

/// Where an image came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    pub kind: SourceKind,
    /// Of the bytes as the source has them: compressed, for a member of a COSI file.
    pub hash: Hash,
    /// For people: a URL without credentials, a reference, a member's name.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub location: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    Cosi,
    Url,
    Oci,
}

/// Why a manifest is not obeyed.
#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("it is no manifest")]
    Malformed(#[source] serde_json::Error),
    #[error("it has schema version {0:?}, and only 1.0 is known here: a newer stager wrote it")]
    Version(String),
    #[error("it is the set of slot {found}, in the directory of slot {expected}")]
    OtherSlot { found: Slot, expected: Slot },
    #[error("it lists {0} extensions, at most {MAX_EXTENSIONS} are allowed")]
    TooMany(usize),
    #[error("the {kind} {what} {value} stands there twice")]
    Twice { kind: Kind, what: &'static str, value: Name },
    #[error("the file {0} stands there twice")]
    FileTwice(String),
    #[error("it is of mode shared, and lists extensions")]
    SharedSet,
}

/// Read first, so that a later version is named and not one of its fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    schema_version: String,
}

impl Manifest {
    /// # Errors
    /// [`ManifestError`]: everything that cannot be obeyed as it stands.
    pub fn parse(bytes: &[u8], slot: Slot) -> Result<Self, ManifestError> {
        let version: Version = serde_json::from_slice(bytes).map_err(ManifestError::Malformed)?;
        if version.schema_version != SCHEMA_VERSION {
            let shown = version.schema_version.chars().take(64).collect();
            return Err(ManifestError::Version(shown));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(ManifestError::Malformed)?;
        if manifest.slot != slot {
            return Err(ManifestError::OtherSlot { found: manifest.slot, expected: slot });
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// What holds between the entries.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), ManifestError> {
        if self.extensions.len() > MAX_EXTENSIONS {
            return Err(ManifestError::TooMany(self.extensions.len()));
        }
        if self.mode == Mode::Shared && !self.extensions.is_empty() {
            return Err(ManifestError::SharedSet);
        }
        for (at, extension) in self.extensions.iter().enumerate() {
            for earlier in self.extensions.iter().take(at) {
                extension.differs_from(earlier)?;
            }
        }
        Ok(())
    }
}

impl Extension {
    fn differs_from(&self, other: &Self) -> Result<(), ManifestError> {
        if self.file == other.file {
            return Err(ManifestError::FileTwice(self.file.clone()));
        }
        let kind = self.kind;
        let twice = |what, value: &Name| ManifestError::Twice { kind, what, value: value.clone() };
        match kind == other.kind {
            true if self.id == other.id => Err(twice("id", &self.id)),
            true if self.name == other.name => Err(twice("name", &self.name)),
            _ => Ok(()),
        }
    }
}

fn yes() -> bool {
    true
}

/// `null` is not the same as absent.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    let good = (1..=MAX_TEXT).contains(&text.len()) && !text.chars().any(char::is_control);
    if good { Ok(Some(text)) } else { Err(refused("a text is empty, too long or has controls")) }
}

fn relative<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let path = String::deserialize(from)?;
    let good = path.split('/').all(|part| is_component(part, MAX_COMPONENT));
    if good && path.split('/').count() <= MAX_DEPTH {
        return Ok(path);
    }
    let shown: String = path.chars().take(64).collect();
    Err(refused(&format!("{shown:?} is no file inside the slot's directory")))
}

fn refused<E: serde::de::Error>(why: &str) -> E {
    E::custom(why)
}
