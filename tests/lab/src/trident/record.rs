//! What was asked of the stand-in.

use std::time::Instant;

use serde_json::Value;
use tonic::Code;

use super::proto::v1::ServicingKind;

/// The methods of tridentd's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the interface's")]
pub enum Method {
    Update,
    UpdateStage,
    UpdateFinalize,
    Rollback,
    RollbackStage,
    RollbackFinalize,
    Commit,
    Version,
    GetServicingState,
    GetActiveVolume,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `Completed` with success.
    Succeeded(ServicingKind),
    /// `Completed` with a failure; the subkind, if it had a structured error.
    Failed(Option<String>),
    /// The stream ended without `Completed`.
    Cut,
    /// A gRPC status.
    Status(Code),
    /// A unary call was answered.
    Answered,
    /// The daemon died while it ran.
    Aborted,
}

/// One call.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// What was called.
    pub method: Method,
    /// The request, in short: `url`, `sha384`, `config`, `reboot`, `kind`, where there are such.
    pub request: Value,
    /// The `:authority` it came with.
    pub authority: String,
    /// When it came.
    pub started: Instant,
    /// When it ended; `None` while it runs.
    pub ended: Option<Instant>,
    /// How it ended; `None` while it runs.
    pub outcome: Option<Outcome>,
}
