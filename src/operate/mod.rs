//! Flow: one operation, from its record in the state to its recorded outcome. Never speaks to Kubernetes.
//!
//! Each runs in a process of its own that systemd started and may end at any time: what was recorded is
//! what the next attempt goes on from.

mod again;
mod answer;
mod arm;
mod commit;
mod error;
mod extensions;
mod finalize;
mod means;
mod offer;
mod owe;
mod record;
mod report;
mod rollback;
mod stage;

use tracing::{Instrument, info, warn};

use crate::config::Config;
use crate::contract::{Code, Id, Message, Operation, Work, chain, commit_span, request_span};
use crate::decide::Verdict;
use crate::host::Host;
use crate::state::{InFlight, PendingCommit};

use means::{Means, breathing};

pub use error::OperateError;

/// What the flow is given.
#[derive(Debug)]
pub struct Setup {
    pub config: Config,
    pub host: Host,
}

/// How a unit of this flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There was nothing to do.
    Idle,
    /// With this terminal code, recorded.
    With(Code),
}

/// Runs the operation that was accepted under this id.
///
/// # Errors
/// [`OperateError`]: no outcome was recorded, and the operation may be started again.
pub async fn operate(
    setup: Setup,
    operation: Operation,
    wanted: &Id,
) -> Result<Ended, OperateError> {
    let means = Means::new(setup)?;
    let _lock = means.lock()?;
    let state = means.store.read()?;
    let asked = state
        .operation
        .filter(|it| it.request.operation_id == *wanted && it.request.operation() == operation);
    let Some(in_flight) = asked else {
        let done = state.completed.iter().any(|done| done.status.operation_id == *wanted);
        return if done { Ok(Ended::Idle) } else { Err(OperateError::NotAsked) };
    };
    let span = request_span(&in_flight.request);
    breathing(run(&means, &in_flight)).instrument(span).await.map(Ended::With)
}

async fn run(means: &Means, operation: &InFlight) -> Result<Code, OperateError> {
    let from = Message::new(&operation.from_version);
    info!("running, start {}, from version {from}", operation.starts);
    let how = &means.config.current_version;
    if let Err(unreadable) = means.host.version_in_file(how) {
        if operation.arming.is_none() && means.host.version(how).is_err() {
            let verdict = Verdict::new(Code::OperationFailed, chain(&unreadable));
            return record::ended(means, operation, verdict, |_| ());
        }
        warn!("going on with what the settings say instead of a version: {}", chain(&unreadable));
    }
    match &operation.request.work {
        Work::Stage(update) => stage::run(means, operation, update).await,
        Work::Finalize(update) => finalize::run(means, operation, update).await,
        Work::Rollback => rollback::run(means, operation).await,
    }
}

/// Resumes what a finalize or rollback left pending across the reboot. Waits for no server.
///
/// # Errors
/// [`OperateError`]: nothing was recorded, the commit is still pending.
pub async fn commit(setup: Setup) -> Result<Ended, OperateError> {
    let means = Means::new(setup)?;
    match pending(&means)? {
        None => Ok(Ended::Idle),
        Some(pending) => {
            let _lock = means.lock()?;
            let span = commit_span(&pending.request);
            breathing(commit::run(&means, &pending)).instrument(span).await.map(Ended::With)
        }
    }
}

fn pending(means: &Means) -> Result<Option<PendingCommit>, OperateError> {
    match means.store.read()?.pending_commit {
        None => {
            info!("no commit is pending");
            Ok(None)
        }
        Some(pending) if pending.boot_marker == means.boot_id => {
            info!("a commit is pending, but the node has not rebooted since: nothing to do yet");
            Ok(None)
        }
        pending => Ok(pending),
    }
}

/// Delivers the events that Nebraska is owed, oldest first.
///
/// # Errors
/// [`OperateError::StillOwed`], or what kept it from trying.
pub async fn report(setup: Setup) -> Result<Ended, OperateError> {
    let means = Means::new(setup)?;
    let mut stop =
        report::Stop::on_terminate().map_err(|source| OperateError::Signal { source })?;
    report::deliver_all(&means, &mut stop).await?;
    Ok(Ended::Idle)
}
