use std::path::{Path, PathBuf};

use thiserror::Error;
use x509_parser::pem::Pem;

use crate::config::NodeName;

const COMMON_NAME_PREFIX: &str = "system:node:";

/// The Node's name cannot be known.
#[derive(Debug, Error)]
pub enum IdentityError {
    #[error("cannot read kubelet's client certificate {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "no certificate in {} has a subject CN of the form system:node:<name>", path.display()
    )]
    NoNode { path: PathBuf },
}

/// The Node's name. `hostname` is the lower-cased one.
///
/// # Errors
/// Only where it is to be read from kubelet's certificate; there is no falling back to the hostname.
pub fn node_name(source: &NodeName, hostname: &str) -> Result<String, IdentityError> {
    match source {
        NodeName::Explicit(name) => Ok(name.clone()),
        NodeName::Hostname => Ok(hostname.to_owned()),
        NodeName::KubeletCert(path) => from_certificate(path),
    }
}

fn from_certificate(path: &Path) -> Result<String, IdentityError> {
    let bytes = std::fs::read(path)
        .map_err(|source| IdentityError::Read { path: path.to_owned(), source })?;
    // Key, certificate and chain may stand in any order.
    Pem::iter_from_buffer(&bytes)
        .filter_map(Result::ok)
        .filter_map(|pem| named(&pem))
        .next()
        .ok_or_else(|| IdentityError::NoNode { path: path.to_owned() })
}

fn named(pem: &Pem) -> Option<String> {
    let certificate = (pem.label == "CERTIFICATE").then(|| pem.parse_x509().ok())??;
    let names: Vec<_> =
        certificate.subject().iter_common_name().filter_map(|cn| cn.as_str().ok()).collect();
    let name = names.iter().find_map(|cn| cn.strip_prefix(COMMON_NAME_PREFIX))?;
    (!name.is_empty()).then(|| name.to_owned())
}
