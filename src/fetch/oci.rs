//! Artifacts of registries: one layer is one file.

use std::io::Read;
use std::rc::Rc;

use oci_client::client::{BlobResponse, Certificate, CertificateEncoding, ClientConfig};
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use tokio::runtime::Runtime;
use trident_slots::Hash;

use super::body::Body;
use super::error::FetchError;
use super::remote::Remote;
use super::trust;
use super::web::SILENCE;

/// How a layer says what its file is called.
const TITLE: &str = "org.opencontainers.image.title";

#[derive(Debug)]
pub(crate) struct Layer {
    registry: Registry,
    reference: Reference,
    descriptor: OciDescriptor,
    size: u64,
    /// The registry's own.
    pub(crate) hash: Hash,
}

#[derive(Clone)]
struct Registry {
    runtime: Rc<Runtime>,
    client: Client,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

/// What follows `oci://`. Nobody's registry is the default.
fn reference(text: &str) -> Result<Reference, FetchError> {
    let named = text.split_once('/').map(|(registry, _)| registry).unwrap_or_default();
    let reference: Reference = text.parse().map_err(|_malformed| FetchError::Reference)?;
    if reference.registry() == named { Ok(reference) } else { Err(FetchError::Reference) }
}

fn client() -> Result<Client, FetchError> {
    let trusted = trust::trusted().into_iter();
    let trusted =
        trusted.map(|it| Certificate { encoding: CertificateEncoding::Der, data: it.to_vec() });
    let trusted: Vec<_> = trusted.collect();
    if trusted.is_empty() {
        return Err(FetchError::NoTrust);
    }
    Client::try_from(ClientConfig {
        tls_certs_only: trusted,
        read_timeout: Some(SILENCE),
        connect_timeout: Some(SILENCE),
        ..ClientConfig::default()
    })
    .map_err(FetchError::Registry)
}

impl Layer {
    /// The only layer of an artifact.
    pub(crate) fn find(runtime: &Rc<Runtime>, text: &str) -> Result<Self, FetchError> {
        let reference = reference(text)?;
        let registry = Registry { runtime: Rc::clone(runtime), client: client()? };
        let pulled = registry.client.pull_image_manifest(&reference, &RegistryAuth::Anonymous);
        let (manifest, _) = runtime.block_on(pulled).map_err(FetchError::Registry)?;
        let count = manifest.layers.len();
        let mut layers = manifest.layers.into_iter();
        let (Some(mut descriptor), None) = (layers.next(), layers.next()) else {
            return Err(FetchError::Layers(count));
        };
        // Whatever else it names is not the registry that was asked.
        descriptor.urls = None;
        let size = u64::try_from(descriptor.size).map_err(|_negative| FetchError::Layer)?;
        let hash = Hash::try_from(descriptor.digest.clone());
        let hash = hash.map_err(|_other_kind| FetchError::Layer)?;
        Ok(Self { registry, reference, descriptor, size, hash })
    }

    pub(crate) fn title(&self) -> Option<String> {
        self.descriptor.annotations.as_ref()?.get(TITLE).cloned()
    }

    fn ask(&self, from: u64, length: u64) -> Result<BlobResponse, FetchError> {
        let Registry { runtime, client } = &self.registry;
        let asked =
            client.pull_blob_stream_partial(&self.reference, &self.descriptor, from, Some(length));
        runtime.block_on(asked).map_err(FetchError::Registry)
    }
}

impl Remote for Layer {
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }

    fn has_parts(&self) -> Result<bool, FetchError> {
        Ok(matches!(self.ask(0, 1)?, BlobResponse::Partial(_)))
    }

    fn whole(&self) -> Result<Box<dyn Read>, FetchError> {
        let Registry { runtime, client } = &self.registry;
        let pulled = client.pull_blob_stream(&self.reference, &self.descriptor);
        let stream = runtime.block_on(pulled).map_err(FetchError::Registry)?;
        Ok(Box::new(Body::new(runtime, stream)))
    }

    fn part(&self, from: u64, length: u64) -> Result<Box<dyn Read>, FetchError> {
        match self.ask(from, length)? {
            BlobResponse::Partial(stream) => {
                Ok(Box::new(Body::new(&self.registry.runtime, stream)))
            }
            BlobResponse::Full(_) => Err(FetchError::OtherPart),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_its_registry() {
        for (text, good) in [
            ("registry.example/acl/tools:1", true),
            ("registry.example:5000/tools@sha256:", false),
            ("localhost:5000/tools:1", true),
            ("tools", false),
            ("library/tools:1", false),
            ("user:secret@registry.example/tools:1", false),
            ("registry.example/Tools:1", false),
            ("", false),
        ] {
            assert_eq!(reference(text).is_ok(), good, "{text:?}");
        }
    }
}
