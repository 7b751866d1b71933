//! The steps on the host.

use std::time::Duration;

use tracing::{Instrument, error, info, warn};

use super::{WatchError, Watcher, names};
use crate::contract::chain;
use crate::contract::{
    Code, Request, Status, Utc, commit_span, log_end, message_id, request_span, status_span,
};
use crate::decide::{Act, Recovery};
use crate::state::{
    Arming, CommitRecord, Completed, InFlight, LOST_BOOT, PendingCommit, Refused, State,
};

/// Between two requests for the same reboot, and between two starts of the commit unit.
const AGAIN: Duration = Duration::from_secs(10);

impl Watcher {
    /// Whether there is something new to look at.
    pub(super) async fn act(&mut self, act: Act) -> Result<bool, WatchError> {
        match act {
            Act::Wait => Ok(false),
            Act::Reboot | Act::RunCommit | Act::Start { .. } if !self.acted.is_open() => Ok(false),
            Act::Reboot => self.reboot().await,
            Act::RunCommit => self.run_commit().await,
            Act::Start { resumed } => self.start(resumed).await,
            act => {
                self.record(act)?;
                Ok(true)
            }
        }
    }

    /// The steps that only change the state.
    fn record(&mut self, act: Act) -> Result<(), WatchError> {
        match act {
            Act::Accept(operation) => {
                let _span = request_span(&operation.request).entered();
                info!("accepted the request, from version {}", operation.from_version);
                self.store.update(|state| accept(state, *operation))?;
                // What an earlier operation had to wait for is not this one's.
                self.acted.reset();
            }
            Act::Withdraw => {
                info!("the request was taken away before its start");
                self.store.update(withdraw)?;
            }
            Act::Complete(status) => {
                log_outcome(&status);
                self.store.update(|state| state.complete(*status))?;
            }
            Act::Refuse { digest, status } => {
                log_outcome(&status);
                let refused = Refused { digest, status: *status, published: false };
                self.store.update(|state| state.refused = Some(refused))?;
            }
            Act::Adopt { status, commit } => {
                let _span = status_span(&status).entered();
                warn!(
                    "the state file does not know this operation, taking the Node's word for its outcome"
                );
                self.store.update(|state| adopt(state, *status, commit.map(|commit| *commit)))?;
            }
            Act::Recover(recovery) => self.recover(*recovery)?,
            Act::Announce(status) => {
                self.store.update(|state| announce(state, *status))?;
            }
            Act::Wait | Act::Start { .. } | Act::Reboot | Act::RunCommit => {}
        }
        Ok(())
    }

    /// On the target, only the commit is left. Else the operation is resumed, and asks tridentd how far it
    /// had come.
    fn recover(&mut self, recovery: Recovery) -> Result<(), WatchError> {
        let _span = request_span(&recovery.request).entered();
        warn!(
            on_target = recovery.on_target,
            "the state of this operation was lost, recovering it"
        );
        let from = recovery.status.from_version.clone().unwrap_or_default();
        let mut operation = InFlight::new(recovery.request, from, recovery.status.started_utc);
        operation.starts = 1;
        operation.arming = Some(Arming { boot_marker: LOST_BOOT.to_owned() });
        self.store.update(|state| {
            if recovery.on_target {
                state.pending_commit =
                    Some(PendingCommit::new(&operation, LOST_BOOT.to_owned(), 0));
                let message = "the boot was armed; found out after the state file was lost";
                state.complete(recovery.status.finish(Code::Success, message, Utc::now()));
            } else {
                state.operation = Some(operation);
            }
        })?;
        Ok(())
    }

    async fn start(&mut self, resumed: bool) -> Result<bool, WatchError> {
        let started = self.store.update(|state| {
            let operation = state.operation.as_mut()?;
            operation.starts = operation.starts.saturating_add(1);
            operation.trouble = None;
            Some((operation.request.clone(), operation.starts))
        })?;
        let Some((request, starts)) = started else {
            return Ok(true);
        };
        let span = request_span(&request);
        self.start_unit(&request, starts, resumed).instrument(span).await
    }

    async fn start_unit(
        &mut self,
        request: &Request,
        starts: u32,
        resumed: bool,
    ) -> Result<bool, WatchError> {
        let systemd = self.systemd().await?;
        let unit = names::transient(request, &self.program, &self.config);
        if let Err(error) = systemd.clear_finished(&names::all_operations()).await {
            warn!("cannot clear finished units, ignoring: {}", chain(&error));
        }
        match systemd.start_transient(&unit).await {
            Ok(()) => {
                let message_id = message_id::OPERATION_STARTED;
                info!(
                    message_id,
                    unit = unit.name,
                    starts,
                    resumed,
                    "started the operation's unit"
                );
                Ok(true)
            }
            Err(error) => {
                let trouble = chain(&error);
                error!("cannot start the operation's unit: {trouble}");
                self.store.update(|state| {
                    if let Some(operation) = &mut state.operation {
                        operation.trouble = Some(trouble);
                    }
                })?;
                self.acted.close(None);
                Ok(false)
            }
        }
    }

