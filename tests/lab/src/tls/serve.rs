//! Accepts connections, speaks TLS and HTTP/1.1 or HTTP/2, applies faults, records requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Credential;
use super::faults::{Fault, Plan, Rule, Verb};
use super::line::{Line, Switch};

mod body;
mod record;

pub(crate) use body::{Body, Cut, broken_off, full};
pub use record::RequestRecord;
pub(crate) use record::Subject;

use body::{Counted, cut_after, padded};

/// As large as the largest body that a Kubernetes API server takes.
const MAX_REQUEST: usize = 3 * 1024 * 1024;

/// A request on its way to the service.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    pub(crate) certs: Arc<Vec<CertificateDer<'static>>>,
    /// Index of its record.
    pub(crate) record: usize,
    /// A fault that only the service itself can play.
    pub(crate) fault: Option<Fault>,
}

/// The stand-in behind the front.
pub(crate) trait Service: Send + Sync + 'static {
    /// Classifies a request.
    fn verb(&self, head: &Parts) -> Verb;
    /// Notes a request, before any fault.
    fn arrived(&self, call: &Call);
    /// Answers a request.
    fn respond(&self, call: &Call) -> Response<Body>;
    /// An answer for a fault.
    fn failure(&self, status: StatusCode, retry_after: Option<Duration>) -> Response<Body>;
    /// Notes the HTTP status that a request got.
    fn answered(&self, record: usize, status: StatusCode);
}

/// How many connections there have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Taken.
    pub accepted: u64,
    /// Reset at once by a fault.
    pub refused: u64,
}

/// A listener in service; it stays so when this is dropped.
#[derive(Debug)]
pub struct Listening {
    /// Where it listens.
    pub addr: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Listening {
    /// Closes the listening socket; established connections stay.
    pub fn close(self) {
        self.task.abort();
    }
}

/// A TLS front for one service; clones share it.
#[derive(Clone)]
pub(crate) struct Front(Arc<Shared>);

struct Shared {
    service: Arc<dyn Service>,
    tls: Mutex<Arc<ServerConfig>>,
    plan: Plan,
    switches: Mutex<Vec<Weak<Switch>>>,
    records: Mutex<Vec<RequestRecord>>,
    bell: watch::Sender<u64>,
    accepted: AtomicU64,
    refused: AtomicU64,
}

impl Front {
    pub(crate) fn new(service: Arc<dyn Service>, tls: ServerConfig) -> Self {
        Self(Arc::new(Shared {
            service,
            tls: Mutex::new(Arc::new(tls)),
            plan: Plan::default(),
            switches: Mutex::default(),
            records: Mutex::default(),
            bell: watch::Sender::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Serves on a bound listener, in the current tokio runtime.
    pub(crate) fn serve(&self, listener: std::net::TcpListener) -> Result<Listening> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        let shared = self.0.clone();
        let task = tokio::spawn(async move {
            loop {
                if let Ok((tcp, _)) = listener.accept().await {
                    // As the servers that this stands for do it.
                    let _ = tcp.set_nodelay(true);
                    shared.clone().admit(tcp);
                }
            }
        });
        Ok(Listening { addr, task })
    }

    /// Replaces the TLS settings for new connections.
    pub(crate) fn set_tls(&self, tls: ServerConfig) {
        *self.0.tls.lock().expect("no panic under lock") = Arc::new(tls);
    }

    pub(crate) fn inject(&self, rule: Rule) {
        if rule.is_of_connection() {
            self.0.each_switch(|switch| match rule.fault {
                Fault::Refuse => switch.reset(),
                _ => switch.mute(),
            });
        }
        self.0.plan.add(rule);
    }

    pub(crate) fn clear_faults(&self) {
        self.0.plan.clear();
    }

    /// Resets every established connection once; new ones are served.
    pub(crate) fn reset_connections(&self) {
        self.0.each_switch(Switch::reset);
    }

    pub(crate) fn records(&self) -> Vec<RequestRecord> {
        self.0.records.lock().expect("no panic under lock").clone()
    }

    pub(crate) fn connections(&self) -> Connections {
        Connections {
            accepted: self.0.accepted.load(Ordering::SeqCst),
            refused: self.0.refused.load(Ordering::SeqCst),
        }
    }

    /// Waits until `done` holds for the records.
    pub(crate) async fn wait_for(
        &self,
        timeout: Duration,
        done: impl Fn(&[RequestRecord]) -> bool,
    ) -> Result<Vec<RequestRecord>> {
        self.wait_until(timeout, || Some(self.records()).filter(|records| done(records))).await
    }

    /// Waits until `look` finds something; it looks whenever a request arrives, is answered or ends.
    pub(crate) async fn wait_until<T>(
        &self,
        timeout: Duration,
        look: impl Fn() -> Option<T>,
    ) -> Result<T> {
        let mut bell = self.0.bell.subscribe();
        let found = async {
            loop {
                bell.borrow_and_update();
                if let Some(found) = look() {
                    return found;
                }
                // Cannot fail: `self` keeps the sender.
                let _ = bell.changed().await;
            }
        };
        tokio::time::timeout(timeout, found).await.map_err(|_elapsed| {
            let last = self.records().last().map(|r| format!("{} {}", r.method, r.path));
            anyhow!("nothing of that kind within {timeout:?}; the last request was {last:?}")
        })
    }
}

impl Shared {
    fn each_switch(&self, act: impl Fn(&Switch)) {
        let mut switches = self.switches.lock().expect("no panic under lock");
        switches.retain(|switch| switch.upgrade().is_some());
        switches.iter().filter_map(Weak::upgrade).for_each(|switch| act(&switch));
    }

    /// Takes a new connection, or not.
    fn admit(self: Arc<Self>, tcp: TcpStream) {
        let switch = Arc::new(Switch::default());
        match self.plan.at_accept() {
            Some(Fault::Refuse) => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                switch.reset();
                drop(Line::new(tcp, switch));
                return;
            }
            Some(_) => switch.mute(),
            None => {}
        }
        self.accepted.fetch_add(1, Ordering::SeqCst);
        self.switches.lock().expect("no panic under lock").push(Arc::downgrade(&switch));
        tokio::spawn(async move {
            let line = Line::new(tcp, switch.clone());
            // Either arm drops the connection, which is all that is left to do with it.
            tokio::select! {
                _ = self.clone().converse(line, switch.clone()) => {}
                () = switch.on_reset() => {}
            }
        });
    }

    async fn converse(self: Arc<Self>, line: Line, switch: Arc<Switch>) -> Result<()> {
        let tls = self.tls.lock().expect("no panic under lock").clone();
        let stream = TlsAcceptor::from(tls).accept(line).await?;
        let certs = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certs: Vec<_> = certs.iter().map(|cert| cert.clone().into_owned()).collect();
        let certs = Arc::new(certs);
        let service = hyper::service::service_fn(move |request| {
            let (shared, switch, certs) = (self.clone(), switch.clone(), certs.clone());
            async move { shared.exchange(request, &switch, certs).await }
        });
        auto::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await
            .map_err(|error| anyhow!(error))
    }

    async fn exchange(
        self: Arc<Self>,
        request: Request<Incoming>,
        switch: &Switch,
        certs: Arc<Vec<CertificateDer<'static>>>,
    ) -> Result<Response<Body>> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, MAX_REQUEST).collect().await;
        let body = body.map_err(|error| anyhow!(error))?.to_bytes();
        let verb = self.service.verb(&head);
        let record = self.keep(RequestRecord::new(verb, &head, &body, &certs));
        let mut call = Call { head, body, certs, record, fault: None };
        self.service.arrived(&call);
        self.ring();
        let response = match self.plan.at_request(verb) {
            None => self.service.respond(&call),
            Some(fault) => self.play(fault, &mut call, switch).await,
        };
        self.service.answered(record, response.status());
        self.with_record(record, |entry| entry.status = Some(response.status().as_u16()));
        Ok(response.map(|body| Counted::boxed(body, self.clone(), record)))
    }

