use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::contract::{Id, Operation, Phase, Request, Status, Update, Utc};

/// The version of the format that this agent writes.
const VERSION: u32 = 1;
/// Stands for a boot that no record tells of: no boot has this id.
pub const LOST_BOOT: &str = "lost";
/// Most finished operations that are remembered.
const MAX_COMPLETED: usize = 32;
/// Most events that Nebraska may be owed.
const MAX_OWED: usize = 128;

/// Fields that a newer agent wrote: kept, so that its file survives an older agent after a rollback.
type Unknown = Map<String, Value>;

/// Everything that the agent remembers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    #[serde(default = "version")]
    version: u32,
    /// The machine that this file belongs to: its machine id, hashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) machine: Option<String>,
    /// Accepted, not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<InFlight>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// A finalize or rollback that waits for its reboot, or for the commit after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_commit: Option<PendingCommit>,
    /// Oldest first.
    #[serde(default)]
    pub completed: Vec<Completed>,
    /// The newest broken annotation whose `operationId` could not be read, answered once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// Oldest first.
    #[serde(default)]
    pub owed_events: Vec<OwedEvent>,
    #[serde(flatten)]
    unknown: Unknown,
}

fn version() -> u32 {
    VERSION
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: VERSION,
            machine: None,
            operation: None,
            staged: None,
            pending_commit: None,
            completed: Vec::new(),
            refused: None,
            owed_events: Vec::new(),
            unknown: Unknown::new(),
        }
    }
}

/// An accepted request on its way to a recorded outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    pub request: Request,
    pub from_version: String,
    pub started: Utc,
    /// How often its unit was started, or could not be.
    pub starts: u32,
    /// Why its unit could not be started the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What Nebraska offered and this operation accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    /// Set before tridentd is asked to arm the boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arming: Option<Arming>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// "From here on the next boot may be another slot's."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arming {
    /// The boot id at that time.
    pub boot_marker: String,
}

/// An image as Nebraska offered it. The URL may be pre-signed: never logged whole.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    pub version: String,
    pub url: String,
    /// Lower-case hexadecimal.
    pub sha384: String,
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").field("version", &self.version).finish_non_exhaustive()
    }
}

/// What stands on the inactive slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Staged {
    pub node_update_id: Id,
    pub update: Update,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// An armed boot: the reboot, then the commit, are still to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingCommit {
    pub request: Request,
    pub from_version: String,
    /// The boot id when the boot was armed; a different one now means that the node rebooted.
    pub boot_marker: String,
    /// Seconds since that boot when it was armed.
    #[serde(default)]
    pub armed_at_uptime: u64,
    #[serde(flatten)]
    unknown: Unknown,
}

/// An operation with a terminal status, and the commit that followed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Completed {
    pub status: Status,
    pub published: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitRecord>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// The commit's status: announced as `InProgress` first, then its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitRecord {
    pub status: Status,
    /// Whether `InProgress` was published.
    pub announced: bool,
    /// Whether the terminal status was.
    pub published: bool,
}

/// An annotation that broke the contract, and the answer to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// The annotation's text, hashed.
    pub digest: String,
    pub status: Status,
    pub published: bool,
}

/// An event that Nebraska has not taken yet.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwedEvent {
    /// Of the request that the event tells of.
    pub operation_id: Id,
    pub node_update_id: Id,
    pub operation: Phase,
    pub target_version: String,
    pub server: Url,
    pub app_id: String,
    pub track: String,
    /// The version that the node ran when the event happened.
    pub version: String,
    pub event: EventKind,
}

impl std::fmt::Debug for OwedEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwedEvent")
            .field("operation_id", &self.operation_id)
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

/// The events that exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum EventKind {
    DownloadStarted,
    DownloadFinished,
    Installed,
    Complete { previous_version: String },
    Failed,
}

impl State {
    /// The finished operation with this id.
    pub fn find(&self, operation_id: &Id) -> Option<&Completed> {
        self.completed.iter().rev().find(|done| done.status.operation_id == *operation_id)
    }

    pub fn find_mut(&mut self, operation_id: &Id) -> Option<&mut Completed> {
        self.completed.iter_mut().rev().find(|done| done.status.operation_id == *operation_id)
    }

    /// Remembers a terminal status; ends the operation in flight if it is that one's.
    pub fn complete(&mut self, status: Status) {
        if self.operation.as_ref().is_some_and(|it| it.request.operation_id == status.operation_id)
        {
            self.operation = None;
        }
        self.remember(Completed::new(status));
    }

    /// Remembers what was done, instead of what else was known of it.
    pub fn remember(&mut self, done: Completed) {
        self.completed.retain(|it| it.status.operation_id != done.status.operation_id);
        self.completed.push(done);
        self.forget_old();
    }

    /// Only what is published and awaits nothing may be forgotten.
    fn forget_old(&mut self) {
        while self.completed.len() > MAX_COMPLETED {
            let pending = self.pending_commit.as_ref().map(|it| it.request.operation_id.clone());
            let old = self.completed.iter().position(|done| {
                done.is_settled() && Some(&done.status.operation_id) != pending.as_ref()
            });
            // With an API server away for long, the oldest goes all the same: the file stays bounded.
            self.completed.remove(old.unwrap_or(0));
        }
    }

    /// Owes Nebraska one more event.
    pub fn owe(&mut self, event: OwedEvent) {
        self.owed_events.push(event);
        while self.owed_events.len() > MAX_OWED {
            self.owed_events.remove(0);
        }
    }
}

impl InFlight {
    pub fn new(request: Request, from_version: String, started: Utc) -> Self {
        Self {
            request,
            from_version,
            started,
            starts: 0,
            trouble: None,
            offer: None,
            arming: None,
            unknown: Unknown::new(),
        }
    }

    /// The `InProgress` status that stands on the Node while it runs.
    pub fn status(&self) -> Status {
        let phase = self.request.operation().into();
        let from = Some(self.from_version.clone());
        let doing = match self.request.work.operation() {
            Operation::Stage => "staging",
            Operation::Finalize => "arming the boot of the staged slot",
            Operation::Rollback => "rolling back to the previous slot",
        };
        Status::begin(&self.request, phase, from, self.started).with_message(doing)
    }
}

impl Staged {
    pub fn new(node_update_id: Id, update: Update, offer: Option<Offer>) -> Self {
        Self { node_update_id, update, offer, unknown: Unknown::new() }
    }
}

impl PendingCommit {
    pub fn new(operation: &InFlight, boot_marker: String, armed_at_uptime: u64) -> Self {
        Self {
            request: operation.request.clone(),
            from_version: operation.from_version.clone(),
            boot_marker,
            armed_at_uptime,
            unknown: Unknown::new(),
        }
    }
}

impl Completed {
    pub fn new(status: Status) -> Self {
        Self { status, published: false, commit: None, unknown: Unknown::new() }
    }

    /// Nothing of it is left to publish.
    pub fn is_settled(&self) -> bool {
        let commit_settled = self.commit.as_ref().is_none_or(|commit| commit.published);
        self.published && commit_settled
    }
}

impl CommitRecord {
    pub fn new(status: Status) -> Self {
        Self { status, announced: false, published: false }
    }
}
