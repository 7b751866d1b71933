//! How to reach the API server, and as whom: what the kubeconfig's current context says, with every file that
//! it names read now. kubelet replaces its certificate under us, so this is read again and compared.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Uri};
use kube::Config as ClientConfig;
use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::ExposeSecret;
use thiserror::Error;
use tracing::warn;
use url::Url;

use super::kubeconfig;
use super::proxy::{ProxyError, proxy};
use crate::config::Kubernetes;
use crate::contract::pem_certificates;

/// Why the kubeconfig does not lead to the API server.
#[derive(Debug, Error)]
pub enum AccessError {
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("it has no current-context")]
    NoContext,
    #[error("it has no {kind} {name:?}, which its current context names")]
    Missing { kind: &'static str, name: String },
    #[error("its cluster has no server")]
    NoServer,
    #[error("the server's address is no http or https URL with a host")]
    Server,
    #[error("cannot read its {what}, {}", path.display())]
    Read { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("its {what} is no base64")]
    Base64 { what: &'static str },
    #[error("its {what} holds no certificate that can be used")]
    NoCertificate { what: &'static str },
    #[error("its token holds a character that no HTTP header may hold")]
    Token,
    #[error("it names a client certificate without a key, or a key without a certificate")]
    HalfAnIdentity,
    #[error(
        "its user logs in by {how}, which is not supported: use a client certificate or a token"
    )]
    Login { how: &'static str },
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

/// The way to the API server as it was when it was read.
pub(super) struct Access {
    pub(super) config: ClientConfig,
    /// Of the kubeconfig and of all that it names.
    pub(super) fingerprint: u64,
}

impl Access {
    /// # Errors
    /// [`AccessError`].
    pub(super) fn read(settings: &Kubernetes) -> Result<Self, AccessError> {
        let mut hasher = DefaultHasher::new();
        let kubeconfig = kubeconfig::read(&settings.kubeconfig, &mut hasher)?;
        let (cluster, mut user) = current(kubeconfig)?;
        let server = settings.api_server.as_ref().map(Url::as_str);
        let server = server.or(cluster.server.as_deref());
        let mut config = ClientConfig::new(address(server.ok_or(AccessError::NoServer)?)?);
        config.root_cert = authorities(&cluster, &mut hasher)?;
        config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
        config.tls_server_name = cluster.tls_server_name;
        config.proxy_url = proxy(cluster.proxy_url.as_deref(), &config.cluster_url)?;
        refuse(&user)?;
        identity(&user, &mut hasher)?;
        let token = bearer(&mut user, &mut hasher)?;
        config.headers.extend(token.map(|token| (AUTHORIZATION, token)));
        config.auth_info = user;
        Ok(Self { config, fingerprint: hasher.finish() })
    }

    /// Says what a person should know about this way.
    pub(super) fn warn(&self) {
        if self.config.accept_invalid_certs {
            warn!(
                "the kubeconfig says insecure-skip-tls-verify: anybody may pose as the API server"
            );
        }
    }
}

/// Cluster and user of the current context.
fn current(kubeconfig: Kubeconfig) -> Result<(Cluster, AuthInfo), AccessError> {
    let named = kubeconfig.current_context.filter(|name| !name.is_empty());
    let name = named.ok_or(AccessError::NoContext)?;
    let missing = |kind, name: &str| AccessError::Missing { kind, name: name.to_owned() };
    let mut contexts = kubeconfig.contexts.into_iter();
    let context = contexts.find(|context| context.name == name).and_then(|it| it.context);
    let context = context.ok_or_else(|| missing("context", &name))?;
    let mut clusters = kubeconfig.clusters.into_iter();
    let cluster = clusters.find(|it| it.name == context.cluster).and_then(|it| it.cluster);
    let cluster = cluster.ok_or_else(|| missing("cluster", &context.cluster))?;
    let name = context.user.unwrap_or_default();
    let mut users = kubeconfig.auth_infos.into_iter();
    let user = users.find(|user| user.name == name).and_then(|user| user.auth_info);
    let user = user.ok_or_else(|| missing("user", &name))?;
    Ok((cluster, user))
}

fn address(server: &str) -> Result<Uri, AccessError> {
    let uri: Uri = server.parse().map_err(|_quoting| AccessError::Server)?;
    let has_host = uri.host().is_some_and(|host| !host.is_empty());
    // The one is what is needed, the other knows what a port is.
    let good = has_host && Url::parse(server).is_ok();
    let usable = matches!(uri.scheme_str(), Some("https" | "http")) && good;
    if usable { Ok(uri) } else { Err(AccessError::Server) }
}

/// `None`: the system's.
fn authorities(
    cluster: &Cluster,
    hasher: &mut DefaultHasher,
) -> Result<Option<Vec<Vec<u8>>>, AccessError> {
    let what = "certificate-authority";
    let pem = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => {
            STANDARD.decode(data).map_err(|_quoting| AccessError::Base64 { what })?
        }
        (None, Some(path)) => read(what, path, hasher)?,
        (None, None) => return Ok(None),
    };
    let pem = String::from_utf8_lossy(&pem);
    let certificates = pem_certificates(&pem);
    let certificates =
        certificates.filter_map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).ok());
    // One that cannot be used must not spoil the others.
    let usable = certificates.filter(|it| RootCertStore::empty().add(it.clone()).is_ok());
    let usable: Vec<_> = usable.map(|certificate| certificate.to_vec()).collect();
    if usable.is_empty() { Err(AccessError::NoCertificate { what }) } else { Ok(Some(usable)) }
}

