//! A node's files, and its two neighbours.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use trident_acl_agent::config::Config;
use trident_acl_agent::contract::{self, Code, Operation, Status, Utc};
use trident_acl_agent::host::Host;
use trident_acl_agent::omaha::MachineId;
use trident_acl_agent::operate::{self, Ended, OperateError, Setup};
use trident_acl_agent::state::{InFlight, State, Store};
use trident_lab::disk::SmallDisk;
use trident_lab::lab::{APP, NEW, OLD, Request, SOON, TRACK};
use trident_lab::nebraska::{Nebraska, OmahaRequest, PackageSpec};
use trident_lab::own_process::CA;
use trident_lab::tls::Pki;
use trident_lab::trident::Tridentd;
use uuid::Uuid;

/// As the file has it.
const MACHINE: &str = "0123456789abcdef0123456789abcdef";
/// The hash that the label holds, hex.
pub(crate) const SHA384: &str = "abababababababababababababababababababababababababababababababababababababababababababababababab";
/// Where images are, for Nebraska.
const IMAGES: &str = "https://images.lab.test/acl?sig=SECRET";
/// Where the image is, for tridentd, which fetches nothing.
const IMAGE: &str = "https://images.lab.test/acl/new.cosi?sig=SECRET";

/// Makes a body a test: see [`trident_lab::own_process`].
macro_rules! bench_test {
    ($name:ident, $body:expr) => {
        trident_lab::own_process!($name, [], async |directory| {
            crate::bench::run($body, directory).await;
        });
    };
}

pub(crate) async fn run(body: impl AsyncFnOnce(Bench), directory: PathBuf) {
    body(Bench::new(directory)).await;
}

/// A node between its neighbours. Settings may be changed between two operations.
pub(crate) struct Bench {
    pub(crate) directory: PathBuf,
    pub(crate) nebraska: Nebraska,
    pub(crate) trident: Tridentd,
    /// Of every request.
    pub(crate) server: String,
    pki: Pki,
    settings: BTreeMap<String, String>,
}

impl Bench {
    fn new(directory: PathBuf) -> Self {
        // Only the first of a process counts.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let pki = Pki::new();
        fs::write(directory.join(CA), pki.ca_pem()).unwrap();
        let (nebraska, server) = nebraska(&pki);
        let socket = directory.join("trident.sock");
        fs::create_dir(directory.join("tridentd")).unwrap();
        let trident = Tridentd::start_new(&directory.join("tridentd"), &socket, OLD).unwrap();
        let mut bench =
            Self { directory, nebraska, trident, server, pki, settings: BTreeMap::new() };
        bench.nebraska.add_package(APP, TRACK, package());
        bench.trident.add_image(IMAGE, NEW);
        bench.set("TRIDENT_SOCKET", &format!("unix://{}", socket.display()));
        bench.set("ORCHESTRATION_STATE_PATH", &bench.path("state.json"));
        bench.set("ORCHESTRATION_COOKIE_PATH", &bench.path("cookie"));
        bench.install("etc/machine-id", MACHINE);
        bench.install("proc/sys/kernel/random/boot_id", "boot-1");
        bench.install("etc/os-release", &format!("VERSION_ID={OLD}\n"));
        bench
    }

