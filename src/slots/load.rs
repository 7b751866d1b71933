//! Loading: from the slot that booted to what its real root will merge. Everything is checked before
//! anything is published; what fails is absent, never wrong.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::booted::{BootedError, booted_slot};
use super::chain::chain;
use super::command_line::CommandLine;
use super::links::PublishError;
use super::manifest::{Extension, Manifest, Mode};
use super::overlay::OverlayError;
use super::publish;
use super::report::{Failure, LeftOut, Outcome, Report};
use super::store::{DEFAULT_STORE, ImageError, Store, StoreError};
use super::tree::{Tree, TreeError};
use super::word::{Kind, Name, Slot, Strategy, Word};

/// What the program was called with; each goes before the kernel argument of the same meaning.
#[derive(Debug, Clone)]
pub struct Options {
    /// With the initrd's `/proc`, `/sys` and `/run`.
    pub tree: Tree,
    /// The real root, within the tree.
    pub sysroot: PathBuf,
    pub store: Option<PathBuf>,
    pub slot: Option<Slot>,
    pub confext: Option<Strategy>,
}

#[derive(Debug, Error)]
pub(super) enum LoadError {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("the kernel's command line cannot be obeyed")]
    CommandLine(#[from] Word),
    #[error("cannot tell which slot booted; the kernel argument trident.slot= says it")]
    Booted(#[from] BootedError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the required {kind} {name} cannot be used")]
    Required { kind: Kind, name: Name, source: ImageError },
    #[error("the required confext {name} cannot be used")]
    RequiredMount { name: Name, source: OverlayError },
    #[error(transparent)]
    Links(#[from] PublishError),
    #[error(transparent)]
    Overlay(#[from] OverlayError),
}

/// A set that may be published: its images have been looked at.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) store: Store,
    pub(super) slot: Slot,
    pub(super) images: Vec<Extension>,
}

/// Of a kernel's command line.
const MAX_COMMAND_LINE: u64 = 64 * 1024;

/// Does it all. The report says how it ended; the caller writes it.
pub fn load(options: &Options) -> Report {
    let store = options.store.clone().unwrap_or_else(|| DEFAULT_STORE.into());
    let mut report = Report::new(store);
    let set = match check(options, &mut report) {
        Ok(set) => set,
        Err(problem) => {
            fail(&mut report, &problem);
            None
        }
    };
    for kind in Kind::BOTH {
        let done = report.step(kind.directory(), |report| match &set {
            Some(set) => publish::publish(options, report, set, kind),
            None => publish::withdraw(options, report, kind),
        });
        if let Err(problem) = done {
            fail(&mut report, &problem);
            report.published.retain(|published| published.kind != kind);
            if let Err(problem) = publish::withdraw(options, &report, kind) {
                fail(&mut report, &problem);
            }
        }
    }
    report
}

/// The first failure is the one to look at.
fn fail(report: &mut Report, problem: &LoadError) {
    let step = report.steps.last().map(|it| it.step.clone()).unwrap_or_default();
    report.failure.get_or_insert(Failure { step, reason: chain(problem) });
    report.outcome = Outcome::Failed;
}

/// `None`: nothing is slotted here.
fn check(options: &Options, report: &mut Report) -> Result<Option<Checked>, LoadError> {
    let asked = report.step("command line", |_| command_line(options))?;
    report.update_boot = asked.update_boot;
    report.confext = Some(options.confext.or(asked.confext).unwrap_or_default());
    if let (None, Some(path)) = (&options.store, &asked.store) {
        report.store.clone_from(path);
    }
    let slot = report.step("slot", |_| slot(options, &asked))?;
    report.slot = Some(slot);
    let set = report.step("manifest", |report| set(options, report, slot))?;
    let Some((store, manifest)) = set else { return Ok(None) };
    report.mode = Some(manifest.mode);
    report.os_version.clone_from(&manifest.os_version);
    if manifest.mode == Mode::Shared {
        return Ok(None);
    }
    let images = report.step("images", |report| usable(&store, &manifest, asked.verify, report))?;
    report.outcome = Outcome::Published;
    Ok(Some(Checked { store, slot, images }))
}

fn command_line(options: &Options) -> Result<CommandLine, LoadError> {
    let text = options.tree.read(Path::new("/proc/cmdline"), MAX_COMMAND_LINE)?;
    Ok(CommandLine::parse(&String::from_utf8_lossy(&text))?)
}

fn slot(options: &Options, asked: &CommandLine) -> Result<Slot, LoadError> {
    match options.slot.or(asked.slot) {
        Some(slot) => Ok(slot),
        None => Ok(booted_slot(&options.tree, &options.sysroot)?),
    }
}

fn set(
    options: &Options,
    report: &Report,
    slot: Slot,
) -> Result<Option<(Store, Manifest)>, LoadError> {
    let Some(store) = Store::open(&options.tree.below(&options.sysroot), &report.store)? else {
        return Ok(None);
    };
    let manifest = store.manifest(slot)?;
    Ok(manifest.map(|manifest| (store, manifest)))
}

/// The images that can be used: all required ones, or none.
fn usable(
    store: &Store,
    manifest: &Manifest,
    verify: bool,
    report: &mut Report,
) -> Result<Vec<Extension>, LoadError> {
    let mut good = Vec::new();
    for extension in &manifest.extensions {
        let checked = match verify {
            true => store.verify(manifest.slot, extension),
            false => store.look_at(manifest.slot, extension).map(drop),
        };
        let (kind, name) = (extension.kind, extension.name.clone());
        match checked {
            Ok(()) => good.push(extension.clone()),
            Err(source) if extension.required => {
                return Err(LoadError::Required { kind, name, source });
            }
            Err(problem) => report.left_out.push(LeftOut { kind, name, reason: chain(&problem) }),
        }
    }
    Ok(good)
}
