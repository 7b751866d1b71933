//! `/run/trident/slot-loader.json`: what the loader did in this boot.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::durable;
use super::manifest::{Mode, SCHEMA_VERSION};
use super::tree::Tree;
use super::word::{Id, Kind, Name, Slot, Strategy};

pub const REPORT_PATH: &str = "/run/trident/slot-loader.json";

/// Written by a loader, read by `trident-slotctl`, the agent and people. A later loader may say more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub schema_version: String,
    pub loader_version: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    pub store: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confext: Option<Strategy>,
    pub update_boot: bool,
    /// What the real root merges, or has below `/etc`.
    pub published: Vec<Published>,
    pub left_out: Vec<LeftOut>,
    /// In the order in which they were taken.
    pub steps: Vec<Step>,
}

/// The step of a load that has not ended.
const BEGUN: &str = "load";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The slot's set.
    Published,
    /// There is no store, no set for this slot, or nothing is slotted.
    Nothing,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The step that failed.
    pub step: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    pub kind: Kind,
    pub id: Id,
    pub name: Name,
    /// In the real root.
    pub image: PathBuf,
}

/// An optional image that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    pub kind: Kind,
    pub name: Name,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub step: String,
    pub micros: u64,
}

impl Report {
    pub(super) fn new(store: PathBuf) -> Self {
        Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            loader_version: env!("CARGO_PKG_VERSION").to_owned(),
            outcome: Outcome::Nothing,
            failure: None,
            slot: None,
            mode: None,
            os_version: None,
            store,
            confext: None,
            update_boot: false,
            published: Vec::new(),
            left_out: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// What stands there while a loader works, and stays there if it is killed: a load that did not end is a
    /// failed one.
    pub fn begun(store: PathBuf) -> Self {
        let failure =
            Failure { step: BEGUN.to_owned(), reason: "it did not come to its end".to_owned() };
        Self { outcome: Outcome::Failed, failure: Some(failure), ..Self::new(store) }
    }

    /// Whether a loader got further than its beginning.
    pub(super) fn ended(&self) -> bool {
        self.failure.as_ref().is_none_or(|failure| failure.step != BEGUN)
    }

    /// Runs one step and notes how long it took, whatever it gave.
    pub(super) fn step<T>(&mut self, step: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let begun = Instant::now();
        let result = work(self);
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.steps.push(Step { step: step.to_owned(), micros });
        result
    }

    /// Whole, or not at all.
    ///
    /// # Errors
    /// Of the file system.
    pub fn write(&self, tree: &Tree) -> io::Result<()> {
        let path = tree.place(REPORT_PATH.as_ref()).map_err(io::Error::other)?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        durable::replace(&path, &serde_json::to_vec_pretty(self)?)
    }

    /// `None`: no loader ran in this boot, or its report cannot be read.
    pub fn read(tree: &Tree) -> Option<Self> {
        /// Of 256 extensions with long names.
        const MAX_BYTES: u64 = 1024 * 1024;
        let bytes = tree.read(REPORT_PATH.as_ref(), MAX_BYTES).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}
