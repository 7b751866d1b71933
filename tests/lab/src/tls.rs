//! Certificates for the stand-ins, and the TLS front that both HTTP stand-ins share.

/// What goes wrong on demand.
pub mod faults;
mod kubeconfig;
mod line;
/// Accepts connections, applies faults, records requests.
pub mod serve;

pub use kubeconfig::{Login, Pem, kubeconfig};

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);

/// A certificate authority; clones share it.
#[derive(Clone, Debug)]
pub struct Pki {
    issuer: Arc<CertifiedIssuer<'static, KeyPair>>,
}

/// A certificate and its private key, both PEM.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The certificate.
    pub cert_pem: String,
    /// The PKCS#8 key.
    pub key_pem: String,
}

impl Credential {
    /// Certificate and key in one file, as a kubelet keeps them.
    pub fn combined_pem(&self) -> String {
        format!("{}{}", self.cert_pem, self.key_pem)
    }

    /// The certificate's serial number, in hexadecimal.
    pub fn serial(&self) -> String {
        let chain = self.chain();
        let (_, cert) = x509_parser::parse_x509_certificate(&chain[0]).expect("our own parses");
        cert.raw_serial_as_string()
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.cert_pem.as_bytes())
            .map(|cert| cert.expect("our own PEM parses"))
            .collect()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).expect("our own PEM parses")
    }
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}

impl Pki {
    /// A fresh CA.
    pub fn new() -> Self {
        Self::named("trident-lab-ca")
    }

    /// A fresh CA of this name.
    pub fn named(common_name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key can be generated");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a CA can be self-signed");
        Self { issuer: Arc::new(issuer) }
    }

    /// The CA certificate, PEM.
    pub fn ca_pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server certificate for DNS names and IP addresses, valid for a year.
    pub fn server_cert(&self, names: &[&str]) -> Credential {
        self.server_cert_expiring(names, SystemTime::now() + YEAR)
    }

    /// A server certificate that ends at `not_after`, which may be in the past.
    pub fn server_cert_expiring(&self, names: &[&str], not_after: SystemTime) -> Credential {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let common_name = names.first().cloned().unwrap_or_else(|| "server".to_owned());
        let mut params = CertificateParams::new(names).expect("valid subject names");
        params.distinguished_name.push(DnType::CommonName, common_name);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth, not_after)
    }

    /// A client certificate, e.g. for `system:node:node-1` in `system:nodes`, valid for a year.
    pub fn client_cert(&self, cn: &str, org: &str) -> Credential {
        self.client_cert_expiring(cn, org, SystemTime::now() + YEAR)
    }

    /// A client certificate that ends at `not_after`, which may be in the past.
    pub fn client_cert_expiring(&self, cn: &str, org: &str, not_after: SystemTime) -> Credential {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, org);
        params.distinguished_name.push(DnType::CommonName, cn);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth, not_after)
    }

    /// The client certificate of the kubelet of `node`.
    pub fn kubelet_cert(&self, node: &str) -> Credential {
        self.client_cert(&format!("system:node:{node}"), "system:nodes")
    }

    /// Trusts this CA alone.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("our own CA is a trust anchor");
        roots
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
        not_after: SystemTime,
    ) -> Credential {
        let epoch = date_time_ymd(1970, 1, 1);
        let since_epoch = |t: SystemTime| t.duration_since(UNIX_EPOCH).expect("after 1970");
        params.not_before = epoch + since_epoch(SystemTime::now().min(not_after) - HOUR);
        params.not_after = epoch + since_epoch(not_after);
        params.use_authority_key_identifier_extension = true;
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key can be generated");
        let cert = params.signed_by(&key, &**self.issuer).expect("the CA can sign");
        Credential { cert_pem: cert.pem(), key_pem: key.serialize_pem() }
    }
}
