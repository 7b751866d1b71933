//! The events that the server knows; it acknowledges any other and drops it.

use super::identity::IdentityError;

/// What is reported of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The offer was accepted and its download has begun.
    DownloadStarted,
    /// The stage succeeded.
    DownloadFinished,
    /// The boot into the update is armed.
    Installed,
    /// The node runs the update; sent with a ping and an update check.
    Complete {
        /// The version that the node ran before.
        previous_version: PreviousVersion,
    },
    /// The update failed: releases the instance at the server.
    Failed,
}

impl Event {
    /// Event type and event result: the only pairs that exist.
    pub(super) fn pair(&self) -> (&'static str, &'static str) {
        match self {
            Event::DownloadStarted => ("13", "1"),
            Event::DownloadFinished => ("14", "1"),
            Event::Installed => ("800", "1"),
            Event::Complete { .. } => ("3", "2"),
            Event::Failed => ("3", "0"),
        }
    }

    pub(super) fn previous_version(&self) -> Option<&str> {
        match self {
            Event::Complete { previous_version } => Some(previous_version.as_str()),
            Event::DownloadStarted | Event::DownloadFinished | Event::Installed | Event::Failed => {
                None
            }
        }
    }
}

/// A version that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousVersion(String);

impl PreviousVersion {
    /// The version.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PreviousVersion {
    type Error = IdentityError;

    fn try_from(version: String) -> Result<PreviousVersion, IdentityError> {
        if version.trim().is_empty() {
            return Err(IdentityError::PreviousVersionEmpty);
        }
        Ok(PreviousVersion(version))
    }
}
