//! What becomes of an operation on a node whose running version cannot be read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use trident_acl_agent::config::Config;
use trident_acl_agent::contract::{Code, Operation, Request, Status, Utc};
use trident_acl_agent::host::Host;
use trident_acl_agent::operate::{Ended, Setup, operate};
use trident_acl_agent::state::{InFlight, Store};
use trident_lab::lab::{APP, TRACK};
use trident_lab::schema;
use trident_lab::trident::Tridentd;

const MACHINE: &str = "0123456789abcdef0123456789abcdef";

/// A host without any version, and a tridentd that would do what it is told.
struct Bench {
    root: tempfile::TempDir,
    trident: Tridentd,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
        let write = |path: &str, text: &str| {
            let mut file = std::fs::File::create(root.path().join(path)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        write("etc/machine-id", MACHINE);
        write("etc/os-release", "NAME=x\n");
        write("proc/sys/kernel/random/boot_id", "boot-1\n");
        let socket = root.path().join("trident.sock");
        let trident = Tridentd::start_new(root.path(), &socket, "1.0.0").unwrap();
        Self { root, trident }
    }

    fn path(&self, name: &str) -> String {
        Path::join(self.root.path(), name).display().to_string()
    }

    fn setup(&self, fallback: &str) -> Setup {
        let settings = [
            ("CURRENT_VERSION_FALLBACK", fallback.to_owned()),
            ("ORCHESTRATION_STATE_PATH", self.path("state.json")),
            ("TRIDENT_SOCKET", format!("unix://{}", self.path("trident.sock"))),
        ];
        let variables = settings.map(|(name, value)| {
            (OsString::from(format!("TRIDENT_ACL_AGENT_{name}")), OsString::from(value))
        });
        let config = Config::load(variables).unwrap().config;
        Setup { config, host: Host::new(self.root.path()) }
    }

    /// Runs it as the watcher accepted it, and reads how it ended.
    async fn run(&self, operation: Operation, fallback: &str, from: &str) -> Status {
        let (request, setup) = (request(operation), self.setup(fallback));
        let store = Store::new(Path::new(&self.path("state.json")), MACHINE);
        let id = request.operation_id.clone();
        let accepted = InFlight::new(request, from.to_owned(), Utc::now());
        store.update(|state| state.operation = Some(accepted)).unwrap();
        let ended = operate(setup, operation, &id).await.unwrap();
        let status = store.read().unwrap().find(&id).unwrap().status.clone();
        assert_eq!(ended, Ended::With(status.code));
        schema::check_status(&serde_json::from_str(&status.to_json()).unwrap()).unwrap();
        status
    }
}

fn request(operation: Operation) -> Request {
    let mut request = json!({
        "schemaVersion": "1.0",
        "nodeUpdateId": uuid::Uuid::new_v4(),
        "operationId": uuid::Uuid::new_v4(),
        "operation": operation.name(),
    });
    if operation != Operation::Rollback {
        request["targetVersion"] = json!("2.0.0");
        // Nobody listens there: a stage that comes so far fails for another reason.
        request["server"] = json!("https://127.0.0.1:1/v1/update");
        request["appId"] = json!(APP);
        request["track"] = json!(TRACK);
    }
    Request::parse(&request.to_string()).unwrap()
}

#[tokio::test]
async fn error_fails_every_operation_before_anything_is_asked() {
    let bench = Bench::new();
    for operation in Operation::ALL {
        let status = bench.run(operation, "error", "").await;
        assert_eq!(status.code, Code::OperationFailed, "{operation:?}");
        assert!(status.message.as_str().contains("VERSION_ID in /etc/os-release"), "{status:?}");
        assert_eq!((&status.from_version, &status.trident_error), (&None, &None));
    }
    assert!(bench.trident.calls().is_empty(), "{:?}", bench.trident.calls());
}

#[tokio::test]
async fn any_other_lets_it_go_on() {
    for fallback in ["always", "9.9.9"] {
        let bench = Bench::new();
        let from = if fallback == "always" { "0.0.0" } else { fallback };
        for operation in [Operation::Finalize, Operation::Rollback] {
            let status = bench.run(operation, fallback, from).await;
            assert_eq!(status.from_version.as_deref(), Some(from));
        }
        assert_eq!(bench.trident.calls().len(), 2, "{:?}", bench.trident.calls());
    }
}
