use serde_json::{Value, json};
use uuid::Uuid;

use super::{APP, NEW, SERVER, TRACK};

/// A request as an orchestrator writes it.
#[derive(Clone, Debug)]
pub struct Request(Value);

impl Request {
    /// A stage of the new version, with a new operation id.
    pub fn stage(update: Uuid) -> Self {
        Self::update(update, "stage")
    }

    /// A finalize of the new version, with a new operation id.
    pub fn finalize(update: Uuid) -> Self {
        Self::update(update, "finalize")
    }

    /// A rollback, with a new operation id.
    pub fn rollback(update: Uuid) -> Self {
        Self(json!({
            "schemaVersion": "1.0",
            "nodeUpdateId": update.to_string(),
            "operationId": Uuid::new_v4().to_string(),
            "operation": "rollback",
        }))
    }

    fn update(update: Uuid, operation: &str) -> Self {
        Self(json!({
            "schemaVersion": "1.0",
            "nodeUpdateId": update.to_string(),
            "operationId": Uuid::new_v4().to_string(),
            "operation": operation,
            "targetVersion": NEW,
            "server": SERVER,
            "appId": APP,
            "track": TRACK,
        }))
    }

    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.0[field] = value;
        self
    }

    pub fn operation(&self) -> &str {
        self.0["operation"].as_str().unwrap_or_default()
    }

    pub fn operation_id(&self) -> &str {
        self.0["operationId"].as_str().unwrap_or_default()
    }

    pub fn node_update_id(&self) -> &str {
        self.0["nodeUpdateId"].as_str().unwrap_or_default()
    }

    /// The name of the unit that runs it.
    pub fn unit(&self) -> String {
        format!("trident-acl-agent-{}-{}.service", self.operation(), self.operation_id())
    }

    /// A status that says that it was begun, long ago.
    pub fn begun(&self) -> Value {
        json!({
            "schemaVersion": "1.0",
            "nodeUpdateId": self.node_update_id(),
            "operationId": self.operation_id(),
            "operation": self.operation(),
            "code": "InProgress",
            "message": "",
            "tridentVersion": "0.1.0",
            "startedUtc": "2026-01-01T00:00:00Z",
            "lastUpdatedUtc": "2026-01-01T00:00:00Z",
        })
    }

    /// The annotation's value.
    pub fn text(&self) -> String {
        self.0.to_string()
    }
}
