//! What a decision changes in the state: the same code for the watcher and for the model that tests it.

use super::{Act, Mark, Publish, Recovery};
use crate::contract::{Code, Id, Status, Utc};
use crate::state::{
    Arming, CommitRecord, Completed, InFlight, LOST_BOOT, PendingCommit, Refused, State,
};

/// Records a decision, but only if the state is still the one that it was made from: another agent, or the
/// operation itself, may have been quicker. Whether it was recorded; if not, look again.
pub fn apply(state: &mut State, seen: &State, act: &Act, now: Utc) -> bool {
    let current = state == seen;
    if current {
        change(state, act.clone(), now);
    }
    current
}

fn change(state: &mut State, act: Act, now: Utc) {
    match act {
        Act::Wait | Act::Reboot | Act::RunCommit => {}
        Act::Accept(operation) => state.operation = Some(*operation),
        Act::Withdraw => state.operation = None,
        Act::Complete(status) => state.complete(*status),
        Act::Refuse { digest, status } => {
            state.refused = Some(Refused { digest, status: *status, published: false });
        }
        Act::Adopt { status, commit } => adopt(state, *status, commit.map(|commit| *commit)),
        Act::Recover(recovery) => recover(state, *recovery, now),
        Act::Start { .. } => start(state),
        Act::Announce(status) => announce(state, *status),
    }
}

/// Counted before the unit is started: a start that is not known to have failed is one.
fn start(state: &mut State) {
    if let Some(operation) = &mut state.operation {
        operation.starts = operation.starts.saturating_add(1);
        operation.trouble = None;
    }
}

fn adopt(state: &mut State, status: Status, commit: Option<Status>) {
    let mut done = Completed::new(status);
    done.published = true;
    done.commit = commit.map(|status| CommitRecord { announced: true, published: true, status });
    state.remember(done);
}

/// On the target, only the commit is left. Else the operation is resumed, and asks tridentd how far it had
/// come.
fn recover(state: &mut State, recovery: Recovery, now: Utc) {
    let from = recovery.status.from_version.clone().unwrap_or_default();
    let mut operation = InFlight::new(recovery.request, from, recovery.status.started_utc);
    if recovery.on_target {
        state.pending_commit = Some(PendingCommit::new(&operation, LOST_BOOT.to_owned(), 0));
        let message = "the boot was armed; found out after the state file was lost";
        state.complete(recovery.status.finish(Code::Success, message, now));
    } else {
        operation.starts = 1;
        operation.arming = Some(Arming { boot_marker: LOST_BOOT.to_owned() });
        state.operation = Some(operation);
    }
}

fn announce(state: &mut State, status: Status) {
    if let Some(done) = state.find_mut(&status.operation_id) {
        done.commit.get_or_insert_with(|| CommitRecord::new(status));
    }
}

/// Records that the API server has a status; only if the record still says what was written.
pub fn published(state: &mut State, publish: &Publish) {
    let same = |recorded: &Status| recorded.says_the_same(&publish.status);
    match &publish.mark {
        Mark::Nothing => {}
        Mark::Refused => {
            if let Some(refused) = state.refused.as_mut().filter(|it| same(&it.status)) {
                refused.published = true;
            }
        }
        Mark::Operation(id) => {
            if let Some(done) = state.find_mut(id).filter(|it| same(&it.status)) {
                done.published = true;
            }
        }
        Mark::CommitAnnounced(id) => {
            if let Some(commit) = commit_of(state, id) {
                commit.announced = true;
            }
        }
        Mark::Commit(id) => {
            if let Some(commit) = commit_of(state, id).filter(|it| same(&it.status)) {
                commit.published = true;
            }
        }
    }
}

fn commit_of<'a>(state: &'a mut State, id: &Id) -> Option<&'a mut CommitRecord> {
    state.find_mut(id)?.commit.as_mut()
}

/// Says something new under the same terminal status.
pub fn remark(state: &mut State, operation_id: &Id, message: &str) {
    if let Some(done) = state.find_mut(operation_id) {
        let status = done.status.clone().with_message(message);
        if status != done.status {
            done.status = status;
            done.published = false;
        }
    }
}