    async fn reboot(&mut self) -> Result<bool, WatchError> {
        let Some(pending) = self.store.read()?.pending_commit else {
            return Ok(true);
        };
        let span = request_span(&pending.request);
        self.ask_for_reboot(&pending).instrument(span).await
    }

    async fn ask_for_reboot(&mut self, pending: &PendingCommit) -> Result<bool, WatchError> {
        let published = self
            .store
            .read()?
            .find(&pending.request.operation_id)
            .is_none_or(|done| done.published);
        if !published {
            error!(
                "rebooting though the API server has not taken the status: it is published after the boot"
            );
        }
        let systemd = self.systemd().await?;
        let asked = systemd.reboot().await;
        self.acted.close(Some(AGAIN));
        match asked {
            Ok(()) => {
                info!(message_id = message_id::REBOOT_ASKED, "asked for the reboot");
                Ok(true)
            }
            Err(refused) if refused.is_refusal() => {
                let held = systemd.shutdown_inhibitors().await.unwrap_or_default().join(", ");
                self.say_refused(pending, &held, &chain(&refused))
            }
            Err(unknown) => {
                // A shutdown ends the bus too: the answer may be lost because the reboot has begun.
                self.systemd = None;
                warn!(
                    "no answer to the request for the reboot, asking again if it does not come: {}",
                    chain(&unknown)
                );
                Ok(false)
            }
        }
    }

    fn say_refused(
        &mut self,
        pending: &PendingCommit,
        held: &str,
        reason: &str,
    ) -> Result<bool, WatchError> {
        error!(held_by = held, "the reboot was refused, asking again: {}", reason);
        let message = match held.is_empty() {
            true => format!("the boot is armed; the reboot was refused, asking again: {reason}"),
            false => format!("the boot is armed; the reboot is held by {held}, asking again"),
        };
        self.store.update(|state| remark(state, pending, &message))?;
        Ok(true)
    }

    async fn run_commit(&mut self) -> Result<bool, WatchError> {
        let Some(pending) = self.store.read()?.pending_commit else {
            return Ok(true);
        };
        let span = commit_span(&pending.request);
        let run = async {
            let systemd = self.systemd().await?;
            let waits_for = systemd.jobs().await.unwrap_or_default().join(", ");
            error!(waits_for, "the commit is overdue, starting it; queued jobs: [{}]", waits_for);
            systemd.reset_failed(names::COMMIT).await?;
            systemd.start(names::COMMIT).await?;
            self.acted.close(Some(AGAIN));
            Ok(true)
        };
        run.instrument(span).await
    }

    pub(super) async fn deliver(&mut self) -> Result<bool, WatchError> {
        let systemd = self.systemd().await?;
        systemd.start(names::REPORT).await?;
        self.delivered.close(Some(AGAIN));
        Ok(false)
    }
}

fn log_outcome(status: &Status) {
    let _span = status_span(status).entered();
    log_end(message_id::OPERATION_ENDED, status.code, status.message.as_str());
}

/// Only while nothing else is: another agent may have been quicker.
fn accept(state: &mut State, operation: InFlight) {
    let known = state.find(&operation.request.operation_id).is_some();
    if state.operation.is_none() && state.pending_commit.is_none() && !known {
        state.operation = Some(operation);
    }
}

fn withdraw(state: &mut State) {
    state.operation.take_if(|operation| operation.starts == 0);
}

fn adopt(state: &mut State, status: Status, commit: Option<Status>) {
    let mut done = Completed::new(status);
    done.published = true;
    done.commit = commit.map(|status| CommitRecord { announced: true, published: true, status });
    state.completed.push(done);
}

fn announce(state: &mut State, status: Status) {
    if let Some(done) = state.find_mut(&status.operation_id) {
        done.commit.get_or_insert_with(|| CommitRecord::new(status));
    }
}

/// Says something new under the same terminal status.
fn remark(state: &mut State, pending: &PendingCommit, message: &str) {
    if let Some(done) = state.find_mut(&pending.request.operation_id) {
        let status = done.status.clone().with_message(message);
        if status != done.status {
            done.status = status;
            done.published = false;
        }
    }
}