    async fn play(&self, fault: Fault, call: &mut Call, switch: &Switch) -> Response<Body> {
        match fault {
            Fault::Refuse => switch.reset(),
            Fault::DropSilently => switch.mute(),
            Fault::Hang => {}
            Fault::Status(code) => return self.service.failure(status(code), None),
            Fault::TooManyRequests { retry_after } => {
                return self.service.failure(StatusCode::TOO_MANY_REQUESTS, Some(retry_after));
            }
            Fault::Redirect { status, location } => {
                let headers = vec![("location".to_owned(), location)];
                return reply(status, headers, Bytes::new());
            }
            Fault::Reply { status, headers, body } => return reply(status, headers, body),
            Fault::Truncate(n) => {
                return self.service.respond(call).map(|body| cut_after(body, n, Cut::Break));
            }
            Fault::Stall(n) => {
                return self.service.respond(call).map(|body| cut_after(body, n, Cut::Stall));
            }
            Fault::Huge(n) => return padded(self.service.respond(call), n),
            Fault::Gone | Fault::GoneInStream => {
                call.fault = Some(fault);
                return self.service.respond(call);
            }
        }
        // The connection's task ends this, by a reset or when the client gives up.
        std::future::pending().await
    }

    /// Keeps a record and gives its index.
    fn keep(&self, record: RequestRecord) -> usize {
        let mut records = self.records.lock().expect("no panic under lock");
        records.push(record);
        records.len() - 1
    }

    fn with_record(&self, index: usize, change: impl FnOnce(&mut RequestRecord)) {
        change(&mut self.records.lock().expect("no panic under lock")[index]);
        self.ring();
    }

    fn ring(&self) {
        self.bell.send_modify(|n| *n += 1);
    }
}

/// TLS settings with both HTTP versions on offer.
pub(crate) fn server_config(
    credential: &Credential,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(credential.chain(), credential.key())
        .context("server certificate")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn reply(code: u16, headers: Vec<(String, String)>, body: Bytes) -> Response<Body> {
    let mut response = Response::builder().status(status(code));
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(full(body)).expect("the test's headers are valid")
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("the test's status is valid")
}
