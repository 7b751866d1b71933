//! The offered image: where it is and what its metadata must hash to.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use thiserror::Error;
use url::Url;

use super::reply::{Package, Update};
use crate::contract::origin;

/// The label that holds the SHA-384 of the COSI metadata.
const LABEL: &str = "cosi.metadata.sha384";
/// Length of a SHA-384.
const SHA384_LEN: usize = 48;

/// Where the SHA-384 is taken from; there is no fallback from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashSource {
    /// The label `cosi.metadata.sha384`, hexadecimal.
    Labels,
    /// The `hash` attribute, base64.
    Hash,
}

impl fmt::Display for HashSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HashSource::Labels => "label cosi.metadata.sha384",
            HashSource::Hash => "hash attribute",
        })
    }
}

/// An update that can be staged. Prints only the origin of its address, which may be pre-signed.
#[derive(Clone, PartialEq, Eq)]
pub struct Offer {
    /// The offered version; not necessarily the one that was hoped for.
    pub version: String,
    /// Where the image is: `https` or `oci`.
    pub url: Url,
    /// SHA-384 of the image's COSI metadata: 96 lower-case hexadecimal digits.
    pub sha384: String,
    /// The package's name, as the server gives it.
    pub name: String,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer")
            .field("version", &self.version)
            .field("url", &origin(&self.url))
            .field("sha384", &self.sha384)
            .finish_non_exhaustive()
    }
}

/// Why an offer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OfferError {
    /// The manifest is missing or does not say which version.
    #[error("it names no version")]
    NoVersion,
    /// There is no package, or it has no name.
    #[error("it names no package")]
    NoPackage,
    /// Codebase and package name do not make an address.
    #[error("codebase and package name do not make an address")]
    BadAddress(#[source] url::ParseError),
    /// The address is neither `https` nor `oci`, or names no host.
    #[error("the image address {0} is neither https nor oci with a host")]
    BadScheme(String),
    /// The SHA-384 is missing where it should be.
    #[error("the {0} with the SHA-384 is missing")]
    NoHash(HashSource),
    /// The SHA-384 cannot be decoded.
    #[error("the {0} is not {1}")]
    BadHash(HashSource, &'static str),
    /// The label is there twice, with different values.
    #[error("the {0} is given with two different values")]
    TwoHashes(HashSource),
}

impl Offer {
    pub(super) fn read(update: &Update, hash: HashSource) -> Result<Offer, OfferError> {
        let version =
            update.version.as_deref().map(str::trim).filter(|version| !version.is_empty());
        let version = version.ok_or(OfferError::NoVersion)?.to_owned();
        let package = update.package.as_ref().filter(|package| !package.name.is_empty());
        let package = package.ok_or(OfferError::NoPackage)?;
        let url = address(update.codebase.as_deref(), &package.name)?;
        let sha384 = match hash {
            HashSource::Labels => sha384_of_labels(update, package)?,
            HashSource::Hash => sha384_of_hash(package)?,
        };
        Ok(Offer { version, url, sha384, name: package.name.clone() })
    }
}

/// The codebase as a directory, joined with the name as a URL reference.
fn address(codebase: Option<&str>, name: &str) -> Result<Url, OfferError> {
    let codebase = codebase.map(str::trim).filter(|codebase| !codebase.is_empty());
    let url = match codebase {
        Some(codebase) => join(&directory(codebase)?, name),
        None => Url::parse(name),
    };
    let url = url.map_err(OfferError::BadAddress)?;
    let host = url.host_str().is_some_and(|host| !host.is_empty());
    match url.scheme() {
        "https" | "oci" if host => Ok(url),
        _ => Err(OfferError::BadScheme(origin(&url))),
    }
}

/// An image's tag would otherwise make a scheme of what stands before its colon.
fn join(directory: &Url, name: &str) -> Result<Url, url::ParseError> {
    let first = name.split('/').next().unwrap_or_default();
    if directory.scheme() == "oci" && first.contains(':') && !name.contains("://") {
        return directory.join(&format!("./{name}"));
    }
    directory.join(name)
}

fn directory(codebase: &str) -> Result<Url, OfferError> {
    let mut url = Url::parse(codebase).map_err(OfferError::BadAddress)?;
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

fn sha384_of_labels(update: &Update, package: &Package) -> Result<String, OfferError> {
    let source = HashSource::Labels;
    let labels = update.labels.iter().chain(&package.labels);
    let mut found = None;
    for label in labels.filter(|label| label.name == LABEL) {
        let value = sha384_of_hex(&label.value)?;
        match &found {
            Some(earlier) if *earlier != value => return Err(OfferError::TwoHashes(source)),
            _ => found = Some(value),
        }
    }
    found.ok_or(OfferError::NoHash(source))
}

fn sha384_of_hex(value: &str) -> Result<String, OfferError> {
    let bad = |what| OfferError::BadHash(HashSource::Labels, what);
    if !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad("hexadecimal"));
    }
    if value.len() != 2 * SHA384_LEN {
        return Err(bad("48 bytes long"));
    }
    Ok(value.to_ascii_lowercase())
}

fn sha384_of_hash(package: &Package) -> Result<String, OfferError> {
    let source = HashSource::Hash;
    let hash = package.hash.as_deref().map(str::trim).filter(|hash| !hash.is_empty());
    let hash = hash.ok_or(OfferError::NoHash(source))?;
    let bytes = BASE64.decode(hash).map_err(|_where| OfferError::BadHash(source, "base64"))?;
    if bytes.len() != SHA384_LEN {
        return Err(OfferError::BadHash(source, "48 bytes long"));
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
