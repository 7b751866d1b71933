use serde::{Deserialize, Serialize};
use url::Url;

use super::Id;

mod fields;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::{Broken, Problem};

/// What an orchestrator may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Stage,
    Finalize,
    Rollback,
}

impl Operation {
    pub const ALL: [Self; 3] = [Self::Stage, Self::Finalize, Self::Rollback];

    /// The word in a request, a unit name and a log field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Finalize => "finalize",
            Self::Rollback => "rollback",
        }
    }
}

/// A request that keeps every rule of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "Wire")]
pub struct Request {
    pub node_update_id: Id,
    pub operation_id: Id,
    pub work: Work,
}

/// What to do, with what each operation needs for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    Stage(Update),
    Finalize(Update),
    Rollback,
}

/// Which version, and which Omaha instance serves it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    pub target_version: String,
    /// `https`, with a host.
    pub server: Url,
    pub app_id: String,
    pub track: String,
}

impl std::fmt::Debug for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Update")
            .field("target_version", &self.target_version)
            .field("server", &super::origin(&self.server))
            .finish_non_exhaustive()
    }
}

impl Work {
    pub fn operation(&self) -> Operation {
        match self {
            Self::Stage(_) => Operation::Stage,
            Self::Finalize(_) => Operation::Finalize,
            Self::Rollback => Operation::Rollback,
        }
    }

    /// `None` for a rollback.
    pub fn update(&self) -> Option<&Update> {
        match self {
            Self::Stage(update) | Self::Finalize(update) => Some(update),
            Self::Rollback => None,
        }
    }
}

impl Request {
    pub fn operation(&self) -> Operation {
        self.work.operation()
    }

    /// `None` for a rollback.
    pub fn target_version(&self) -> Option<&str> {
        self.work.update().map(|update| update.target_version.as_str())
    }
}

/// The request as it stands in an annotation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    schema_version: &'static str,
    node_update_id: Id,
    operation_id: Id,
    operation: &'static str,
    #[serde(flatten)]
    update: Option<Update>,
}

impl From<Request> for Wire {
    fn from(request: Request) -> Self {
        Self {
            schema_version: super::SCHEMA_VERSION,
            operation: request.operation().name(),
            node_update_id: request.node_update_id,
            operation_id: request.operation_id,
            update: match request.work {
                Work::Stage(update) | Work::Finalize(update) => Some(update),
                Work::Rollback => None,
            },
        }
    }
}

impl TryFrom<serde_json::Value> for Request {
    type Error = Problem;

    /// From a record: a newer agent may have written more there than this one knows.
    fn try_from(mut value: serde_json::Value) -> Result<Self, Problem> {
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| parse::KNOWN.contains(&name.as_str()));
        }
        Self::parse(&value.to_string()).map_err(|broken| broken.problem)
    }
}
