//! stage, finalize, reboot, commit; then rollback, reboot, commit.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;
use trident_lab::kube::{Author, Change, Changes};
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, NODE, OLD, REQUEST, Request, STATUS};
use trident_lab::node::BOOT_LIMIT;
use trident_lab::trident::{CallRecord, Method};
use uuid::Uuid;

use crate::screen::Screen;
use crate::{look, scene};

const STEP_LIMIT: Duration = Duration::from_secs(60);
const COMMIT_UNIT: &str = "trident-acl-agent-commit.service";

/// How long a step took, seen from outside.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) took: Duration,
    /// What of it was the stand-in's pretended work.
    pub(crate) tridentd: Duration,
}

struct Teller<'a> {
    lab: &'a Lab,
    screen: &'a Screen,
    changes: Changes,
    steps: Vec<Step>,
}

pub(crate) async fn tell(lab: &Lab, screen: &Screen) -> Result<Vec<Step>> {
    let mut teller = Teller { lab, screen, changes: lab.changes(), steps: Vec::new() };
    let update = Uuid::new_v4();
    teller.here(OLD).await?;

    teller.title(&format!("stage {NEW}"));
    scene::set(&lab.trident, &[Method::UpdateStage]);
    let stage = Request::stage(update);
    teller.carry_out("stage", &stage).await?;
    look::status(&lab.node, screen, &stage.unit()).await?;

    teller.title(&format!("finalize {NEW}"));
    scene::set(&lab.trident, &[Method::UpdateFinalize, Method::Commit]);
    let finalize = Request::finalize(update);
    teller.with_reboot("finalize", &finalize).await?;
    teller.here(NEW).await?;

    teller.title("rollback");
    let rollback_calls = [Method::RollbackStage, Method::RollbackFinalize, Method::Commit];
    scene::set(&lab.trident, &rollback_calls);
    teller.with_reboot("rollback", &Request::rollback(update)).await?;
    teller.here(OLD).await?;
    teller.journal(&finalize).await?;
    Ok(teller.steps)
}

impl Teller<'_> {
    fn title(&self, text: &str) {
        self.screen.title(text);
    }

    /// What the node says that it runs, and whether that is right.
    async fn here(&self, expected: &str) -> Result<()> {
        let version = self.lab.version().await?;
        let (slot, boot) = (self.lab.trident.booted_slot().slot, self.lab.node.boot_id().await?);
        self.screen.note(&format!("{NODE} runs {version} from slot {slot:?}, boot id {boot}"));
        ensure!(version == expected, "the node runs {version}, not {expected}");
        Ok(())
    }

    async fn carry_out(&mut self, name: &'static str, request: &Request) -> Result<()> {
        let asked = Instant::now();
        let command = format!("orchestrator: annotates {NODE} with {REQUEST}: {}", request.text());
        self.screen.command(&command);
        self.lab.ask(request)?;
        let ended = self.terminal(STATUS, request).await?;
        self.took(name, asked, ended);
        Ok(())
    }

    async fn with_reboot(&mut self, name: &'static str, request: &Request) -> Result<()> {
        let node = &self.lab.node;
        let (before, boots) = (node.boot_id().await?, node.boot_count());
        look::hold_reboot(node).await?;
        self.carry_out(name, request).await?;
        look::status(node, self.screen, &request.unit()).await?;
        let down = Instant::now();
        look::let_reboot(node).await?;
        self.screen.note(&format!("{NODE} goes down for the reboot; its boot id was {before}"));
        node.wait_started(boots + 1, BOOT_LIMIT).await?;
        let up = Instant::now();
        self.took("reboot", down, up);
        self.screen.note(&format!("{NODE} boots again"));
        let ended = self.terminal(COMMIT_STATUS, request).await?;
        self.took("boot, commit", up, ended);
        node.wait_boot(boots + 1, BOOT_LIMIT).await?;
        let after = node.boot_id().await?;
        ensure!(after != before, "the node did not reboot");
        look::status(node, self.screen, COMMIT_UNIT).await
    }

    /// Tells every status until a terminal one under this key, which must be a good one.
    async fn terminal(&mut self, key: &str, request: &Request) -> Result<Instant> {
        let id = request.operation_id().to_owned();
        let deadline = Instant::now() + STEP_LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let change = self.changes.next(left).await.map_err(|_none| {
                anyhow!("{}: no terminal status in {} s", request.unit(), STEP_LIMIT.as_secs())
            })?;
            if change.by == Author::Test {
                continue;
            }
            let status = change.json();
            self.tell(&change, &status);
            if change.key != key || status["operationId"] != id.as_str() {
                continue;
            }
            match status["code"].as_str() {
                Some("InProgress") => {}
                Some("Success") => return Ok(change.at),
                _ => bail!("{} did not end well: {status}", request.operation()),
            }
        }
    }

    fn tell(&self, change: &Change, status: &Value) {
        let text = |field: &str| status[field].as_str().unwrap_or_default();
        let words = format!("({}) {}", text("operation"), text("message"));
        self.screen.status(change.at, &change.key, text("code"), &words);
    }

    fn took(&mut self, name: &'static str, from: Instant, to: Instant) {
        let overlap = |call: CallRecord| {
            Some(call.ended?.min(to).saturating_duration_since(call.started.max(from)))
        };
        let tridentd = self.lab.trident.calls().into_iter().filter_map(overlap).sum();
        let took = to.saturating_duration_since(from);
        self.steps.push(Step { name, took, tridentd });
    }

    /// One request across watcher, unit and commit, and across the reboot.
    async fn journal(&self, request: &Request) -> Result<()> {
        let id = format!("OPERATION_ID={}", request.operation_id());
        self.title("One request in the journal, across the reboot");
        self.screen.note(&format!("{NODE}# journalctl {id}"));
        let command = ["journalctl", "--no-pager", "--no-hostname", &id];
        self.screen.quote(self.lab.node.run(&command).await?.text()?);
        Ok(())
    }
}
