//! Commit: after the boot, tridentd says whether it is the one that was armed.

use tracing::info;

use super::OperateError;
use super::again::{PAUSE, broke_off};
use super::answer::answer;
use super::extensions;
use super::means::Means;
use super::owe::owe;
use crate::contract::chain;
use crate::contract::{Code, Phase, Status, Utc, log_end, message_id};
use crate::decide::{Verdict, after_commit, with_extensions};
use crate::state::{CommitRecord, Completed, EventKind, PendingCommit, State};
use crate::trident::{Error, Served};

/// How often a call that broke off is made again: a second commit is told "nothing to do".
const TRIES: u32 = 3;

pub(super) async fn run(means: &Means, pending: &PendingCommit) -> Result<Code, OperateError> {
    let from = &pending.from_version;
    info!(from_version = from, "the node rebooted, committing");
    let begun = Status::begin(&pending.request, Phase::Commit, Some(from.clone()), Utc::now());
    means.store.update(|state| begin(state, pending, begun))?;
    let served = call(means).await?;
    let how = &means.config.current_version;
    // What stands in for a version proves nothing.
    let running = means.host.version_in_file(how).ok();
    let verdict = after_commit(&answer(&served), &pending.request, from, running.as_deref());
    // Before the outcome is recorded: an attempt that dies in between does both again.
    let trouble = extensions::settle(&means.host, verdict.code);
    let verdict = with_extensions(verdict, trouble.as_deref());
    log_end(message_id::COMMIT_ENDED, verdict.code, &verdict.message);
    let code = verdict.code;
    let version = running.or_else(|| means.host.version(how).ok());
    let version = version.as_deref().or(pending.request.target_version()).unwrap_or(from);
    means.store.update(|state| record(state, pending, verdict, version))?;
    Ok(code)
}

/// tridentd away is no outcome: the commit stays pending and is tried again.
async fn call(means: &Means) -> Result<Result<Served, Error>, OperateError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match means.trident.commit(means.config.finalize_timeout).await {
            Err(source @ Error::Unreachable { .. }) => {
                return Err(OperateError::CommitNotTaken { source });
            }
            Err(error) if broke_off(&error) && tries < TRIES => {
                info!("the commit call broke off, calling again: {}", chain(&error));
                tokio::time::sleep(PAUSE).await;
            }
            served => return Ok(served),
        }
    }
}

/// The record that the commit's status stands in; made anew where it was lost.
fn begin(state: &mut State, pending: &PendingCommit, begun: Status) {
    if state.find(&pending.request.operation_id).is_none() {
        let phase = pending.request.operation().into();
        let from = Some(pending.from_version.clone());
        let message = "the boot was armed";
        let lost = Status::begin(&pending.request, phase, from, begun.started_utc).finish(
            Code::Success,
            message,
            begun.started_utc,
        );
        state.completed.push(Completed::new(lost));
    }
    if let Some(done) = state.find_mut(&pending.request.operation_id) {
        done.commit.get_or_insert_with(|| CommitRecord::new(begun));
    }
}

fn record(state: &mut State, pending: &PendingCommit, verdict: Verdict, version: &str) {
    let event = match verdict.code {
        Code::Success => EventKind::Complete { previous_version: pending.from_version.clone() },
        _ => EventKind::Failed,
    };
    if let Some(commit) =
        state.find_mut(&pending.request.operation_id).and_then(|done| done.commit.as_mut())
    {
        commit.status = commit
            .status
            .clone()
            .finish(verdict.code, &verdict.message, Utc::now())
            .with_trident_error(verdict.trident_error);
    }
    state.pending_commit = None;
    state.staged = None;
    // A rollback is no business of Nebraska's.
    if let Some(update) = pending.request.work.update() {
        owe(state, (&pending.request, Phase::Commit), update, version, event);
    }
}
