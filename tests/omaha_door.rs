//! The door to Nebraska, against a scripted TLS server.
//!
//! Trust and proxies come from the environment, which a test must not change under its neighbours:
//! each test runs again in a process of its own, with `SSL_CERT_FILE` naming its server's certificate.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use trident_acl_agent::omaha::{
    App, Arch, Check, CheckAnswer, Client, CookieJar, Error, Event, HashSource, MachineId,
    PreviousVersion, RedirectRefused, ReportError, Retry, Server, Settings, XmlError,
};

/// Names the directory of a test's own process.
const CHILD: &str = "OMAHA_DOOR_TEST_DIRECTORY";
/// Names a port that was free when the test began.
const PORT: &str = "OMAHA_DOOR_TEST_PORT";
/// Long enough for a busy machine; no test waits for it unless it fails.
const AMPLE: Duration = Duration::from_secs(60);
/// Waited out by the tests of deadlines.
const SHORT: Duration = Duration::from_millis(500);

/// Runs `body` in a process of its own, with these variables set.
fn in_own_process<F: Future<Output = ()>>(
    test: &str,
    variables: &[(&str, &str)],
    body: impl FnOnce(Lab) -> F,
) {
    if let Some(directory) = std::env::var_os(CHILD) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime
            .expect("a runtime")
            .block_on(async { body(Lab::new(directory.into())).await });
    }
    let directory = TempDir::new().expect("a directory");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture"]).env(CHILD, directory.path());
    for proxy in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"] {
        command.env_remove(proxy);
    }
    command.env_remove("SSL_CERT_DIR").env("SSL_CERT_FILE", directory.path().join("ca.pem"));
    let port = free_port();
    command.env(PORT, &port);
    for (name, value) in variables {
        let value = value.replace("DIRECTORY", &directory.path().display().to_string());
        let value = value.replace("PORT", &port);
        command.env(name, value);
    }
    let output = command.output().expect("the test runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port().to_string()
}

