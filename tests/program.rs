//! The program as a process: what its environment may hold, and what it says of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Output};

use trident_acl_agent::config::{Kind, PREFIX, SETTINGS};

const OPERATION: &str = "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90";
/// Every way to start it.
const STARTS: [&[&str]; 8] = [
    &[],
    &["reconcile"],
    &["commit"],
    &["report"],
    &["operate", "stage", OPERATION],
    &["--validate-connection", "kubernetes"],
    &["--validate-connection", "tridentd"],
    &["--validate-connection", "nebraska"],
];
const CONFIGURATION: i32 = 78;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trident-acl-agent"));
    command.args(arguments).env_clear().env("RUST_BACKTRACE", "0");
    command
}

fn set(command: &mut Command, name: &str, value: impl AsRef<OsStr>) {
    command.env(format!("{PREFIX}{name}"), value);
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// It ended at once, with one line that names the variable and keeps a secret.
fn assert_refused(mut command: Command, name: &str) {
    let output = command.output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(CONFIGURATION), "{name}: {text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{name}: {text}");
    assert!(text.contains(&format!("ERROR {PREFIX}{name}: ")), "{name}: {text}");
    assert!(!text.contains("secret"), "{name}: {text}");
}

/// A value of no kind but text.
fn malformed(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Text => None,
        Kind::Path => Some("relative/path"),
        Kind::Bool => Some("yes"),
        Kind::Duration => Some("0s"),
        Kind::Url => Some("ftp://user:secret@host/"),
        Kind::OneOf(_) => Some("neither"),
    }
}

#[test]
fn a_malformed_value_ends_every_start() {
    let others = [
        ("KUBERNETES_ANNOTATION_PREFIX", "Not/A/Domain"),
        ("KUBERNETES_NODE_NAME", "../../secret"),
        ("CURRENT_VERSION_KEY", "A=B"),
        ("TRIDENT_SOCKET", "https://user:secret@host/"),
        ("ORCHESTRATION_ALLOWED_SERVERS", "https://user:secret@host/"),
    ];
    let by_kind = SETTINGS.iter().filter_map(|it| Some((it.name, malformed(it.kind)?)));
    for (at, (name, value)) in by_kind.chain(others).enumerate() {
        for start in [STARTS[0], STARTS[1 + at % 7]] {
            let mut command = program(start);
            set(&mut command, name, value);
            assert_refused(command, name);
        }
    }
    for start in STARTS {
        let mut command = program(start);
        set(&mut command, "ORCHESTRATION_STAGE_TIMEOUT", "soon\nsecond line");
        assert_refused(command, "ORCHESTRATION_STAGE_TIMEOUT");
    }
}

#[test]
fn what_is_not_utf8_ends_the_start_where_it_is_a_setting_and_else_does_no_harm() {
    let bytes = || OsString::from_vec(vec![b'/', 0xff]);
    for start in STARTS {
        let mut command = program(start);
        set(&mut command, "CURRENT_VERSION_PATH", bytes());
        assert_refused(command, "CURRENT_VERSION_PATH");
    }
    // A step reads its own environment before it knows the watcher's.
    for start in STARTS.into_iter().skip(2) {
        let mut command = program(start);
        command.env("SOMEBODY_ELSES", bytes()).env(bytes(), "x").env("HTTPS_PROXY", bytes());
        set(&mut command, "ORCHESTRATION_STATE_PATH", "/proc/none/state.json");
        set(&mut command, "TRIDENT_SOCKET", "unix:///proc/none/socket");
        let output = command.output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1 | 75)), "{start:?}: {}", said(&output));
        assert!(!said(&output).contains("panicked"), "{}", said(&output));
    }
}

#[test]
fn what_is_in_force_is_said_and_no_secret_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix://{}/none.sock", directory.path().display());
    let kubeconfig = directory.path().join("none");
    for dependency in ["kubernetes", "tridentd", "nebraska"] {
        let mut command = program(&["--validate-connection", dependency]);
        for setting in SETTINGS.iter().filter(|it| it.kind == Kind::Url) {
            let url = "https://user:secret@127.0.0.1:1/secret?secret=secret#secret";
            set(&mut command, setting.name, url);
        }
        set(&mut command, "TRIDENT_SOCKET", &socket);
        set(&mut command, "KUBERNETES_KUBECONFIG", &kubeconfig);
        set(&mut command, "ORCHESTRATION_HEARTBEAT_INTERVAL", "");
        set(&mut command, "STAGE_TIMEOUT", "1m");
        command.env("HTTPS_PROXY", "http://user:secret@127.0.0.1:1/");
        let output = command.output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(!text.contains("secret"), "{text}");
        let lines = || text.lines();
        let settings: Vec<_> = lines().filter(|line| line.contains("effective settings")).collect();
        let [settings] = settings[..] else { panic!("{text}") };
        assert!(settings.contains(" INFO "), "{settings}");
        for setting in SETTINGS {
            let value = match (setting.name, setting.kind, setting.default) {
                ("TRIDENT_SOCKET", ..) => socket.as_str(),
                ("KUBERNETES_KUBECONFIG", ..) => kubeconfig.to_str().unwrap(),
                (_, Kind::Url, _) => "https://127.0.0.1:1",
                (_, _, "") => "(unset)",
                (_, _, default) => default,
            };
            let shown = format!(" {PREFIX}{}={value}", setting.name);
            assert!(format!("{settings} ").contains(&format!("{shown} ")), "{shown}: {settings}");
        }
        let warning = format!("unknown setting {PREFIX}STAGE_TIMEOUT");
        let nearest = format!("is {PREFIX}ORCHESTRATION_STAGE_TIMEOUT");
        let warned: Vec<_> = lines().filter(|line| line.contains(&warning)).collect();
        let [warned] = warned[..] else { panic!("{text}") };
        assert!(warned.contains(" WARN ") && warned.ends_with(&nearest), "{warned}");
    }
}
