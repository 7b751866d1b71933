//! What the server knows of an instance and of a group's limits.

use std::time::Instant;

use super::request::EventRequest;

/// The status codes of the real server's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum InstanceStatus {
    /// Registered, nothing granted yet.
    Undefined = 1,
    /// Was offered an update.
    UpdateGranted = 2,
    /// The update failed.
    Error = 3,
    /// The update is complete.
    Complete = 4,
    /// Installed, reboot pending.
    Installed = 5,
    /// Downloaded.
    Downloaded = 6,
    /// Downloading.
    Downloading = 7,
    /// Refused by a limit.
    OnHold = 8,
}

/// One status change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceEvent {
    /// When.
    pub at: Instant,
    /// The new status.
    pub status: InstanceStatus,
    /// The version concerned: offered while in progress, installed when complete.
    pub version: String,
}

/// One machine's application, as the server knows it.
#[derive(Clone, Debug)]
pub struct Instance {
    /// `machineid`.
    pub machine_id: String,
    /// `appid`.
    pub app_id: String,
    /// The group.
    pub track: String,
    /// As last reported; after a completion the version that was granted.
    pub version: String,
    /// The status.
    pub status: InstanceStatus,
    /// Whether events count.
    pub update_in_progress: bool,
    /// The version granted last.
    pub last_update_version: Option<String>,
    /// Every status change, oldest first.
    pub history: Vec<InstanceEvent>,
}

impl Instance {
    /// The statuses of the history, oldest first.
    pub fn statuses(&self) -> Vec<InstanceStatus> {
        self.history.iter().map(|event| event.status).collect()
    }

    pub(super) fn set(&mut self, status: InstanceStatus) {
        self.status = status;
        let granted = self.last_update_version.clone();
        let version = granted.unwrap_or_else(|| self.version.clone());
        if status == InstanceStatus::Complete {
            self.version.clone_from(&version);
        }
        if matches!(status, InstanceStatus::Complete | InstanceStatus::Error) {
            self.update_in_progress = false;
        }
        self.history.push(InstanceEvent { at: Instant::now(), status, version });
    }
}

/// Why an event that was acknowledged had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The group does not exist.
    UnknownGroup,
    /// No such instance.
    UnknownInstance,
    /// Nothing was granted, or it has ended.
    NoUpdateInProgress,
    /// No such pair of type and result.
    UnknownPair,
    /// A completion needs the version before.
    NoPreviousVersion,
}

/// An event that had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedEvent {
    /// When.
    pub at: Instant,
    /// `machineid`.
    pub machine_id: String,
    /// The event.
    pub event: EventRequest,
    /// Why.
    pub reason: DropReason,
}

/// Limits of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Off: every offer is refused with `error-updatesDisabled`.
    pub updates_enabled: bool,
    /// Updates in progress at once.
    pub max_concurrent: u32,
    /// Updates granted, ever; the stand-in's period does not end.
    pub max_per_period: u32,
    /// The first instance's failure disables updates for the group.
    pub safe_mode: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            updates_enabled: true,
            max_concurrent: u32::MAX,
            max_per_period: u32::MAX,
            safe_mode: false,
        }
    }
}
