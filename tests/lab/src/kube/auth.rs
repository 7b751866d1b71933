//! Who a client is, and what the node authorizer and NodeRestriction let it do.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use hyper::http::request::Parts;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

use crate::tls::Pki;
use crate::tls::serve::Subject;

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Such as `system:node:node-1`.
    pub name: String,
    /// Such as `system:nodes`.
    pub groups: Vec<String>,
}

impl User {
    /// The kubelet of a Node.
    pub fn node(name: &str) -> Self {
        Self { name: format!("system:node:{name}"), groups: vec!["system:nodes".to_owned()] }
    }

    /// A user who may do everything.
    pub fn admin(name: &str) -> Self {
        Self { name: name.to_owned(), groups: vec!["system:masters".to_owned()] }
    }

    fn anonymous() -> Self {
        let groups = vec!["system:unauthenticated".to_owned()];
        Self { name: "system:anonymous".to_owned(), groups }
    }

    /// The Node whose kubelet this is.
    pub(super) fn own_node(&self) -> Option<&str> {
        let node = self.name.strip_prefix("system:node:")?;
        self.groups.iter().any(|group| group == "system:nodes").then_some(node)
    }

    pub(super) fn is_admin(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }
}

/// Certificates and tokens that count.
#[derive(Debug)]
pub(super) struct Gate {
    verifier: Arc<dyn ClientCertVerifier>,
    strict: Arc<dyn ClientCertVerifier>,
    tokens: Mutex<HashMap<String, User>>,
    /// Serial numbers of certificates that count no more.
    revoked: Mutex<HashSet<String>>,
}

impl Gate {
    pub(super) fn new(pki: &Pki) -> Self {
        let provider: Arc<CryptoProvider> = rustls::crypto::ring::default_provider().into();
        let roots = Arc::new(pki.roots());
        let build = || WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let enough = "one trust anchor is enough";
        let verifier = build().allow_unauthenticated().build().expect(enough);
        let strict = build().build().expect(enough);
        Self { verifier, strict, tokens: Mutex::default(), revoked: Mutex::default() }
    }

    /// For the handshake: takes nobody without a certificate that counts.
    pub(super) fn demand(&self) -> Arc<dyn ClientCertVerifier> {
        self.strict.clone()
    }

    /// For the handshake: asks for a certificate and takes any.
    pub(super) fn handshake(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(TakesAny(self.verifier.clone()))
    }

    pub(super) fn set_token(&self, token: &str, user: Option<User>) {
        let mut tokens = self.tokens.lock().expect("no panic under lock");
        match user {
            Some(user) => tokens.insert(token.to_owned(), user),
            None => tokens.remove(token),
        };
    }

    pub(super) fn revoke(&self, serial: String) {
        self.revoked.lock().expect("no panic under lock").insert(serial);
    }

    /// The user of a request; who shows nothing is somebody, too. A certificate is judged now, not
    /// when the connection was made.
    pub(super) fn user(&self, head: &Parts, certs: &[CertificateDer<'static>]) -> Option<User> {
        let anonymous = certs.is_empty() && !head.headers.contains_key("authorization");
        let known = self.by_certificate(certs).or_else(|| self.by_token(head));
        known.or_else(|| anonymous.then(User::anonymous))
    }

    fn by_certificate(&self, certs: &[CertificateDer<'static>]) -> Option<User> {
        let (leaf, rest) = certs.split_first()?;
        self.verifier.verify_client_cert(leaf, rest, UnixTime::now()).ok()?;
        let (_, parsed) = x509_parser::parse_x509_certificate(leaf).ok()?;
        let serial = parsed.raw_serial_as_string();
        if self.revoked.lock().expect("no panic under lock").contains(&serial) {
            return None;
        }
        let subject = Subject::of(leaf)?;
        Some(User { name: subject.common_name, groups: subject.organizations })
    }

    fn by_token(&self, head: &Parts) -> Option<User> {
        let value = head.headers.get("authorization")?.to_str().ok()?;
        let token = value.strip_prefix("Bearer ")?.trim();
        self.tokens.lock().expect("no panic under lock").get(token).cloned()
    }
}

/// The real server answers a bad client certificate with 401, not with a failed handshake.
#[derive(Debug)]
struct TakesAny(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for TakesAny {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
