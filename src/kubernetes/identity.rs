use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;

use crate::config::NodeName;
use crate::contract::is_dns_subdomain;

const COMMON_NAME_PREFIX: &str = "system:node:";
/// More is no certificate.
const MAX_BYTES: u64 = 1024 * 1024;

/// The Node's name cannot be known.
#[derive(Debug, Error)]
pub enum IdentityError {
    #[error("cannot read kubelet's client certificate {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "no client certificate in {} has a subject CN of the form system:node:<name>",
        path.display()
    )]
    NoNode { path: PathBuf },
    #[error("the certificates in {} are of several Nodes: {}", path.display(), names.join(", "))]
    SeveralNodes { path: PathBuf, names: Vec<String> },
    #[error("{name:?} is no name that a Node can have")]
    NoName { name: String },
}

/// The Node's name. `hostname` is the lower-cased one.
///
/// # Errors
/// Where it is to be read from kubelet's certificate and cannot be: there is no falling back to the
/// hostname. Where no Node can have it.
pub fn node_name(source: &NodeName, hostname: &str) -> Result<String, IdentityError> {
    let name = match source {
        NodeName::Explicit(name) => name.clone(),
        NodeName::Hostname => hostname.to_owned(),
        NodeName::KubeletCert(path) => from_certificate(path)?,
    };
    // It becomes part of an address.
    if is_dns_subdomain(&name) { Ok(name) } else { Err(IdentityError::NoName { name }) }
}

fn from_certificate(path: &Path) -> Result<String, IdentityError> {
    let bytes =
        read(path).map_err(|source| IdentityError::Read { path: path.to_owned(), source })?;
    // Key, certificate and chain may stand in any order.
    let pems = Pem::iter_from_buffer(&bytes).filter_map(Result::ok);
    let names: BTreeSet<_> = pems.filter_map(|pem| named(&pem)).collect();
    let mut names: Vec<_> = names.into_iter().collect();
    match (names.pop(), names.is_empty()) {
        (Some(name), true) => Ok(name),
        (None, _) => Err(IdentityError::NoNode { path: path.to_owned() }),
        (Some(last), false) => {
            names.push(last);
            Err(IdentityError::SeveralNodes { path: path.to_owned(), names })
        }
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The Node of a client's certificate.
fn named(pem: &Pem) -> Option<String> {
    let certificate = (pem.label == "CERTIFICATE").then(|| pem.parse_x509().ok())??;
    if certificate.is_ca() || !is_of_a_client(&certificate) {
        return None;
    }
    let names: Vec<_> =
        certificate.subject().iter_common_name().filter_map(|cn| cn.as_str().ok()).collect();
    let name = names.iter().find_map(|cn| cn.strip_prefix(COMMON_NAME_PREFIX))?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// kubelet's serving certificate has the same name, and may stand in the same file.
fn is_of_a_client(certificate: &X509Certificate<'_>) -> bool {
    let usage = certificate.extended_key_usage().ok().flatten();
    usage.is_none_or(|usage| usage.value.any || usage.value.client_auth)
}
