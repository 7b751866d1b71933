//! The order of the system calls: what a step depends on is written, flushed, put in place, and its directory
//! flushed, before the step. Page caches survive the power cuts of the lab, so this is what stands for them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]

#[path = "program/mod.rs"]
mod program;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use trident_acl_agent::contract::{self, Utc};
use trident_acl_agent::state::{InFlight, PendingCommit, State, Store};
use trident_lab::lab::{APP, NEW, OLD, Request, TRACK};
use trident_lab::nebraska::{Nebraska, PackageSpec};
use trident_lab::tls::Pki;
use trident_lab::trident::Tridentd;
use uuid::Uuid;

const MACHINE: &str = "0123456789abcdef0123456789abcdef";
const IMAGES: &str = "https://images.lab.test/";
/// Shows the program a machine id and nothing else that is not the host's.
const ENTER: &str = r#"mount --bind "$1" /etc/machine-id && shift && exec "$@""#;
const CALLS: &str = "trace=openat,creat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,connect";

/// A host's files, and its two neighbours.
struct Host {
    directory: TempDir,
    trident: Tridentd,
    _nebraska: Nebraska,
    port: u16,
    server: String,
}

impl Host {
    fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let pki = Pki::new();
        fs::create_dir(path("state")).unwrap();
        fs::write(path("ca.pem"), pki.ca_pem()).unwrap();
        fs::write(path("machine-id"), MACHINE).unwrap();
        fs::write(path("os-release"), format!("VERSION_ID={OLD}\n")).unwrap();
        let nebraska = Nebraska::new(&pki);
        let package = PackageSpec::new(NEW, IMAGES, "new.cosi").with_sha384(&"ab".repeat(48));
        nebraska.add_package(APP, TRACK, package);
        let listening = nebraska.serve(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let port = listening.addr.port();
        let server = format!("https://127.0.0.1:{port}/v1/update");
        let trident = Tridentd::start_new(directory.path(), &path("trident.sock"), OLD).unwrap();
        trident.add_image(&format!("{IMAGES}new.cosi"), NEW);
        Self { directory, trident, _nebraska: nebraska, port, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        Store::new(&self.path("state/state.json"), MACHINE).update(change).unwrap();
    }

    /// The system calls of the real program, in order.
    async fn trace(&self, arguments: &[&str]) -> Vec<String> {
        let text = |name: &str| self.path(name).display().to_string();
        let socket = format!("unix://{}", text("trident.sock"));
        let (state, cookie, release) =
            (text("state/state.json"), text("state/cookie"), text("os-release"));
        let ca = text("ca.pem");
        let agent = program::command(
            arguments,
            &[
                ("TRIDENT_SOCKET", &socket),
                ("ORCHESTRATION_STATE_PATH", &state),
                ("ORCHESTRATION_COOKIE_PATH", &cookie),
                ("CURRENT_VERSION_PATH", &release),
                ("SSL_CERT_FILE", &ca),
            ],
        );
        let agent = agent.as_std();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", ENTER, "enter", &text("machine-id")]);
        command.args(["strace", "-f", "-y", "-s", "256", "-e", CALLS, "-o", &text("trace")]);
        command.arg(agent.get_program()).args(agent.get_args()).env_clear();
        command.envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let ended = program::run(&mut command).await;
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        fs::read_to_string(self.path("trace")).unwrap().lines().map(str::to_owned).collect()
    }

    /// What it did, one word for each: `state` for a record that is safe, and the neighbours by name.
    async fn story(&self, arguments: &[&str]) -> Vec<String> {
        let trace = self.trace(arguments).await;
        story(&trace, &self.path("state/state.json"), self.port)
            .unwrap_or_else(|wrong| panic!("{arguments:?}: {wrong}\n{}", trace.join("\n")))
    }
}

/// How far the record under way has come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Record {
    Safe,
    Written,
    Flushed,
    InPlace,
}

/// Wrong, where a neighbour is spoken to, or the program ends, with a record under way.
fn story(trace: &[String], state: &Path, nebraska: u16) -> Result<Vec<String>, String> {
    let (new, place) = (format!("{}.new", state.display()), state.display().to_string());
    let directory = state.parent().unwrap().display().to_string();
    let (mut story, mut record) = (Vec::new(), Record::Safe);
    for line in trace.iter().filter(|line| is_done(line)) {
        let call = line.split_whitespace().nth(1).unwrap_or_default();
        let name = call.split('(').next().unwrap_or_default();
        let of = |path: &str| line.contains(&format!("<{path}>"));
        let is_path = |path: &str| line.contains(&format!("\"{path}\""));
        record = match (name, record) {
            ("write" | "pwrite64", Record::Safe | Record::Written) if of(&new) => Record::Written,
            ("fsync" | "fdatasync", Record::Written) if of(&new) => Record::Flushed,
            ("rename" | "renameat" | "renameat2", Record::Flushed)
                if is_path(&new) && is_path(&place) =>
            {
                Record::InPlace
            }
            ("fsync", Record::InPlace) if of(&directory) => {
                story.push("state".to_owned());
                Record::Safe
            }
            _ if of(&new) && name != "openat" => {
                return Err(format!("{record:?}, and then {line}"));
            }
            ("rename" | "renameat" | "renameat2" | "unlink" | "unlinkat", _) if is_path(&place) => {
                return Err(format!("{record:?}, and then {line}"));
            }
            ("write" | "pwrite64" | "creat", _) if of(&place) => {
                return Err(format!("written in place: {line}"));
            }
            ("connect", _) => {
                let neighbour = neighbour(line, nebraska);
                if neighbour.is_some() && record != Record::Safe {
                    return Err(format!("{record:?}, and then {line}"));
                }
                story.extend(neighbour.map(str::to_owned));
                record
            }
            _ => record,
        };
    }
    if record == Record::Safe { Ok(story) } else { Err(format!("{record:?} at the end")) }
}

