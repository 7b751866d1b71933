//! The steps on the host.

use std::time::Duration;

use tracing::{Instrument, error, info, warn};

use super::{WatchError, Watcher, names};
use crate::contract::chain;
use crate::contract::{
    Message, Request, Status, Utc, commit_span, log_end, message_id, request_span, status_span,
};
use crate::decide::{Act, apply, remark};
use crate::state::{PendingCommit, State};

/// Between two requests for the same reboot, and between two starts of the commit unit.
const AGAIN: Duration = Duration::from_secs(10);

impl Watcher {
    /// `seen`: what was decided from. Whether there is something new to look at.
    pub(super) async fn act(&mut self, act: Act, seen: &State) -> Result<bool, WatchError> {
        match act {
            Act::Wait => Ok(false),
            Act::Reboot | Act::RunCommit | Act::Start { .. } if !self.acted.is_open() => Ok(false),
            Act::Reboot => self.reboot().await,
            Act::RunCommit => self.run_commit().await,
            Act::Start { resumed } => self.start(resumed, seen).await,
            act => self.record(&act, seen),
        }
    }

    /// The steps that only change the state.
    fn record(&mut self, act: &Act, seen: &State) -> Result<bool, WatchError> {
        // An operation is not given up under the hands of a process that just began to work on it.
        let lock = match gives_up(act, seen) {
            true => Some(self.store.lock_operation()?),
            false => None,
        };
        if matches!(lock, Some(None)) {
            return Ok(false);
        }
        if self.store.update(|state| apply(state, seen, act, Utc::now()))? {
            tell(act);
            if matches!(act, Act::Accept(_)) {
                // What an earlier operation had to wait for is not this one's.
                self.acted.reset();
            }
        }
        Ok(true)
    }

    async fn start(&mut self, resumed: bool, seen: &State) -> Result<bool, WatchError> {
        let Some(operation) = &seen.operation else {
            return Ok(true);
        };
        let act = Act::Start { resumed };
        if !self.store.update(|state| apply(state, seen, &act, Utc::now()))? {
            return Ok(true);
        }
        let span = request_span(&operation.request);
        let starts = operation.starts.saturating_add(1);
        self.start_unit(&operation.request, starts, resumed).instrument(span).await
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
                info!(message_id, starts, resumed, "started {}", unit.name);
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
        self.store.update(|state| remark(state, &pending.request.operation_id, &message))?;
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
        // Nothing else waits for it: neither a status nor the reboot.
        if let Err(error) = systemd.start(names::REPORT).await {
            warn!("cannot start {}, ignoring: {}", names::REPORT, chain(&error));
        }
        self.delivered.close(Some(AGAIN));
        Ok(false)
    }
}

/// Whether it ends the operation in flight in that one's stead.
fn gives_up(act: &Act, seen: &State) -> bool {
    let id = seen.operation.as_ref().map(|operation| &operation.request.operation_id);
    matches!(act, Act::Complete(status) if id == Some(&status.operation_id))
}

fn tell(act: &Act) {
    match act {
        Act::Accept(operation) => {
            let _span = request_span(&operation.request).entered();
            info!("accepted the request, from version {}", Message::new(&operation.from_version));
        }
        Act::Withdraw => info!("the request was taken away before its start"),
        Act::Complete(status) | Act::Refuse { status, .. } => log_outcome(status),
        Act::Adopt { status, .. } => {
            let _span = status_span(status).entered();
            warn!(
                "the state file does not know this operation, taking the Node's word for its outcome"
            );
        }
        Act::Recover(recovery) => {
            let _span = request_span(&recovery.request).entered();
            warn!(
                on_target = recovery.on_target,
                "the state of this operation was lost, recovering it"
            );
        }
        Act::Wait | Act::Start { .. } | Act::Announce(_) | Act::Reboot | Act::RunCommit => {}
    }
}

fn log_outcome(status: &Status) {
    let _span = status_span(status).entered();
    log_end(message_id::OPERATION_ENDED, status.code, status.message.as_str());
}
