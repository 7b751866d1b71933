use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tempfile::TempDir;
use trident_lab::nebraska::{Cookies, Fault, Nebraska, Verb};
use trident_lab::tls::Pki;

use crate::program::{command, one_line, run, validate};

const APP: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
const TRACK: &str = "stable";
const HOUR: Duration = Duration::from_secs(3600);

/// A Nebraska with one application, and the settings with which it can be asked.
struct Server {
    directory: TempDir,
    pki: Pki,
    nebraska: Nebraska,
    port: u16,
    settings: Vec<(&'static str, String)>,
}

impl Server {
    fn new() -> Self {
        Self::with_names(&["localhost", "127.0.0.1", "::1"], "127.0.0.1:0")
    }

    fn with_names(names: &[&str], address: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let pki = Pki::new();
        fs::write(directory.path().join("ca.pem"), pki.ca_pem()).unwrap();
        let nebraska = Nebraska::with_names(&pki, names);
        nebraska.add_group(APP, TRACK);
        let listening = nebraska.serve(TcpListener::bind(address).unwrap()).unwrap();
        let port = listening.addr.port();
        let server = Self { directory, pki, nebraska, port, settings: vec![] };
        let host = if listening.addr.is_ipv6() { "[::1]" } else { "localhost" };
        let ca = server.path("ca.pem").display().to_string();
        server
            .set("NEBRASKA_ENDPOINT", &format!("https://u:SECRET@{host}:{port}/v1/update?q=SECRET"))
            .set("NEBRASKA_APP_ID", APP)
            .set("NEBRASKA_TRACK", TRACK)
            .set("ORCHESTRATION_COOKIE_PATH", "/nowhere/cookie")
            .set("SSL_CERT_FILE", &ca)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn set(mut self, name: &'static str, value: &str) -> Self {
        self.settings.retain(|(known, _)| *known != name);
        self.settings.push((name, value.to_owned()));
        self
    }

    fn settings(&self) -> Vec<(&str, &str)> {
        self.settings.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    async fn probe(&self) -> (Option<i32>, String) {
        validate("nebraska", &self.settings()).await
    }

    /// Fails with exit status 1, and says all this.
    async fn fails(&self, what: &str, words: &[&str]) {
        let (code, line) = self.probe().await;
        assert_eq!(code, Some(1), "{what}: {line}");
        for word in words.iter().chain(&["Nebraska cannot be used; "]) {
            assert!(line.contains(word), "{what}: {word:?} is not in {line:?}");
        }
        assert!(self.nebraska.instances().is_empty(), "{what}");
    }
}

const TRACKS: &str = "check TRIDENT_ACL_AGENT_NEBRASKA_APP_ID and TRIDENT_ACL_AGENT_NEBRASKA_TRACK";
const HOST: &str = "check the host in TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT";
const PATH: &str = "check the path in TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_the_app_is_good_and_learns_nothing() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = Server::with_names(&["localhost", "::1"], address);
        let (code, line) = server.probe().await;
        assert_eq!(code, Some(0), "{line}");
        assert!(line.starts_with("nebraska: https://") && line.contains("knows the app"), "{line}");
        let requests = server.nebraska.requests();
        assert!(requests.len() == 1 && requests[0].app().unwrap().is_bare(), "{requests:?}");
        assert_eq!(requests[0].app().unwrap().track(), TRACK);
        assert!(server.nebraska.instances().is_empty());
        assert!(server.nebraska.dropped_events().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_are_logged_without_their_secrets() {
    let server = Server::new();
    let ended = run(&mut command(&["--validate-connection", "nebraska"], &server.settings())).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let port = server.port;
    let endpoint = format!("NEBRASKA_ENDPOINT=https://localhost:{port} ");
    assert!(ended.stderr.contains("effective settings") && ended.stderr.contains(&endpoint));
    assert!(!ended.stderr.contains("SECRET"), "{ended:?}");
    assert!(ended.stderr.lines().last().unwrap().starts_with("nebraska: "), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_or_track_that_is_not_known_is_named() {
    for (name, value) in [
        ("NEBRASKA_APP_ID", "00000000-0000-0000-0000-000000000000"),
        ("NEBRASKA_TRACK", "unspecified"),
        ("NEBRASKA_TRACK", ""),
    ] {
        let server = Server::new().set(name, value);
        server.fails(value, &[TRACKS, "error-unknownApplicationOrGroup"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_named() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = |it: &str| Server::new().set("NEBRASKA_ENDPOINT", it);
    let refused = format!("https://u:SECRET@localhost:{nobody}/SECRET");
    endpoint(&refused).fails("refused", &[HOST, "https://localhost:", "refused"]).await;
    // What the settings say where nobody set them.
    endpoint("").fails("no such host", &[HOST, "nebraska.example.invalid", "lookup"]).await;
    let reset = Server::new();
    reset.nebraska.inject(Fault::Refuse);
    reset.fails("reset", &[HOST]).await;
    let away = format!("http://u:SECRET@127.0.0.1:{nobody}");
    Server::new().set("HTTPS_PROXY", &away).fails("a proxy that is away", &["HTTPS_PROXY"]).await;
}

/// One accepts and says nothing, one stops before an answer, one within it: all at once, for each takes the whole
/// deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://localhost:{}/v1/update", silent.local_addr().unwrap().port());
    let mute = Server::new().set("NEBRASKA_ENDPOINT", &endpoint);
    let (hanging, stalling) = (Server::new(), Server::new());
    hanging.nebraska.inject(Fault::Hang.on(Verb::Omaha));
    stalling.nebraska.inject(Fault::Stall(10).on(Verb::Omaha));
    let words = [HOST, "no complete answer within 15s"];
    tokio::join!(
        mute.fails("accepts only", &words),
        hanging.fails("hangs", &words),
        stalling.fails("stalls", &words)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_cannot_be_read_is_named() {
    let server = Server::new().set("CURRENT_VERSION_PATH", "/nowhere/release");
    let server = server.set("CURRENT_VERSION_FALLBACK", "error");
    server.fails("version", &["check", "CURRENT_VERSION_PATH", "/nowhere/release"]).await;
    assert!(server.nebraska.http_requests().is_empty(), "it was asked from no version");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_trusted_is_named() {
    let other = Server::new();
    fs::write(other.path("ca.pem"), Pki::new().ca_pem()).unwrap();
    other.fails("another CA", &[HOST, "the CA certificates", "invalid peer certificate"]).await;
    let named = Server::with_names(&["updates.example"], "127.0.0.1:0");
    named.fails("another name", &["certificate", "not valid for name", "updates.example"]).await;
    let past = Server::new();
    let expired = past.pki.server_cert_expiring(&["localhost"], SystemTime::now() - HOUR);
    past.nebraska.set_server_cert(&expired).unwrap();
    past.fails("expired", &["certificate", "expired"]).await;
    let none = Server::new().set("SSL_CERT_FILE", "/nowhere/ca.pem");
    none.fails("no CA", &["install CA certificates", "SSL_CERT_FILE"]).await;
    for server in [&other, &named, &past, &none] {
        assert!(server.nebraska.http_requests().is_empty(), "nothing was told to a stranger");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_http_is_named() {
    let server = Server::new();
    for (status, words) in [
        (401, "does not let this machine in"),
        (403, "does not let this machine in"),
        (407, "does not let this machine in"),
        (404, PATH),
        (405, PATH),
        (204, PATH),
        (429, "try again later"),
        (500, "it is in trouble"),
        (502, "it is in trouble"),
        (503, "it is in trouble"),
    ] {
        server.nebraska.inject(Fault::Status(status).on(Verb::Omaha).times(1));
        server.fails(words, &[words, &format!("HTTP status {status}")]).await;
    }
    for (status, location, why) in [
        (302, "https://localhost/SECRET", "does not keep the method"),
        (307, "http://localhost/SECRET", "does not lead to https"),
    ] {
        let location = location.to_owned();
        server.nebraska.inject(Fault::Redirect { status, location }.on(Verb::Omaha).times(1));
        server.fails(why, &["where the server really is", why]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_none_of_an_update_server_is_named() {
    let server = Server::new();
    let page = "<!DOCTYPE html><html><body>Sign in, SECRET</body></html>";
    for (what, body) in [
        ("nothing", ""),
        ("a prologue", "<?xml version=\"1.0\"?>"),
        ("a sign-in page", page),
        ("JSON", "{\"SECRET\": 1}"),
        ("other XML", "<feed/>"),
        ("no app", "<response/>"),
        ("another app", "<response><app appid=\"SECRET\" status=\"ok\"/></response>"),
    ] {
        let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
        let fault = Fault::Reply { status: 200, headers, body: Bytes::from(body) };
        server.nebraska.inject(fault.on(Verb::Omaha).times(1));
        server.fails(what, &["something else answers", "sign-in page"]).await;
    }
    server.nebraska.inject(Fault::Huge(2 << 20).on(Verb::Omaha).times(1));
    server.fails("a flood", &["something else answers", "longer than"]).await;
    server.nebraska.inject(Fault::Truncate(20).on(Verb::Omaha).times(1));
    server.fails("half of it", &[HOST]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_cookie_is_sent_and_stays_as_it_is() {
    for (enabled, content, sent) in [
        ("true", Some("kept=SECRET\n"), Some("kept=SECRET")),
        ("TRUE", Some("kept=SECRET\nhttps://elsewhere.example\n"), None),
        ("true", None, None),
        ("false", Some("kept=SECRET\n"), None),
    ] {
        let server = Server::new().set("ORCHESTRATION_COOKIE_ENABLED", enabled);
        let file = server.path("cookie");
        let server = server.set("ORCHESTRATION_COOKIE_PATH", &file.display().to_string());
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        server.nebraska.set_cookies(Cookies::Always);
        let (code, line) = server.probe().await;
        assert_eq!(code, Some(0), "{line}");
        assert_eq!(server.nebraska.requests()[0].cookie.as_deref(), sent, "{enabled} {content:?}");
        assert_eq!(
            fs::read_to_string(&file).ok().as_deref(),
            content,
            "neither cleared nor replaced"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_with_the_cookie_does_not_fail_the_probe() {
    let server = Server::new().set("ORCHESTRATION_COOKIE_ENABLED", "true");
    let directory = server.path("directory");
    fs::create_dir(&directory).unwrap();
    let server = server.set("ORCHESTRATION_COOKIE_PATH", &directory.display().to_string());
    let (code, line) = server.probe().await;
    assert_eq!(code, Some(0), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_none_starts_nothing() {
    for endpoint in ["http://localhost/SECRET", "SECRET", "https://", "ftp://u:SECRET@h/"] {
        let server = Server::new().set("NEBRASKA_ENDPOINT", endpoint);
        let arguments = ["--validate-connection", "nebraska", "--log-level", "error"];
        let (code, line) = one_line(run(&mut command(&arguments, &server.settings())).await);
        assert!(matches!(code, Some(1 | 78)), "{endpoint}: {line}");
        assert!(line.contains("TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT"), "{endpoint}: {line}");
    }
}