fn refuse(user: &AuthInfo) -> Result<(), AccessError> {
    let refused = [
        (user.exec.is_some(), "an exec plugin"),
        (user.auth_provider.is_some(), "an auth-provider"),
        (user.username.is_some() || user.password.is_some(), "user name and password"),
    ];
    match refused.into_iter().find(|(asked, _)| *asked) {
        Some((_, how)) => Err(AccessError::Login { how }),
        None => Ok(()),
    }
}

/// Takes note of certificate and key, which kube reads itself. What stands in the kubeconfig wins over a file.
fn identity(user: &AuthInfo, hasher: &mut DefaultHasher) -> Result<(), AccessError> {
    let (certificate, key) = (&user.client_certificate, &user.client_key);
    let inline = (user.client_certificate_data.is_some(), user.client_key_data.is_some());
    if let (false, Some(path)) = (inline.0, certificate) {
        read("client-certificate", path, hasher)?;
    }
    if let (false, Some(path)) = (inline.1, key) {
        read("client-key", path, hasher)?;
    }
    if (inline.0 || certificate.is_some()) != (inline.1 || key.is_some()) {
        return Err(AccessError::HalfAnIdentity);
    }
    Ok(())
}

/// The `Authorization` header of a bearer token. kube would send a file's newline with it, and would panic at
/// one that stands in the kubeconfig.
fn bearer(
    user: &mut AuthInfo,
    hasher: &mut DefaultHasher,
) -> Result<Option<HeaderValue>, AccessError> {
    let inline = user.token.take().map(|token| token.expose_secret().to_owned());
    let file = user.token_file.take().map(|path| read("tokenFile", path, hasher));
    let token = match (file, inline) {
        (Some(Ok(token)), _) => String::from_utf8_lossy(&token).into_owned(),
        (Some(Err(_)) | None, Some(token)) => token,
        (Some(Err(error)), None) => return Err(error),
        (None, None) => return Ok(None),
    };
    let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
    let mut header = header.map_err(|_quoting| AccessError::Token)?;
    header.set_sensitive(true);
    Ok(Some(header))
}

fn read(
    what: &'static str,
    path: impl AsRef<Path>,
    hasher: &mut DefaultHasher,
) -> Result<Vec<u8>, AccessError> {
    let path = path.as_ref();
    let failed = |source| AccessError::Read { what, path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(failed)?;
    bytes.hash(hasher);
    Ok(bytes)
}
