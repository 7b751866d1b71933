//! After a load that failed on the first boot of an update: the reason is kept in the store, for whoever
//! looks at the slot that worked. The reboot itself is systemd's, by the unit, whatever happens here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::command_line::CommandLine;
use super::durable;
use super::manifest::SCHEMA_VERSION;
use super::report::Report;
use super::store::{DEFAULT_STORE, Store, StoreError};
use super::tree::Tree;
use super::word::Slot;

pub(super) const LAST_FAILURE: &str = "last-failure.json";

/// `last-failure.json`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    pub schema_version: String,
    /// `None`: the loader did not come so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    pub reason: String,
    /// systemd's word for how the loader ended: `exit-code`, `timeout`, `core-dump`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

#[derive(Debug, Error)]
pub enum RecoverError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no store at {}", .0.display())]
    NoStore(PathBuf),
    #[error("cannot write {LAST_FAILURE}")]
    Write(#[from] std::io::Error),
    #[error("cannot render {LAST_FAILURE}")]
    Render(#[from] serde_json::Error),
}

/// `said`: what systemd tells a unit that it starts for another's failure (`MONITOR_…`).
///
/// # Errors
/// [`RecoverError`]; then the reason is in the journal of this boot only.
pub fn recover(
    tree: &Tree,
    sysroot: &Path,
    store: Option<PathBuf>,
    said: &BTreeMap<String, String>,
) -> Result<LastFailure, RecoverError> {
    let failure = failure(tree, said);
    let path = store.or_else(|| asked_store(tree)).unwrap_or_else(|| DEFAULT_STORE.into());
    let store = Store::open(&tree.below(sysroot), &path)?.ok_or(RecoverError::NoStore(path))?;
    let bytes = serde_json::to_vec_pretty(&failure)?;
    durable::replace(&store.root().join(LAST_FAILURE), &bytes)?;
    Ok(failure)
}

fn asked_store(tree: &Tree) -> Option<PathBuf> {
    let text = tree.read(Path::new("/proc/cmdline"), 64 * 1024).ok()?;
    CommandLine::parse(&String::from_utf8_lossy(&text)).ok()?.store
}

fn failure(tree: &Tree, said: &BTreeMap<String, String>) -> LastFailure {
    let report = Report::read(tree).filter(Report::ended);
    let told = report.as_ref().and_then(|report| report.failure.as_ref());
    let result = said.get("MONITOR_SERVICE_RESULT").cloned();
    let reason = match (told, &result) {
        (Some(failure), _) => format!("{}: {}", failure.step, failure.reason),
        (None, Some(result)) => format!(
            "the loader did not come to its end ({result}{})",
            said.get("MONITOR_EXIT_STATUS").map(|it| format!(", {it}")).unwrap_or_default()
        ),
        (None, None) => "the loader did not come to its end".to_owned(),
    };
    let boot_id = tree.read(Path::new("/proc/sys/kernel/random/boot_id"), 1024).ok();
    LastFailure {
        schema_version: SCHEMA_VERSION.to_owned(),
        slot: report.and_then(|report| report.slot),
        reason,
        result,
        boot_id: boot_id.map(|id| String::from_utf8_lossy(&id).trim().to_owned()),
    }
}
