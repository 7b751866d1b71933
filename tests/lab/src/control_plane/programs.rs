use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

const ALL: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];

/// Where the real programs are: `KUBEBUILDER_ASSETS`, or what `tests/control-plane/build` made.
#[derive(Clone, Debug)]
pub(super) struct Programs(PathBuf);

impl Programs {
    pub(super) fn find() -> Result<Self> {
        Self::given(std::env::var_os("KUBEBUILDER_ASSETS"))
    }

    fn given(assets: Option<OsString>) -> Result<Self> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/control-plane/bin");
        let directory = assets.filter(|it| !it.is_empty()).map_or(built, PathBuf::from);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_programs_are_taken_where_all_are_there() -> Result<()> {
        let assets = tempfile::tempdir()?;
        let given = || Programs::given(Some(assets.path().into()));
        for name in ALL {
            ensure!(given().is_err(), "without {name}");
            std::fs::write(assets.path().join(name), "")?;
        }
        let etcd = given()?.path("etcd");
        ensure!(etcd == assets.path().canonicalize()?.join("etcd"), "{}", etcd.display());
        Ok(())
    }
}
