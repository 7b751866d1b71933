//! Asking, and what the Node was told.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Lab, NODE, Request};
use crate::kube::{ApiServer, Author, Changes};

pub const REQUEST: &str = "acl.microsoft.com/update-request";
pub const STATUS: &str = "acl.microsoft.com/update-status";
pub const COMMIT_STATUS: &str = "acl.microsoft.com/update-commit-status";

impl<K: ApiServer> Lab<K> {
    /// Writes the request annotation, as an orchestrator.
    pub fn ask(&self, request: &Request) -> Result<()> {
        self.ask_text(&request.text())
    }

    pub fn ask_text(&self, text: &str) -> Result<()> {
        self.kube.annotate(NODE, REQUEST, Some(text))
    }

    /// Asks, and waits for the terminal status.
    pub async fn carry_out(&self, request: &Request, limit: Duration) -> Result<Value> {
        self.ask(request)?;
        self.terminal(STATUS, request, limit).await
    }

    /// Waits for a terminal status of this request under this key, and checks all that was published.
    pub async fn terminal(&self, key: &str, request: &Request, limit: Duration) -> Result<Value> {
        let id = request.operation_id().to_owned();
        let waited = self
            .kube
            .wait_for_annotation(NODE, key, limit, move |status| {
                status["operationId"] == id.as_str() && status["code"] != "InProgress"
            })
            .await;
        self.check_published()?;
        waited.with_context(|| format!("no terminal {key} of {}\n{}", request.unit(), self.story()))
    }

    /// Every status that the agent ever wrote on the Node.
    pub fn published(&self) -> Vec<(String, Value)> {
        let by_agent = |author: &Author| matches!(author, Author::Client(_));
        let changes = self.kube.history(NODE).into_iter().filter(|change| by_agent(&change.by));
        changes.map(|change| (change.key.clone(), change.json())).collect()
    }

    /// The codes that were published for this request under this key, repetitions of one folded.
    pub fn codes(&self, key: &str, request: &Request) -> Vec<String> {
        let mut codes: Vec<String> = self
            .published()
            .into_iter()
            .filter(|(at, status)| at == key && status["operationId"] == request.operation_id())
            .map(|(_, status)| status["code"].as_str().unwrap_or_default().to_owned())
            .collect();
        codes.dedup();
        codes
    }

    /// Each status by the contract, and no other key of the Node written.
    pub fn check_published(&self) -> Result<()> {
        self.kube.check_statuses()?;
        for (key, _) in self.published() {
            ensure!(key == STATUS || key == COMMIT_STATUS, "the agent wrote {key}");
        }
        Ok(())
    }
}

impl Lab {
    /// Changes of the Node from now on.
    pub fn changes(&self) -> Changes {
        self.kube.subscribe()
    }
}
