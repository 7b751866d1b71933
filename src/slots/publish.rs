//! How each kind of a checked set reaches the real root.

use std::path::{Path, PathBuf};

use super::chain::chain;
use super::links::{self, Links};
use super::load::{Checked, LoadError, Options};
use super::manifest::Extension;
use super::overlay::{CHANGES, IMAGES, Places};
use super::report::{LeftOut, Published, Report};
use super::word::{Kind, Strategy};

/// Where systemd looks for links of a kind.
fn directory(kind: Kind) -> &'static Path {
    Path::new(match kind {
        Kind::Sysext => "/run/extensions",
        Kind::Confext => "/run/confexts",
    })
}

pub(super) fn publish(
    options: &Options,
    report: &mut Report,
    set: &Checked,
    kind: Kind,
) -> Result<(), LoadError> {
    let images: Vec<_> = set.images.iter().filter(|image| image.kind == kind).collect();
    let images = match (kind, report.confext.unwrap_or_default()) {
        (Kind::Confext, Strategy::None) => Vec::new(),
        (Kind::Confext, Strategy::Overlay) => {
            return overlay(options, report, set, &images);
        }
        (Kind::Confext, Strategy::Native) | (Kind::Sysext, _) => images,
    };
    let target = |image: &Extension| set.store.named(set.slot, &image.file);
    let links: Links = images.iter().map(|it| (it.name.file_name(), target(it))).collect();
    links::publish(&options.tree.place(directory(kind))?, &links, set.store.path())?;
    report.published.extend(images.into_iter().map(|image| published(set, image)));
    Ok(())
}

fn published(set: &Checked, image: &Extension) -> Published {
    Published {
        kind: image.kind,
        id: image.id.clone(),
        name: image.name.clone(),
        image: set.store.named(set.slot, &image.file),
    }
}

fn overlay(
    options: &Options,
    report: &mut Report,
    set: &Checked,
    images: &[&Extension],
) -> Result<(), LoadError> {
    let places = places(options)?;
    places.clear()?;
    let mut mounted: Vec<PathBuf> = Vec::new();
    for image in images {
        let (kind, name) = (image.kind, image.name.clone());
        match places.mount_image(mounted.len(), &set.store.found(set.slot, &image.file)) {
            Ok(etc) => {
                mounted.push(etc);
                report.published.push(published(set, image));
            }
            Err(source) if image.required => {
                return Err(LoadError::RequiredMount { name, source });
            }
            Err(problem) => report.left_out.push(LeftOut { kind, name, reason: chain(&problem) }),
        }
    }
    if places.needed(&mounted) {
        places.lay(&mounted)?;
    }
    Ok(())
}

/// As the real root will see them: a link to `/data` in it is none to the initrd's.
fn places(options: &Options) -> Result<Places, LoadError> {
    let real = options.tree.below(&options.sysroot);
    Ok(Places {
        images: options.tree.place(IMAGES.as_ref())?,
        etc: real.place("/etc".as_ref())?,
        changes: real.place(CHANGES.as_ref())?,
    })
}

/// Takes back what an earlier run published of a kind.
pub(super) fn withdraw(options: &Options, report: &Report, kind: Kind) -> Result<(), LoadError> {
    links::publish(&options.tree.place(directory(kind))?, &Links::new(), &report.store)?;
    if kind == Kind::Confext && options.tree.place(IMAGES.as_ref())?.exists() {
        places(options)?.clear()?;
    }
    Ok(())
}
