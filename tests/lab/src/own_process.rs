//! A test in a process of its own, with an environment of its own, of which every word is looked at.
//!
//! Trust and proxies come from the environment, which a test must not change under its neighbours.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Names the directory of a test's own process.
const CHILD: &str = "LAB_OWN_PROCESS_DIRECTORY";
/// Names a port that was free when the test began.
pub const PORT: &str = "LAB_OWN_PROCESS_PORT";
/// The CA bundle that the process trusts, in its directory; the test writes it.
pub const CA: &str = "ca.pem";
/// What no word of the process may hold.
pub const SECRET: &str = "SECRET";

/// Makes a body a test in a process of its own, with these variables set: `DIRECTORY` and `PORT` in their
/// values stand for the test's own. The body is called with its directory.
#[macro_export]
macro_rules! own_process {
    ($name:ident, $variables:expr, $body:expr) => {
        #[test]
        fn $name() {
            let test = concat!(module_path!(), "::", stringify!($name));
            $crate::own_process::run(test, &$variables, $body);
        }
    };
}

/// Runs the test again, alone, and the body in it.
pub fn run<F: Future<Output = ()>>(
    test: &str,
    variables: &[(&str, &str)],
    body: impl FnOnce(PathBuf) -> F,
) {
    if let Some(directory) = std::env::var_os(CHILD) {
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).init();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.expect("a runtime").block_on(async { body(directory.into()).await });
    }
    let directory = TempDir::new().expect("a directory");
    let output = child(test, directory.path(), variables).output().expect("the test runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
    assert!(!text.contains(SECRET) && !errors.contains(SECRET), "{text}\n{errors}");
}

fn child(test: &str, directory: &Path, variables: &[(&str, &str)]) -> Command {
    let (_crate, test) = test.split_once("::").expect("a path");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture"]).env(CHILD, directory);
    for proxy in ["https_proxy", "http_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(proxy).env_remove(proxy.to_uppercase());
    }
    command.env_remove("SSL_CERT_DIR").env("SSL_CERT_FILE", directory.join(CA));
    let port = free_port();
    command.env(PORT, &port);
    for (name, value) in variables {
        let value = value.replace("DIRECTORY", &directory.display().to_string());
        command.env(name, value.replace("PORT", &port));
    }
    command
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port().to_string()
}
