//! What `make test-real` says before it builds: which programs it takes, and what it lacks.

use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../control-plane/build");

/// A machine with what the script itself is made of, and without Go.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = tempfile::tempdir().unwrap();
        for name in ["sh", "sed", "dirname"] {
            symlink(Path::new("/usr/bin").join(name), machine.path().join(name)).unwrap();
        }
        Self(machine)
    }

    fn run(&self, assets: Option<&Path>) -> Output {
        let mut command = Command::new(SCRIPT);
        command.env_clear().env("PATH", self.0.path()).env("GOROOT", "/nonexistent");
        if let Some(assets) = assets {
            command.env("KUBEBUILDER_ASSETS", assets);
        }
        command.current_dir(self.0.path()).output().unwrap()
    }

    /// A directory with these programs, relative to where the script is run.
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    fn assets(&self, programs: &[&str]) -> PathBuf {
        let name = format!("assets-{}", programs.len());
        let directory = self.0.path().join(&name);
        std::fs::create_dir(&directory).unwrap();
        for program in programs {
            write(directory.join(program), "").unwrap();
            set_permissions(directory.join(program), Permissions::from_mode(0o755)).unwrap();
        }
        name.into()
    }
}

#[test]
fn what_it_needs_is_said() {
    let machine = Machine::new();
    let all = machine.assets(&["kube-apiserver", "etcd", "kubectl"]);
    let some = machine.assets(&["kube-apiserver", "kubectl"]);
    let wants = "make test-real needs a Go toolchain (1.26.0 or newer) on PATH, \
                 or KUBEBUILDER_ASSETS with kube-apiserver, etcd and kubectl.\n";
    let lacks = "KUBEBUILDER_ASSETS is set, but there is no program assets-2/etcd.\n";
    for (name, assets, code, says) in [
        ("neither Go nor programs", None, 1, wants),
        ("an empty variable", Some(Path::new("")), 1, wants),
        ("programs, and no Go", Some(&all), 0, ""),
        ("one of them is missing", Some(&some), 1, lacks),
    ] {
        let output = machine.run(assets);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(code), says), "{name}");
    }
}