/// What the server does with one request.
enum Say {
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
struct Seen {
    head: String,
    body: String,
}

impl Seen {
    fn cookie(&self) -> Option<&str> {
        let lines = self.head.lines();
        lines.filter_map(|line| line.strip_prefix("cookie: ")).next()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A test's directory, certificate and server.
struct Lab {
    directory: PathBuf,
    certificate: String,
    key: String,
    script: Arc<Mutex<VecDeque<Say>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Lab {
    fn new(directory: PathBuf) -> Lab {
        let names = vec!["localhost".to_owned()];
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

    fn trust(&self, bundle: &str) {
        write(&self.directory.join("ca.pem"), bundle.as_bytes());
    }

    fn say(&self, says: impl IntoIterator<Item = Say>) -> &Lab {
        locked(&self.script).extend(says);
        self
    }

    /// Starts the server and returns our app at it.
    async fn app(&self) -> App {
        let address = self.serve().await;
        self.app_at(address)
    }

    fn app_at(&self, address: SocketAddr) -> App {
        let server = format!("https://u:SECRET@localhost:{}/SECRET?q=SECRET", address.port());
        let server = Server::parse(&server).expect("https");
        App { server, app_id: "ours".into(), track: "stable".into() }
    }

    async fn serve(&self) -> SocketAddr {
        install_provider();
        let acceptor = self.acceptor();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
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

    fn seen(&self) -> Vec<Seen> {
        assert!(locked(&self.script).is_empty(), "the client should have asked again");
        locked(&self.seen).clone()
    }

    fn jar_path(&self) -> PathBuf {
        self.directory.join("cookie")
    }

    fn settings(&self) -> Settings {
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

    fn client(&self) -> Client {
        Client::new(self.settings()).expect("a client")
    }

    fn client_with_cookies(&self) -> Client {
        let cookies = Some(CookieJar::new(self.jar_path()));
        Client::new(Settings { cookies, ..self.settings() }).expect("a client")
    }
}

fn write(path: &Path, content: &[u8]) {
    File::create(path).expect("a file").write_all(content).expect("written");
}

fn install_provider() {
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

async fn read_request(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<Seen> {
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

fn http(status: &str, headers: &str, body: &str) -> Say {
    let length = body.len();
    Say::Bytes(
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
            .into_bytes(),
    )
}

fn ok(body: &str) -> Say {
    http("200 OK", "", body)
}

fn reply(status: &str, content: &str) -> String {
    format!(
        r#"<?xml version="1.0"?><response protocol="3.0"><app appid="theirs" status="error-x"/>
           <app appid="OURS" status="{status}">{content}</app></response>"#
    )
}

fn offer() -> String {
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

fn no_update() -> String {
    reply("ok", r#"<updatecheck status="noupdate"/>"#)
}

fn redirect(status: &str, location: &str) -> Say {
    http(status, &format!("location: {location}\r\n"), "")
}

/// The whole text of an error, which must hold no secret.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(" <- {error} {error:?}"));
        source = error.source();
    }
    assert!(!text.contains("SECRET"), "{text}");
    text
}

async fn check(lab: &Lab) -> Result<CheckAnswer, Error> {
    let app = lab.app().await;
    let answer = lab.client().check(&app, "1.0.0", Check::First).await;
    if let Err(error) = &answer {
        told(error);
    }
    answer
}

#[test]
fn an_offer_is_taken_from_the_answer_for_our_app() {
    in_own_process("an_offer_is_taken_from_the_answer_for_our_app", &[], async |lab| {
        let answer = check(lab.say([ok(&offer())])).await.expect("an answer");
        assert!(!format!("{answer:?}").contains("SECRET"), "{answer:?}");
        let CheckAnswer::Offer(offer) = answer else { panic!("{answer:?}") };
        assert_eq!(offer.version, "2.0.0");
        assert_eq!(offer.url.as_str(), "https://h/p/i.cosi?sig=SECRET");
        assert_eq!(offer.sha384, "ab".repeat(48));
        let seen = lab.seen();
        assert!(seen[0].head.starts_with("POST /SECRET?q=SECRET HTTP/1.1"), "{seen:?}");
        assert!(seen[0].head.contains("content-type: text/xml"), "{seen:?}");
        assert!(!seen[0].head.contains("accept-encoding"), "{seen:?}");
        assert_eq!(seen[0].cookie(), None);
        assert!(seen[0].body.contains("<updatecheck/>") && !seen[0].body.contains("<ping"));
        assert!(seen[0].body.contains(r#"track="stable""#) && !seen[0].body.contains("<event"));
        assert!(!lab.jar_path().exists());
    });
}

#[test]
fn broken_certificates_in_a_bundle_do_not_spoil_the_good_ones() {
    in_own_process(
        "broken_certificates_in_a_bundle_do_not_spoil_the_good_ones",
        &[],
        async |lab| {
            let section = |body: &str| {
                format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
            };
            let broken = [section("!!!!"), section("aGVsbG8="), section("")].concat();
            let broken = format!("{broken}-----BEGIN CERTIFICATE-----\naGVsbG8=\n");
            lab.trust(&format!("garbage\n{broken}{}{broken}", lab.certificate));
            let answer = check(lab.say([ok(&no_update())])).await;
            assert_eq!(answer.expect("an answer"), CheckAnswer::NoUpdate);
        },
    );
}

#[test]
fn a_certificate_directory_is_honoured() {
    let variables =
        [("SSL_CERT_FILE", "DIRECTORY/missing.pem"), ("SSL_CERT_DIR", "DIRECTORY/more")];
    in_own_process("a_certificate_directory_is_honoured", &variables, async |lab| {
        let directory = lab.directory.join("more");
        fs::create_dir(&directory).expect("a directory");
        write(&directory.join("broken.pem"), b"garbage");
        write(&directory.join("ours.pem"), lab.certificate.as_bytes());
        let answer = check(lab.say([ok(&no_update())])).await;
        assert_eq!(answer.expect("an answer"), CheckAnswer::NoUpdate);
    });
}

#[test]
fn an_untrusted_server_is_not_asked() {
    in_own_process("an_untrusted_server_is_not_asked", &[], async |lab| {
        let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        lab.trust(&other.expect("a certificate").cert.pem());
        let error = check(&lab).await.expect_err("not trusted");
        assert!(matches!(error, Error::Http { .. }), "{error:?}");
        assert!(told(&error).contains("certificate"), "{}", told(&error));
        assert_eq!(error.retry(), Retry::Later { after: None });
        assert!(lab.seen().is_empty());
    });
}

#[test]
fn without_any_certificate_there_is_no_client() {
    let variables = [("SSL_CERT_FILE", "DIRECTORY/missing.pem")];
    in_own_process("without_any_certificate_there_is_no_client", &variables, async |lab| {
        let error = Client::new(lab.settings()).expect_err("no trust");
        assert!(matches!(error, Error::NoTrust), "{error:?}");
    });
}

#[test]
fn without_cryptography_there_is_no_client() {
    in_own_process("without_cryptography_there_is_no_client", &[], async |_lab| {
        let settings = Settings {
            machine_id: MachineId::derive(&[1; 16]),
            arch: Arch::Amd64,
            updater: "agent".into(),
            hash_source: HashSource::Labels,
            deadline: AMPLE,
            cookies: None,
        };
        assert!(matches!(Client::new(settings), Err(Error::NoTls)));
    });
}

#[test]
fn a_redirect_that_keeps_the_method_is_followed() {
    in_own_process("a_redirect_that_keeps_the_method_is_followed", &[], async |lab| {
        lab.say([
            redirect("307 Temporary Redirect", "/next"),
            redirect("308 Permanent Redirect", "/last"),
        ]);
        let answer = check(lab.say([ok(&no_update())])).await;
        assert_eq!(answer.expect("an answer"), CheckAnswer::NoUpdate);
        let seen = lab.seen();
        assert!(seen[2].head.starts_with("POST /last "), "{seen:?}");
        assert!(!seen[0].body.is_empty() && seen.iter().all(|one| one.body == seen[0].body));
        assert!(seen.iter().all(|one| !one.head.contains("referer")), "{seen:?}");
    });
}

#[test]
fn other_redirects_are_refused() {
    in_own_process("other_redirects_are_refused", &[], async |lab| {
        for (say, expected) in [
            (redirect("301 Moved", "/SECRET"), RedirectRefused::MethodLost(301)),
            (redirect("302 Found", "https://h/SECRET"), RedirectRefused::MethodLost(302)),
            (redirect("303 See Other", "/SECRET"), RedirectRefused::MethodLost(303)),
            (redirect("307 Temporary Redirect", "http://h/SECRET"), RedirectRefused::NotHttps),
            (redirect("307 Temporary Redirect", "ftp://h/SECRET"), RedirectRefused::NotHttps),
        ] {
            let error = check(lab.say([say])).await.expect_err("refused");
            assert!(
                matches!(error, Error::Redirect { source, .. } if source == expected),
                "{error:?}"
            );
        }
        let error = check(lab.say((0..6).map(|_| redirect("307 Again", "/SECRET")))).await;
        let error = error.expect_err("refused");
        let too_many = matches!(error, Error::Redirect { source: RedirectRefused::TooMany, .. });
        assert!(too_many, "{error:?}");
        let error = check(lab.say([http("307 Nowhere", "", "")])).await.expect_err("refused");
        assert!(matches!(error, Error::Status { status: 307, .. }), "{error:?}");
    });
}

#[test]
fn any_other_status_is_an_error_that_keeps_retry_after() {
    in_own_process("any_other_status_is_an_error_that_keeps_retry_after", &[], async |lab| {
        let later = |seconds| Retry::Later { after: Some(Duration::from_secs(seconds)) };
        for (status, headers, retry) in [
            ("503 Later", "retry-after: 30\r\n", later(30)),
            ("429 Slow down", "retry-after: 999999\r\n", later(3600)),
            ("500 Oops", "", Retry::Later { after: None }),
            ("404 Not Found", "", Retry::Never),
            ("204 No Content", "", Retry::Never),
            ("201 Created", "", Retry::Never),
        ] {
            let say =
                http(status, headers, if status.starts_with("204") { "" } else { "<response/>" });
            let error = check(lab.say([say])).await.expect_err(status);
            assert!(matches!(error, Error::Status { .. }), "{error:?}");
            assert_eq!(error.retry(), retry, "{status}");
        }
    });
}

#[test]
fn an_answer_that_is_none_is_named() {
    in_own_process("an_answer_that_is_none_is_named", &[], async |lab| {
        for (body, expected) in [
            ("", XmlError::Empty),
            ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", XmlError::Empty),
            ("<!DOCTYPE html><html>Sign in, SECRET</html>", XmlError::Entity),
            ("<html><body>Sign in</body></html>", XmlError::NotAResponse),
            ("<response><app appid='ours' status='ok'>", XmlError::Incomplete),
            ("\u{1f}\u{8b}compressed", XmlError::NotAResponse),
        ] {
            let error = check(lab.say([ok(body)])).await.expect_err(body);
            let Error::Malformed { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*source, expected, "{body}");
            assert_eq!(error.retry(), Retry::Later { after: None });
        }
        let error = check(lab.say([ok("<response/>")])).await.expect_err("no app");
        assert!(matches!(error, Error::AppMissing { .. }), "{error:?}");
        let broken = offer().replace(&"ab".repeat(48), "SECRET");
        let error = check(lab.say([ok(&broken)])).await.expect_err("a bad offer");
        assert!(matches!(error, Error::Offer { .. }), "{error:?}");
        assert_eq!(error.retry(), Retry::Never);
    });
}

#[test]
fn a_body_is_bounded_and_whole() {
    in_own_process("a_body_is_bounded_and_whole", &[], async |lab| {
        let error = check(lab.say([Say::Endless])).await.expect_err("endless");
        assert!(matches!(error, Error::AnswerTooLarge { .. }), "{error:?}");
        let whole = no_update();
        let short = format!("HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{whole}").into_bytes();
        let error = check(lab.say([Say::Bytes(short)])).await.expect_err("truncated");
        assert!(matches!(error, Error::Http { .. }), "{error:?}");
        let open = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{whole}").into_bytes();
        let error = check(lab.say([Say::BreakOff(open.clone())])).await.expect_err("broken off");
        assert!(matches!(error, Error::Http { .. }), "{error:?}");
        let answer = check(lab.say([Say::Bytes(open)])).await.expect("closed in good order");
        assert_eq!(answer, CheckAnswer::NoUpdate);
    });
}

#[test]
fn one_deadline_holds_for_the_whole_exchange() {
    in_own_process("one_deadline_holds_for_the_whole_exchange", &[], async |lab| {
        let app = lab.app().await;
        let settings = Settings { deadline: SHORT, ..lab.settings() };
        let client = Client::new(settings).expect("a client");
        for begun in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\n<response>"] {
            lab.say([Say::Hang(begun.into())]);
            let error = client.check(&app, "1", Check::Again).await.expect_err("no end");
            told(&error);
            assert!(matches!(error, Error::TimedOut { after: SHORT, .. }), "{error:?}");
        }
    });
}

#[test]
fn an_event_counts_as_delivered_only_when_the_app_status_is_ok() {
    in_own_process(
        "an_event_counts_as_delivered_only_when_the_app_status_is_ok",
        &[],
        async |lab| {
            let (app, client) = (lab.app().await, lab.client());
            let previous_version =
                PreviousVersion::try_from("0.9.0".to_owned()).expect("a version");
            let complete = Event::Complete { previous_version };
            let event = r#"<event status="ok"/>"#;
            lab.say([
                ok(&reply("ok", event)),
                ok(&reply("error-unknownApplicationOrGroup", event)),
                ok("<?xml version=\"1.0\"?>"),
            ]);
            client.report(&app, "1.0.0", &complete).await.expect("delivered");
            let error = client.report(&app, "1.0.0", &Event::Failed).await.expect_err("not taken");
            told(&error);
            assert!(
                matches!(&error, ReportError::NotTaken { status, .. } if status.contains("unknownApp"))
            );
            assert_eq!(error.retry(), Retry::Later { after: None });
            let error = client.report(&app, "1.0.0", &Event::Failed).await.expect_err("no answer");
            assert!(matches!(error, ReportError::Request(Error::Malformed { .. })), "{error:?}");
            let seen = lab.seen();
            let pair = r#"<event eventtype="3" eventresult="2" previousversion="0.9.0"/>"#;
            assert!(seen[0].body.contains(pair), "{seen:?}");
            assert!(seen[0].body.contains(r#"<ping active="1"/><updatecheck/>"#), "{seen:?}");
            assert!(!seen[1].body.contains("<ping") && !seen[1].body.contains("<updatecheck"));
        },
    );
}

#[test]
fn a_probe_is_a_bare_app() {
    in_own_process("a_probe_is_a_bare_app", &[], async |lab| {
        let (app, client) = (lab.app().await, lab.client_with_cookies());
        write(&lab.jar_path(), b"kept=1\n");
        lab.say([
            http("200 OK", "set-cookie: new=2\r\n", &reply("ok", "")),
            ok(&reply("error-x", "")),
        ]);
        client.probe(&app, "1.0.0").await.expect("known");
        let error = client.probe(&app, "1.0.0").await.expect_err("not known");
        assert!(
            matches!(&error, Error::AppRefused { status, .. } if status == "error-x"),
            "{error:?}"
        );
        let seen = lab.seen();
        for child in ["<event", "<ping", "<updatecheck"] {
            assert!(!seen[0].body.contains(child), "{seen:?}");
        }
        assert_eq!(seen[0].cookie(), Some("kept=1"));
        assert_eq!(fs::read(lab.jar_path()).expect("the jar"), b"kept=1\n");
    });
}

#[test]
fn the_first_checks_cookie_is_the_updates_cookie() {
    in_own_process("the_first_checks_cookie_is_the_updates_cookie", &[], async |lab| {
        let (app, client) = (lab.app().await, lab.client_with_cookies());
        write(&lab.jar_path(), b"old=0\n");
        let set = |value: &str, body: &str| {
            http(
                "200 OK",
                &format!("set-cookie: a={value}; Path=/; Secure\r\nset-cookie: b=2\r\n"),
                body,
            )
        };
        lab.say([set("1", &offer()), set("9", &reply("ok", "")), set("8", &no_update())]);
        client.check(&app, "1", Check::First).await.expect("an answer");
        client.report(&app, "1", &Event::DownloadStarted).await.expect("delivered");
        client.check(&app, "1", Check::Again).await.expect("an answer");
        // A later process, after the reboot.
        let client = lab.client_with_cookies();
        lab.say([ok(&reply("ok", "")), ok(&no_update()), ok(&reply("ok", ""))]);
        client.report(&app, "1", &Event::Installed).await.expect("delivered");
        client.check(&app, "1", Check::First).await.expect("an answer");
        client.report(&app, "1", &Event::Failed).await.expect("delivered");
        let seen = lab.seen();
        let cookies: Vec<Option<&str>> = seen.iter().map(Seen::cookie).collect();
        let kept = Some("a=1; b=2");
        assert_eq!(cookies, [None, kept, kept, kept, None, None]);
    });
}

#[test]
fn a_cookie_is_kept_from_any_whole_answer_but_from_no_failure() {
    in_own_process(
        "a_cookie_is_kept_from_any_whole_answer_but_from_no_failure",
        &[],
        async |lab| {
            let (app, client) = (lab.app().await, lab.client_with_cookies());
            let set = "set-cookie: a=1\r\n";
            let cut = format!("HTTP/1.1 200 OK\r\n{set}content-length: 9999\r\n\r\n<response>");
            for (say, kept) in [
                (http("200 OK", set, "not XML"), true),
                (http("500 Oops", set, ""), false),
                (Say::BreakOff(cut.into_bytes()), false),
                (http("200 OK", "", "not XML"), false),
            ] {
                lab.say([say]);
                client.check(&app, "1", Check::First).await.expect_err("no answer");
                assert_eq!(lab.jar_path().exists(), kept);
            }
        },
    );
}

#[test]
fn without_cookies_a_stored_one_is_left_alone() {
    in_own_process("without_cookies_a_stored_one_is_left_alone", &[], async |lab| {
        write(&lab.jar_path(), b"old=0\n");
        check(lab.say([http("200 OK", "set-cookie: a=1\r\n", &no_update())]))
            .await
            .expect("an answer");
        assert_eq!(lab.seen()[0].cookie(), None);
        assert_eq!(fs::read(lab.jar_path()).expect("the jar"), b"old=0\n");
    });
}

/// A proxy that notes where it was asked to connect to, on the port that the environment names.
async fn proxy() -> Arc<Mutex<Vec<String>>> {
    let port = std::env::var(PORT).expect("a port");
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("the proxy's port");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.expect("a client");
            let request = read_request(&mut client).await.expect("a CONNECT");
            let target = request.head.split(' ').nth(1).expect("a target").to_owned();
            let mut server = TcpStream::connect(target.replace("localhost", "127.0.0.1"))
                .await
                .expect("the server");
            locked(&notes).push(request.head);
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("sent");
            tokio::spawn(async move {
                // Either side may leave.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    asked
}

#[test]
fn a_proxy_from_the_environment_is_used() {
    let variables = [("HTTPS_PROXY", "http://u:SECRET@127.0.0.1:PORT")];
    in_own_process("a_proxy_from_the_environment_is_used", &variables, async |lab| {
        let asked = proxy().await;
        check(lab.say([ok(&no_update())])).await.expect("an answer");
        assert!(locked(&asked)[0].starts_with("CONNECT localhost:"), "{asked:?}");
        assert_eq!(lab.seen().len(), 1);
    });
}

#[test]
fn no_proxy_from_the_environment_is_honoured() {
    let variables = [("HTTPS_PROXY", "http://127.0.0.1:PORT"), ("NO_PROXY", "localhost")];
    in_own_process("no_proxy_from_the_environment_is_honoured", &variables, async |lab| {
        check(lab.say([ok(&no_update())])).await.expect("an answer, straight");
    });
}

#[test]
fn a_proxy_that_is_away_tells_no_secret() {
    let variables = [("HTTPS_PROXY", "http://u:SECRET@127.0.0.1:PORT")];
    in_own_process("a_proxy_that_is_away_tells_no_secret", &variables, async |lab| {
        let error = check(&lab).await.expect_err("no proxy");
        assert!(matches!(error, Error::Http { .. }), "{error:?}");
    });
}
