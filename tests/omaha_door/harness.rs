//! A scripted TLS server and a process of its own for each test.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use trident_acl_agent::omaha::{
    App, Arch, Check, CheckAnswer, Client, CookieJar, Error, HashSource, MachineId, Server,
    Settings,
};

use trident_lab::own_process::CA;
pub(crate) use trident_lab::own_process::PORT;

/// Long enough for a busy machine; no test waits for it unless it fails.
pub(crate) const AMPLE: Duration = Duration::from_secs(60);
/// Waited out by the tests of deadlines.
pub(crate) const SHORT: Duration = Duration::from_millis(500);

/// Makes a body a test: see [`trident_lab::own_process`].
macro_rules! lab_test {
    ($name:ident, $body:expr) => {
        lab_test!($name, [], $body);
    };
    ($name:ident, $variables:expr, $body:expr) => {
        trident_lab::own_process!($name, $variables, async |directory| {
            crate::harness::run($body, directory).await;
        });
    };
}

pub(crate) async fn run(body: impl AsyncFnOnce(Lab), directory: PathBuf) {
    body(Lab::new(directory)).await;
}

/// What the server does with one request.
pub(crate) enum Say {
    /// Sends these bytes and closes in good order.
    Bytes(Vec<u8>),
    /// Sends these bytes and breaks off.
    BreakOff(Vec<u8>),
    /// Sends these bytes and says no more.
    Hang(Vec<u8>),
    /// Sends body bytes for ever.
    Endless,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn cookie(&self) -> Option<&str> {
        self.header("cookie")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A test's directory, certificate and server.
pub(crate) struct Lab {
    pub(crate) directory: PathBuf,
    pub(crate) certificate: String,
    key: String,
    script: Arc<Mutex<VecDeque<Say>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Lab {
    fn new(directory: PathBuf) -> Lab {
        let names = ["localhost", "::1"].map(str::to_owned).to_vec();
        let pair = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let certificate = pair.cert.pem();
        let lab = Lab {
            directory,
            certificate,
            key: pair.signing_key.serialize_pem(),
            script: Arc::default(),
            seen: Arc::default(),
        };
        lab.trust(&lab.certificate);
        lab
    }

    pub(crate) fn trust(&self, bundle: &str) {
        write(&self.directory.join(CA), bundle.as_bytes());
    }

    pub(crate) fn say(&self, says: impl IntoIterator<Item = Say>) -> &Lab {
        locked(&self.script).extend(says);
        self
    }

    /// Starts the server and returns our app at it.
    pub(crate) async fn app(&self) -> App {
        let address = self.serve().await;
        self.app_at(address)
    }

    pub(crate) fn app_at(&self, address: SocketAddr) -> App {
        let host = if address.is_ipv6() { "[::1]" } else { "localhost" };
        let server = format!("https://u:SECRET@{host}:{}/SECRET?q=SECRET", address.port());
        let server = Server::parse(&server).expect("https");
        App { server, app_id: "ours".into(), track: "stable".into() }
    }

    pub(crate) async fn serve(&self) -> SocketAddr {
        self.serve_at("127.0.0.1:0").await
    }

    pub(crate) async fn serve_at(&self, address: &str) -> SocketAddr {
        install_provider();
        let acceptor = self.acceptor();
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (script, seen) = (self.script.clone(), self.seen.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a client");
                // A client that does not trust us leaves.
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let (script, seen) = (script.clone(), seen.clone());
                tokio::spawn(answer(stream, script, seen));
            }
        });
        address
    }

    fn acceptor(&self) -> TlsAcceptor {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.expect("a certificate")], key)
            .expect("a usable certificate");
        TlsAcceptor::from(Arc::new(config))
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        assert!(locked(&self.script).is_empty(), "the client should have asked again");
        locked(&self.seen).clone()
    }

    pub(crate) fn jar_path(&self) -> PathBuf {
        self.directory.join("cookie")
    }

    pub(crate) fn settings(&self) -> Settings {
        install_provider();
        Settings {
            machine_id: MachineId::derive(&[1; 16]),
            arch: Arch::Amd64,
            updater: "trident-acl-agent-0.1.0".into(),
            hash_source: HashSource::Labels,
            deadline: AMPLE,
            cookies: None,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.settings()).expect("a client")
    }

    pub(crate) fn client_with_cookies(&self) -> Client {
        let cookies = Some(CookieJar::new(self.jar_path()));
        Client::new(Settings { cookies, ..self.settings() }).expect("a client")
    }
}

pub(crate) fn write(path: &Path, content: &[u8]) {
    File::create(path).expect("a file").write_all(content).expect("written");
}

pub(crate) fn install_provider() {
    // Only the first of a process counts.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

async fn answer(
    mut stream: tokio_rustls::server::TlsStream<TcpStream>,
    script: Arc<Mutex<VecDeque<Say>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    locked(&seen).push(request);
    let say = locked(&script).pop_front();
    // The client may leave at any time.
    let _ = match say.expect("no script for this request") {
        Say::Bytes(bytes) => match stream.write_all(&bytes).await {
            Ok(()) => stream.shutdown().await,
            Err(error) => Err(error),
        },
        Say::BreakOff(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            return;
        }
        Say::Hang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            std::future::pending().await
        }
        Say::Endless => {
            let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<response>";
            let mut result = stream.write_all(head).await;
            while result.is_ok() {
                result = stream.write_all(&[b' '; 4096]).await;
            }
            result
        }
    };
}

pub(crate) async fn read_request(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().filter_map(|line| line.strip_prefix("content-length: ")).next();
            let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
            if body.len() >= length {
                return Some(Seen { head: head.into(), body: body.into() });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

pub(crate) fn http(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Say {
    let (body, length) = (body.as_ref(), body.as_ref().len());
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    Say::Bytes([head.as_bytes(), body].concat())
}

pub(crate) fn ok(body: &str) -> Say {
    http("200 OK", "", body)
}

pub(crate) fn reply(status: &str, content: &str) -> String {
    format!(
        r#"<?xml version="1.0"?><response protocol="3.0"><app appid="theirs" status="error-x"/>
           <app appid="OURS" status="{status}">{content}</app></response>"#
    )
}

pub(crate) fn offer() -> String {
    let hash = "ab".repeat(48);
    reply(
        "ok",
        &format!(
            r#"<updatecheck status="ok"><urls><url codebase="https://h/p?sig=SECRET"/></urls>
               <manifest version="2.0.0"><labels><label name="cosi.metadata.sha384" value="{hash}"/></labels>
               <packages><package name="i.cosi?sig=SECRET" size="1" required="true"/></packages></manifest>
               </updatecheck>"#
        ),
    )
}

pub(crate) fn no_update() -> String {
    reply("ok", r#"<updatecheck status="noupdate"/>"#)
}

pub(crate) fn redirect(status: &str, location: &str) -> Say {
    http(status, &format!("location: {location}\r\n"), "")
}

/// The whole text of an error, which must hold no secret.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(" <- {error} {error:?}"));
        source = error.source();
    }
    assert!(!text.contains("SECRET"), "{text}");
    text
}

pub(crate) async fn check(lab: &Lab) -> Result<CheckAnswer, Error> {
    let app = lab.app().await;
    let answer = lab.client().check(&app, "1.0.0", Check::First).await;
    if let Err(error) = &answer {
        told(error);
    }
    answer
}
