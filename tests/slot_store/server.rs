//! An HTTPS server of plain threads: it serves bytes, with ranges or without, breaks off, and notes what was asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What stands at a path.
#[derive(Clone, Default)]
pub(crate) struct Resource {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ranges: bool,
    /// Its length is not told.
    pub(crate) chunked: bool,
    /// The connection ends after so many bytes of a body.
    pub(crate) cut: Option<usize>,
    /// Instead of 200.
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    /// No answer is given while somebody holds it.
    pub(crate) gate: Option<Arc<Mutex<()>>>,
    /// What a request must bring along, or it gets these headers and status 401.
    pub(crate) needs: Option<(String, Vec<(String, String)>)>,
}

impl Resource {
    pub(crate) fn of(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }

    pub(crate) fn with_ranges(bytes: impl Into<Vec<u8>>) -> Self {
        Self { ranges: true, ..Self::of(bytes) }
    }

    pub(crate) fn moved(to: &str) -> Self {
        Self { status: Some(302), ..Self::default() }.header("location", to)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A request as it came, and how many bytes of a body it got.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) sent: usize,
}

#[derive(Default)]
struct Shared {
    resources: Mutex<HashMap<String, Resource>>,
    asked: Mutex<Vec<Asked>>,
}

#[derive(Clone)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    pub(crate) port: u16,
}

/// Where the test that starts it writes the certificate.
pub(crate) const CA: &str = "ca.pem";

impl Server {
    pub(crate) fn start(directory: &Path) -> Result<Self> {
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        std::fs::write(directory.join(CA), pair.cert.pem())?;
        let key = PrivateKeyDer::Pkcs8(pair.signing_key.serialize_der().into());
        drop(rustls::crypto::ring::default_provider().install_default());
        let tls = ServerConfig::builder().with_no_client_auth();
        let tls = Arc::new(tls.with_single_cert(vec![pair.cert.der().clone()], key)?);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let server = Self { shared: Arc::default(), port };
        let shared = Arc::clone(&server.shared);
        std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let (tls, shared) = (Arc::clone(&tls), Arc::clone(&shared));
                // A connection that a client ends is no failure of the server.
                std::thread::spawn(move || drop(serve(tcp, tls, &shared)));
            }
        });
        Ok(server)
    }

    pub(crate) fn put(&self, path: &str, resource: Resource) {
        self.shared.resources.lock().unwrap().insert(path.to_owned(), resource);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// Waits until somebody asked for something.
    pub(crate) fn wait_asked(&self) {
        let limit = Instant::now() + Duration::from_secs(60);
        while self.shared.asked.lock().unwrap().is_empty() {
            assert!(Instant::now() < limit, "nobody asks");
            std::thread::yield_now();
        }
    }

    /// Since it was asked last.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.asked.lock().unwrap())
    }
}

fn serve(tcp: TcpStream, tls: Arc<ServerConfig>, shared: &Shared) -> Result<()> {
    tcp.set_nodelay(true)?;
    let stream = StreamOwned::new(ServerConnection::new(tls)?, tcp);
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).context("no path")?.to_owned();
        let known = path.split('?').next().unwrap_or_default();
        let found = shared.resources.lock().unwrap().get(known).cloned();
        let missing = Resource { status: Some(404), ..Resource::default() };
        let resource = found.unwrap_or(missing);
        let (answer, body, cut) = answer(&resource, &head);
        shared.asked.lock().unwrap().push(Asked { path, head, sent: body.len() });
        drop(resource.gate.as_ref().map(|gate| gate.lock()));
        let out = stream.get_mut();
        out.write_all(answer.as_bytes())?;
        out.write_all(&body)?;
        out.flush()?;
        if cut {
            out.conn.send_close_notify();
            out.flush()?;
            return Ok(());
        }
    }
}

/// The head, the body, and whether the connection ends here.
fn answer(resource: &Resource, head: &str) -> (String, Vec<u8>, bool) {
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let lines = |headers: &[(String, String)]| -> String {
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    };
    if let Some((needed, challenge)) = &resource.needs
        && header("authorization") != Some(needed)
    {
        let challenge = lines(challenge);
        return (
            format!("HTTP/1.1 401 No\r\n{challenge}content-length: 0\r\n\r\n"),
            Vec::new(),
            false,
        );
    }
    let whole = resource.bytes.len();
    let range = header("range").filter(|_| resource.ranges && resource.status.is_none());
    let range = range.and_then(|it| it.strip_prefix("bytes=")?.split_once('-'));
    let range = range.and_then(|(from, last)| Some((from.parse().ok()?, last.parse().ok()?)));
    let mut said = lines(&resource.headers);
    let (status, mut body) = match range {
        Some((from, last)) if from < whole => {
            let last: usize = whole.saturating_sub(1).min(last);
            said.push_str(&format!("content-range: bytes {from}-{last}/{whole}\r\n"));
            (206, resource.bytes[from..=last].to_vec())
        }
        Some(_) => (416, Vec::new()),
        None => (resource.status.unwrap_or(200), resource.bytes.clone()),
    };
    let cut = resource.cut.filter(|cut| *cut < body.len());
    let length = body.len();
    body.truncate(cut.unwrap_or(length));
    if resource.chunked {
        said.push_str("transfer-encoding: chunked\r\n");
        let mut chunks = format!("{:x}\r\n", body.len()).into_bytes();
        chunks.extend_from_slice(&body);
        chunks.extend_from_slice(if cut.is_some() { b"" } else { b"\r\n0\r\n\r\n" });
        body = chunks;
    } else {
        said.push_str(&format!("content-length: {length}\r\n"));
    }
    (format!("HTTP/1.1 {status} Said\r\n{said}\r\n"), body, cut.is_some())
}
