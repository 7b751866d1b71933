//! What an image says of itself: mounted for a moment, and its `extension-release` read.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{UnmountFlags, unmount};
use thiserror::Error;

use super::super::fields::Fields;
use super::super::gpt::{PartError, loop_options};
use super::super::release::{MAX_BYTES, ReleaseError, id_of, parse_release};
use super::super::tree::{bounded, regular_below};
use super::super::word::{Id, Kind, Name, Word};

#[derive(Debug, Error)]
pub enum LookError {
    #[error("cannot run mount")]
    NoMount(#[source] io::Error),
    #[error("it cannot be mounted: {0}")]
    Mount(String),
    #[error("it cannot be mounted")]
    Table(#[from] PartError),
    #[error("cannot look into it")]
    Read(#[from] io::Error),
    #[error("it has {found} extension-release files of a {kind}, and must have one")]
    NotOne { kind: Kind, found: usize },
    #[error("its extension-release file has no usable name")]
    Name(#[source] Word),
    #[error("its extension-release.{name} is refused")]
    Release { name: Name, source: ReleaseError },
    #[error("its extension-release.{0} is larger than {MAX_BYTES} bytes or no text")]
    NoText(Name),
    #[error(
        "a confext must have ID=_any: systemd's own matching would let it disappear with the next version"
    )]
    NotForAny,
    #[error("the file is called {found}, and must be called {expected}: systemd goes by that name")]
    FileName { found: String, expected: String },
    #[error("another image of the set stands at {0}")]
    Taken(String),
}

/// What was found in it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: Id,
    pub(super) name: Name,
    pub(super) release: Fields,
}

/// `point`: an empty directory for the moment.
pub(super) fn look_into(image: &Path, point: &Path, kind: Kind) -> Result<Found, LookError> {
    fs::create_dir(point)?;
    let mounted = mount(image, point);
    let found = mounted.and_then(|()| {
        let found = read(point, kind);
        unmount(point, UnmountFlags::DETACH).map_err(io::Error::from)?;
        found
    });
    fs::remove_dir(point)?;
    found
}

fn mount(image: &Path, point: &Path) -> Result<(), LookError> {
    let options = loop_options(image)?;
    let mut command = Command::new("mount");
    command.arg("-o").arg(format!("{options},ro,nosuid,nodev,noexec"));
    command.arg("--").args([image, point]);
    let output = command.output().map_err(LookError::NoMount)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(LookError::Mount(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ")))
        }
    }
}

fn read(point: &Path, kind: Kind) -> Result<Found, LookError> {
    let directory = match kind {
        Kind::Sysext => "usr/lib/extension-release.d",
        Kind::Confext => "etc/extension-release.d",
    };
    let names = names(point, directory)?;
    let [name] = names.as_slice() else {
        return Err(LookError::NotOne { kind, found: names.len() });
    };
    let name: Name = name.parse().map_err(LookError::Name)?;
    let file = regular_below(point, &format!("{directory}/{PREFIX}{name}"))?;
    let text = bounded(file, MAX_BYTES)?.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(|| LookError::NoText(name.clone()))?;
    let refused = |source| LookError::Release { name: name.clone(), source };
    let release = parse_release(&text).map_err(refused)?;
    let id = id_of(&release, kind).map_err(refused)?;
    if kind == Kind::Confext && release.get("ID") != Some("_any") {
        return Err(LookError::NotForAny);
    }
    Ok(Found { id, name, release })
}

const PREFIX: &str = "extension-release.";

/// The suffixes of the files in a directory of the image; a link on the way would lead to ours.
fn names(point: &Path, directory: &str) -> io::Result<Vec<String>> {
    let mut here = PathBuf::from(point);
    for part in directory.split('/') {
        here.push(part);
        match fs::symlink_metadata(&here) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("{directory} is no plain directory"))),
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(problem) => return Err(problem),
        }
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(here)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_prefix(PREFIX).map(str::to_owned));
    }
    Ok(names)
}

/// Takes mounts away that a staging left when it was killed.
pub(super) fn unmount_below(directory: &Path) -> io::Result<()> {
    let mut text = String::new();
    fs::File::open("/proc/self/mountinfo")?.read_to_string(&mut text)?;
    for mount in super::super::mounts::parse(&text).iter().rev() {
        if mount.point.starts_with(directory) {
            unmount(&mount.point, UnmountFlags::DETACH)?;
        }
    }
    Ok(())
}
