//! What is kept of each request.

use std::time::Instant;

use bytes::Bytes;
use hyper::http::request::Parts;
use rustls::pki_types::CertificateDer;

use crate::tls::faults::Verb;

/// One request as it arrived, and what became of it.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// When its body was complete.
    pub at: Instant,
    /// What it asks for.
    pub verb: Verb,
    /// HTTP method.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Raw query, empty where there is none.
    pub query: String,
    /// `Accept`.
    pub accept: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// `Cookie`.
    pub cookie: Option<String>,
    /// Subject CN of the client certificate, verified or not.
    pub client_cn: Option<String>,
    /// Serial number of the client certificate, in hexadecimal.
    pub client_serial: Option<String>,
    /// The request's body.
    pub body: Bytes,
    /// HTTP status, `None` while there is no answer.
    pub status: Option<u16>,
    /// Bytes of the answer's body so far.
    pub bytes: u64,
    /// The answer is complete, or the client went away.
    pub ended: bool,
}

impl RequestRecord {
    pub(super) fn new(
        verb: Verb,
        head: &Parts,
        body: &Bytes,
        certs: &[CertificateDer<'static>],
    ) -> Self {
        let header = |name| head.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        Self {
            at: Instant::now(),
            verb,
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            accept: header("accept"),
            content_type: header("content-type"),
            user_agent: header("user-agent"),
            cookie: header("cookie"),
            client_cn: certs.first().and_then(Subject::of).map(|s| s.common_name),
            client_serial: certs.first().and_then(|cert| {
                let (_, cert) = x509_parser::parse_x509_certificate(cert).ok()?;
                Some(cert.raw_serial_as_string())
            }),
            body: body.clone(),
            status: None,
            bytes: 0,
            ended: false,
        }
    }
}

/// Who a certificate is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
}

impl Subject {
    pub(crate) fn of(cert: &CertificateDer<'_>) -> Option<Self> {
        let (_, cert) = x509_parser::parse_x509_certificate(cert).ok()?;
        let subject = cert.subject();
        let common_name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let organizations = subject.iter_organization().filter_map(|o| o.as_str().ok());
        let organizations = organizations.map(str::to_owned).collect();
        Some(Self { common_name, organizations })
    }
}
