//! What goes wrong on the way.

use std::io;

use oci_client::errors::OciDistributionError;
use thiserror::Error;
use trident_slots::{BundleError, MAX_METADATA, Sha384};

#[derive(Debug, Error)]
pub enum FetchError {
    #[error("no CA certificate can be read: nobody could be trusted")]
    NoTrust,
    #[error("the proxy in {0} is no http:// or https:// URL: correct it, or unset it")]
    Proxy(&'static str),
    #[error("the network cannot be used")]
    Setup(#[source] io::Error),
    #[error("it is no URL of file, https or oci")]
    Address,
    #[error("it is no reference to a registry's artifact, with the registry's name")]
    Reference,
    #[error("the request failed")]
    Http(#[source] reqwest::Error),
    #[error("the server answered with status {0}")]
    Status(u16),
    #[error("the server does not say how large it is")]
    NoSize,
    #[error("the server sent another part, or it changed meanwhile")]
    OtherPart,
    #[error("the registry refused, or did not answer")]
    Registry(#[source] OciDistributionError),
    #[error("the artifact has {0} layers, and must have one")]
    Layers(usize),
    #[error("the artifact's layer has no usable size or digest")]
    Layer,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tar(#[from] TarError),
    #[error("it has no metadata.json")]
    NoMetadata,
    #[error("its metadata.json is larger than {MAX_METADATA} bytes")]
    LargeMetadata,
    #[error("its metadata.json has not the wanted SHA-384: it is {0}")]
    OtherMetadata(Sha384),
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error("no COSI file is given")]
    NoCosi,
    #[error("the COSI file has no {0}")]
    NoMember(String),
    #[error("the COSI file's {path} has {found} bytes, and its metadata says {expected}")]
    MemberSize { path: String, found: u64, expected: u64 },
}

/// Why a tar is none that is read here.
#[derive(Debug, Error)]
pub enum TarError {
    #[error("it is no tar, or broken at byte {0}")]
    Broken(u64),
    #[error("it ends in the middle of a member")]
    Short,
    #[error("it has more than {0} members")]
    TooMany(usize),
    #[error("it has a sparse member, which is not understood")]
    Sparse,
    #[error("a member's name is longer than {0} bytes")]
    LongName(u64),
    #[error("its {0} is a link, a directory or another thing that is no regular file")]
    NotRegular(String),
    #[error("it cannot be read")]
    Read(#[from] io::Error),
}
