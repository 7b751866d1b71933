use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

const ALL: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];

/// Where the real programs are: `KUBEBUILDER_ASSETS`, or what `tests/control-plane/build` made.
#[derive(Clone, Debug)]
pub(super) struct Programs(PathBuf);

impl Programs {
    pub(super) fn find() -> Result<Self> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/control-plane/bin");
        let directory = std::env::var_os("KUBEBUILDER_ASSETS").map_or(built, PathBuf::from);
        for name in ALL {
            let program = directory.join(name);
            ensure!(program.is_file(), "{} is missing: run make test-real", program.display());
        }
        Ok(Self(directory.canonicalize()?))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