    /// Keeps the state on a small disk of its own from now on.
    pub(crate) fn small_disk(&mut self) -> SmallDisk {
        let disk = SmallDisk::mount(&self.directory.join("disk")).unwrap();
        self.set("ORCHESTRATION_STATE_PATH", &self.path("disk/state.json"));
        disk
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(crate) fn install(&self, path: &str, text: &str) {
        let path = self.directory.join("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A setting, by its name after the prefix.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.settings.insert(format!("TRIDENT_ACL_AGENT_{name}"), value.to_owned());
    }

    fn config(&self) -> Config {
        let settings = self.settings.iter().map(|(name, value)| (name.into(), value.into()));
        Config::load(settings).unwrap().config
    }

    fn setup(&self) -> Setup {
        Setup { config: self.config(), host: Host::new(self.directory.join("root")) }
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(&self.config().state_path, MACHINE)
    }

    pub(crate) fn state(&self) -> State {
        self.store().read().unwrap()
    }

    /// This machine, as Nebraska knows it.
    pub(crate) fn machine() -> String {
        MachineId::from_file_text(MACHINE).unwrap().as_str().to_owned()
    }

    /// A request of this kind at the bench's Nebraska.
    pub(crate) fn request(&self, operation: Operation) -> Request {
        self.request_of(Uuid::new_v4(), operation)
    }

    pub(crate) fn request_of(&self, update: Uuid, operation: Operation) -> Request {
        match operation {
            Operation::Stage => Request::stage(update).with("server", json!(self.server)),
            Operation::Finalize => Request::finalize(update).with("server", json!(self.server)),
            Operation::Rollback => Request::rollback(update),
        }
    }

    /// Another Nebraska that this node trusts, and its address.
    pub(crate) fn other_nebraska(&self) -> (Nebraska, String) {
        nebraska(&self.pki)
    }

    /// What the watcher does before it starts the unit.
    pub(crate) fn accept(&self, request: &Request) {
        let from = self.setup().host.version(&self.config().current_version).unwrap();
        self.accept_from(request, &from);
    }

    pub(crate) fn accept_from(&self, request: &Request, from: &str) {
        let request = contract::Request::parse(&request.text()).unwrap();
        let accepted = InFlight::new(request, from.to_owned(), Utc::now());
        self.store().update(|state| state.operation = Some(accepted)).unwrap();
    }

    /// What the unit does.
    pub(crate) async fn start(&self, request: &Request) -> Result<Ended, OperateError> {
        let operation = match request.operation() {
            "stage" => Operation::Stage,
            "finalize" => Operation::Finalize,
            _ => Operation::Rollback,
        };
        let id = contract::Id::parse(request.operation_id()).unwrap();
        operate::operate(self.setup(), operation, &id).await
    }

    /// Both, to the recorded status.
    pub(crate) async fn carry_out(&self, request: &Request) -> Status {
        self.accept(request);
        self.start(request).await.expect("an outcome is recorded");
        self.status(request)
    }

    pub(crate) async fn carry_out_well(&self, request: &Request) -> Status {
        let status = self.carry_out(request).await;
        assert_eq!(status.code, Code::Success, "{}", status.message);
        status
    }

    /// The recorded status of a request.
    pub(crate) fn status(&self, request: &Request) -> Status {
        let id = contract::Id::parse(request.operation_id()).unwrap();
        self.state().find(&id).expect("it has ended").status.clone()
    }

    /// The recorded status of the commit that a request led to.
    pub(crate) fn commit_status(&self, request: &Request) -> Status {
        let id = contract::Id::parse(request.operation_id()).unwrap();
        let state = self.state();
        let commit = state.find(&id).and_then(|done| done.commit.as_ref());
        commit.expect("it was committed").status.clone()
    }

    /// The node reboots: the firmware chooses the slot.
    pub(crate) fn reboot(&self) {
        let booted = self.trident.firmware_boot();
        self.install("proc/sys/kernel/random/boot_id", &Uuid::new_v4().to_string());
        self.install("etc/os-release", &booted.os_release());
    }

    /// What the commit unit does.
    pub(crate) async fn commit(&self) -> Result<Ended, OperateError> {
        operate::commit(self.setup()).await
    }

    /// What the report unit does.
    pub(crate) async fn report(&self) -> Result<Ended, OperateError> {
        operate::report(self.setup()).await
    }

    /// All of an update up to and with its commit, events delivered as soon as they are owed.
    pub(crate) async fn update(&self) -> Uuid {
        let update = Uuid::new_v4();
        for operation in [Operation::Stage, Operation::Finalize] {
            self.carry_out_well(&self.request_of(update, operation)).await;
            self.report().await.expect("all is delivered");
        }
        self.reboot();
        assert_eq!(self.commit().await.unwrap(), Ended::With(Code::Success));
        self.report().await.expect("all is delivered");
        update
    }

    /// What Nebraska was asked and told, a word each: `check`, an event's pair, or both.
    pub(crate) fn said(&self) -> Vec<String> {
        self.nebraska.requests().iter().map(said).collect()
    }
}

/// The package of every test: the version that requests ask for.
pub(crate) fn package() -> PackageSpec {
    PackageSpec::new(NEW, IMAGES, "new.cosi?sig=SECRET").with_sha384(SHA384)
}

fn said(request: &OmahaRequest) -> String {
    let app = request.app().expect("an app");
    let events = app.events.iter().map(|it| format!("{},{}", it.event_type, it.event_result));
    let others = [(app.ping.is_some(), "ping"), (app.update_check.is_some(), "check")];
    let others = others.into_iter().filter(|(there, _)| *there).map(|(_, name)| name.to_owned());
    events.chain(others).collect::<Vec<_>>().join("+")
}

fn nebraska(pki: &Pki) -> (Nebraska, String) {
    let nebraska = Nebraska::new(pki);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listening = nebraska.serve(listener).unwrap();
    (nebraska, format!("https://u:SECRET@localhost:{}/v1/update", listening.addr.port()))
}

/// Waits until something is so, by looking again and again.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let look = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(SOON, look).await.is_ok(), "never: {what}");
}