/// A connection over the network is still under way when the call returns.
fn is_done(line: &str) -> bool {
    !line.contains("<unfinished") && (!line.contains("= -1") || line.contains("EINPROGRESS"))
}

/// A resolver connects to other ports.
fn neighbour(connect: &str, nebraska: u16) -> Option<&'static str> {
    let nebraska = connect.contains(&format!("htons({nebraska})"));
    connect.contains("trident.sock").then_some("tridentd").or(nebraska.then_some("nebraska"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_safe_before_what_depends_on_it() {
    let host = Host::new();
    let update = Uuid::new_v4();
    let stage = Request::stage(update).with("server", json!(host.server));
    let finalize = Request::finalize(update).with("server", json!(host.server));
    let rollback = Request::rollback(update);
    let in_flight = |request: &Request, from: &str| {
        let request = contract::Request::parse(&request.text()).unwrap();
        InFlight::new(request, from.to_owned(), Utc::now())
    };
    let accept = |request: &Request, from: &str| {
        host.update(|state| {
            state.operation = Some(in_flight(request, from));
            state.pending_commit = None;
        });
    };

    accept(&stage, OLD);
    let said = host.story(&["operate", "stage", stage.operation_id()]).await;
    // The event goes out beside the download, so the middle is in any order.
    assert_eq!(said[..2], ["nebraska", "state"], "the offer is recorded: {said:?}");
    assert_eq!(said.last().unwrap(), "state", "the outcome: {said:?}");
    let mut middle = said[2..said.len() - 1].to_vec();
    middle.sort();
    assert_eq!(middle, ["nebraska", "state", "tridentd"], "{said:?}");
    let said = host.story(&["report"]).await;
    assert_eq!(said, ["nebraska", "state"], "forgotten when it is taken");

    accept(&finalize, OLD);
    let said = host.story(&["operate", "finalize", finalize.operation_id()]).await;
    assert_eq!(said, ["state", "tridentd", "state"], "arming, the call, the outcome");
    committed(&host, in_flight(&finalize, OLD), NEW).await;

    accept(&rollback, NEW);
    let said = host.story(&["operate", "rollback", rollback.operation_id()]).await;
    assert_eq!(said, ["tridentd", "state", "tridentd", "state"], "arming before the second call");
    committed(&host, in_flight(&rollback, NEW), OLD).await;
}

/// The boot after it, as the firmware and the commit unit see it.
async fn committed(host: &Host, operation: InFlight, version: &str) {
    host.trident.firmware_boot();
    fs::write(host.path("os-release"), format!("VERSION_ID={version}\n")).unwrap();
    let boot = Uuid::new_v4().to_string();
    host.update(|state| state.pending_commit = Some(PendingCommit::new(&operation, boot, 0)));
    let said = host.story(&["commit"]).await;
    assert_eq!(said, ["state", "tridentd", "state"], "begun, the call, the outcome");
}

#[test]
fn a_wrong_order_is_seen() {
    let state = Path::new("/d/state.json");
    let lines = |calls: &[&str]| calls.iter().map(|call| format!("7 {call}")).collect::<Vec<_>>();
    let (write, flush) =
        ("write(9</d/state.json.new>, \"x\", 1) = 1", "fsync(9</d/state.json.new>) = 0");
    let rename = "rename(\"/d/state.json.new\", \"/d/state.json\") = 0";
    let (directory, call) =
        ("fsync(9</d>) = 0", "connect(9, {sun_path=\"/d/trident.sock\"}, 1) = 0");
    let good = story(&lines(&[write, write, flush, rename, directory, call]), state, 1);
    assert_eq!(good.unwrap(), ["state", "tridentd"]);
    for wrong in [
        &[write, rename, directory][..],
        &[write, flush, write, rename, directory],
        &[write, flush, rename, call, directory],
        &[write, flush, rename],
        &[write, call, flush, rename, directory],
        &["write(9</d/state.json>, \"x\", 1) = 1"],
        &["unlink(\"/d/state.json\") = 0"],
        &["rename(\"/d/other\", \"/d/state.json\") = 0"],
    ] {
        assert!(story(&lines(wrong), state, 1).is_err(), "{wrong:?}");
    }
}
