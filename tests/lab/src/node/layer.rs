//! Files of a node while it is off: written into the upper layer of its overlay.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// The writable layer over the shared root file system. Not to be touched while the node runs.
#[derive(Clone, Debug)]
pub struct Layer {
    lower: PathBuf,
    upper: PathBuf,
}

impl Layer {
    pub(super) fn new(lower: PathBuf, upper: PathBuf) -> Self {
        Self { lower, upper }
    }

    pub(super) fn lower(&self) -> &Path {
        &self.lower
    }

    /// The layer itself, for a tool that installs below a directory.
    pub fn upper(&self) -> &Path {
        &self.upper
    }

    /// Writes a file, over whatever is there.
    pub fn install(&self, path: &str, bytes: impl AsRef<[u8]>, mode: u32) -> Result<()> {
        let target = self.place(path)?;
        fs::write(&target, bytes).with_context(|| format!("cannot install {path}"))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Makes a symbolic link, over whatever is there: enables units, masks them.
    pub fn link(&self, path: &str, to: &str) -> Result<()> {
        let place = self.place(path)?;
        std::os::unix::fs::symlink(to, place).with_context(|| format!("cannot link {path}"))
    }

    /// Makes a directory and those above it.
    pub fn directory(&self, path: &str) -> Result<()> {
        self.parents(&relative(path)?)?;
        Ok(())
    }

    /// Replaces what `/etc/os-release` says. It is a link to this file, and stays one.
    pub fn os_release(&self, text: &str) -> Result<()> {
        self.install("/usr/lib/os-release", text, 0o644)
    }

    /// Reads a file as the node would see it. Links are not followed.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let path = relative(path)?;
        let upper = self.upper.join(&path);
        let found = if upper.exists() { upper } else { self.lower.join(&path) };
        fs::read(&found).with_context(|| format!("cannot read /{}", path.display()))
    }

    /// The path in the upper layer, with nothing there and all directories above it.
    fn place(&self, path: &str) -> Result<PathBuf> {
        let path = relative(path)?;
        self.parents(path.parent().context("not a file")?)?;
        let target = self.upper.join(&path);
        if target.is_symlink() || target.exists() {
            fs::remove_file(&target)
                .with_context(|| format!("cannot replace {}", path.display()))?;
        }
        Ok(target)
    }

    /// A directory made here hides the lower one's mode, so it takes that over.
    fn parents(&self, path: &Path) -> Result<()> {
        let mut here = PathBuf::new();
        for part in path.components() {
            here.push(part);
            let (lower, upper) = (self.lower.join(&here), self.upper.join(&here));
            let shown = if upper.is_symlink() || upper.exists() { &upper } else { &lower };
            ensure!(!shown.is_symlink(), "/{} is a link: name what it points to", here.display());
            if !upper.exists() {
                fs::create_dir(&upper)?;
                let mode = fs::metadata(&lower).map_or(0o755, |found| found.permissions().mode());
                fs::set_permissions(&upper, fs::Permissions::from_mode(mode))?;
            }
        }
        Ok(())
    }
}

fn relative(path: &str) -> Result<PathBuf> {
    let Some(path) = path.strip_prefix('/') else { bail!("{path} is not absolute") };
    let path = PathBuf::from(path);
    ensure!(path.components().all(|part| matches!(part, Component::Normal(_))), "odd path");
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer() -> Result<(tempfile::TempDir, Layer)> {
        let dir = tempfile::tempdir()?;
        let layer = Layer::new(dir.path().join("lower"), dir.path().join("upper"));
        fs::create_dir_all(layer.lower().join("usr/lib"))?;
        fs::create_dir_all(layer.lower().join("root"))?;
        fs::create_dir_all(layer.upper())?;
        Ok((dir, layer))
    }

    #[test]
    fn install_replaces_and_keeps_modes() -> Result<()> {
        let (_dir, layer) = layer()?;
        fs::set_permissions(layer.lower().join("root"), fs::Permissions::from_mode(0o700))?;
        layer.install("/root/file", "one", 0o600)?;
        layer.install("/root/file", "two", 0o640)?;
        assert_eq!(layer.read("/root/file")?, b"two");
        let mode =
            |path: &str| fs::metadata(layer.upper().join(path)).map(|m| m.permissions().mode());
        assert_eq!(mode("root")? & 0o7777, 0o700);
        assert_eq!(mode("root/file")? & 0o7777, 0o640);
        Ok(())
    }

    #[test]
    fn a_link_in_the_way_is_refused() -> Result<()> {
        let (_dir, layer) = layer()?;
        std::os::unix::fs::symlink("usr/lib", layer.lower().join("lib"))?;
        assert!(layer.install("/lib/file", "", 0o644).is_err());
        assert!(layer.install("lib/file", "", 0o644).is_err());
        assert!(layer.install("/usr/../file", "", 0o644).is_err());
        Ok(())
    }
}
