use serde::{Deserialize, Serialize};

use super::{AGENT_VERSION, Id, Message, Operation, Request, SCHEMA_VERSION, Utc};

/// Longest value that is read as a status of ours: it may become part of the state.
const MAX_JSON: usize = 16 * 1024;

/// What a status speaks of. `Commit` stands on the commit key only, the rest never there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Stage,
    Finalize,
    Rollback,
    Commit,
}

impl Phase {
    /// The word in an annotation and a log field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => Operation::Stage.name(),
            Self::Finalize => Operation::Finalize.name(),
            Self::Rollback => Operation::Rollback.name(),
            Self::Commit => "commit",
        }
    }
}

impl From<Operation> for Phase {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Stage => Self::Stage,
            Operation::Finalize => Self::Finalize,
            Operation::Rollback => Self::Rollback,
        }
    }
}

/// The outcome; see the table in `docs/contract.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    InProgress,
    Success,
    AlreadyAtTarget,
    NotStaged,
    OperationFailed,
    TargetBootFailed,
    AgentInternalError,
    InvalidRequest,
}

impl Code {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 8] = [
        Self::InProgress,
        Self::Success,
        Self::AlreadyAtTarget,
        Self::NotStaged,
        Self::OperationFailed,
        Self::TargetBootFailed,
        Self::AgentInternalError,
        Self::InvalidRequest,
    ];

    pub fn is_terminal(self) -> bool {
        self != Self::InProgress
    }

    /// Whether the operation's unit ends well: what `systemctl --failed` shows is the rest.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Success | Self::AlreadyAtTarget)
    }
}

/// Trident's own classification of an error that tridentd returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TridentError {
    pub kind: String,
    pub subkind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// A place in Trident's source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    pub path: String,
    pub line: u32,
}

/// One status annotation: camelCase JSON, absent fields omitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    schema_version: String,
    pub node_update_id: Id,
    pub operation_id: Id,
    pub operation: Phase,
    pub code: Code,
    pub message: Message,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trident_error: Option<TridentError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_version: Option<String>,
    trident_version: String,
    pub started_utc: Utc,
    pub last_updated_utc: Utc,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_utc: Option<Utc>,
}

impl Status {
    /// `InProgress`, from now on. `phase` is the request's own operation or `Commit`. An empty `from` is one
    /// that could not be read.
    pub fn begin(request: &Request, phase: Phase, from: Option<String>, started: Utc) -> Self {
        let to_version = request.work.update().map(|update| update.target_version.clone());
        Self {
            to_version,
            from_version: from.filter(|version| !version.is_empty()),
            ..Self::of(request.node_update_id.clone(), request.operation_id.clone(), phase, started)
        }
    }

    /// A bare `InProgress` under the given ids, for a request that could not be read whole.
    pub fn of(node_update_id: Id, operation_id: Id, phase: Phase, started: Utc) -> Self {
        Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            node_update_id,
            operation_id,
            operation: phase,
            code: Code::InProgress,
            message: Message::new(""),
            trident_error: None,
            from_version: None,
            to_version: None,
            trident_version: AGENT_VERSION.to_owned(),
            started_utc: started,
            last_updated_utc: started,
            finished_utc: None,
        }
    }

    /// The same status with a terminal code. `finishedUtc` is never before `startedUtc`, whatever the
    /// wall clock did in between.
    pub fn finish(mut self, code: Code, message: &str, now: Utc) -> Self {
        self.code = code;
        self.message = Message::new(message);
        self.finished_utc = code.is_terminal().then(|| now.max(self.started_utc));
        self.at(now)
    }

    pub fn from_version(mut self, version: Option<&str>) -> Self {
        self.from_version = version.map(str::to_owned);
        self
    }

    /// The same status as it was before it had an outcome.
    pub fn begun(mut self, doing: &str) -> Self {
        self.code = Code::InProgress;
        self.trident_error = None;
        self.finished_utc = None;
        self.with_message(doing)
    }

    pub fn with_message(mut self, message: &str) -> Self {
        self.message = Message::new(message);
        self
    }

    pub fn with_trident_error(mut self, error: Option<TridentError>) -> Self {
        self.trident_error = error;
        self
    }

    /// Stamped for a write at `now`. In progress it moves with every write, also after the clock was set back:
    /// whoever watches for a stuck node goes by it.
    pub fn at(mut self, now: Utc) -> Self {
        self.last_updated_utc = self.finished_utc.map_or(now, |finished| now.max(finished));
        self
    }

    /// Equal in all but the time of the write.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let other = Self { last_updated_utc: self.last_updated_utc, ..other.clone() };
        *self == other
    }

    /// The annotation's value.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `None` for whatever we did not write ourselves: anything larger than a status of ours can be, too.
    pub fn from_json(text: &str) -> Option<Self> {
        (text.len() <= MAX_JSON).then(|| serde_json::from_str(text).ok())?
    }
}
