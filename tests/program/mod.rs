//! The built program as a process, with nothing of this process's environment.
#![allow(dead_code, reason = "each test crate uses its part")]

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

pub(crate) use trident_lab::own_process::SECRET;

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program under test: the one named by `LAB_AGENT`, else this build's.
pub(crate) fn path() -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_trident-acl-agent"));
    std::env::var_os("LAB_AGENT").map_or_else(built, PathBuf::from)
}

/// Settings by their names after the prefix; all that begins with `SSL_` or ends with `PROXY` is as it is.
pub(crate) fn command(arguments: &[&str], settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(path());
    command.args(arguments).env_clear().stdin(Stdio::null());
    for (name, value) in settings {
        match name.starts_with("SSL_") || name.ends_with("PROXY") {
            true => command.env(name, value),
            false => command.env(format!("TRIDENT_ACL_AGENT_{name}"), value),
        };
    }
    command
}

pub(crate) async fn run(command: &mut Command) -> Ended {
    let output = command.kill_on_drop(true).output().await.expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// What `--validate-connection` says: its exit status and its one line.
pub(crate) async fn validate(dependency: &str, settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let arguments = ["--validate-connection", dependency, "--log-level", "error"];
    one_line(run(&mut command(&arguments, settings)).await)
}

/// An answer to a person: one line on standard error, without a secret.
pub(crate) fn one_line(ended: Ended) -> (Option<i32>, String) {
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stdout.is_empty(), "{ended:?}");
    assert!(!ended.stderr.contains(SECRET), "{ended:?}");
    assert!(!ended.stderr.trim_end().chars().any(char::is_control), "{ended:?}");
    (ended.code, ended.stderr.trim_end().to_owned())
}
