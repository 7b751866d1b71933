//! The links that systemd-sysext and systemd-confext find in `/run`: the whole set in one rename, with what
//! others have put there left as it is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use thiserror::Error;

/// The set could not be published; what was there before still is.
#[derive(Debug, Error)]
pub(super) enum PublishError {
    #[error("cannot publish in {}", directory.display())]
    Io { directory: PathBuf, source: io::Error },
    #[error("{} holds {name}, and it is not ours", directory.display())]
    Taken { directory: PathBuf, name: String },
}

/// File names, and where in the real root they point to.
pub(super) type Links = BTreeMap<String, PathBuf>;

/// Makes `directory` hold exactly `links` of those that point into `store`, and everything of others.
///
/// # Errors
/// [`PublishError`]
pub(super) fn publish(directory: &Path, links: &Links, store: &Path) -> Result<(), PublishError> {
    let failed = |source| PublishError::Io { directory: directory.to_owned(), source };
    let others = others(directory, store).map_err(failed)?;
    if let Some(name) = links.keys().find(|name| others.contains_key(&OsString::from(name))) {
        return Err(PublishError::Taken { directory: directory.to_owned(), name: name.clone() });
    }
    // Nothing to say, and nothing to take back.
    if links.is_empty() && !directory.exists() {
        return Ok(());
    }
    let new = directory.with_added_extension("new");
    build(&new, links, &others).map_err(failed)?;
    exchange(&new, directory, &others).map_err(failed)
}

/// What others put there; a link's target, if it is one.
type Others = BTreeMap<OsString, Option<PathBuf>>;

fn others(directory: &Path, store: &Path) -> io::Result<Others> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Others::new()),
        Err(problem) => return Err(problem),
    };
    let mut others = Others::new();
    for entry in entries {
        let entry = entry?;
        let link = match entry.file_type()?.is_symlink() {
            true => Some(fs::read_link(entry.path())?),
            false => None,
        };
        if !link.as_ref().is_some_and(|target| target.starts_with(store)) {
            others.insert(entry.file_name(), link);
        }
    }
    Ok(others)
}

fn build(new: &Path, links: &Links, others: &Others) -> io::Result<()> {
    match fs::remove_dir_all(new) {
        Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
        _ => {}
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(new)?;
    for (name, target) in links {
        symlink(target, new.join(name))?;
    }
    for (name, target) in others {
        if let Some(target) = target {
            symlink(target, new.join(name))?;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "in /run, which no power cut outlives")]
fn exchange(new: &Path, directory: &Path, others: &Others) -> io::Result<()> {
    if !directory.exists() {
        return fs::rename(new, directory);
    }
    renameat_with(CWD, new, CWD, directory, RenameFlags::EXCHANGE)?;
    // Images and directories of others cannot be in two places: they follow.
    for name in others.iter().filter(|(_, link)| link.is_none()).map(|(name, _)| name) {
        fs::rename(new.join(name), directory.join(name))?;
    }
    fs::remove_dir_all(new)
}
