//! The state file does not know an operation, but the Node says that it was begun: the file was lost, or an
//! answer of the API server was.

use super::{Act, Recovery, View, is_on_target};
use crate::contract::{Code, Id, Phase, Request, Status};

/// In progress by the Node's word, and neither recorded nor asked for: without an end it would stay so for
/// ever.
pub(super) fn orphaned(view: &View<'_>) -> Option<Act> {
    let said = &view.annotations;
    let asked = |it: &Status| view.asks_for(&it.operation_id) && view.answered().is_none();
    let open = |it: &&Status| !it.code.is_terminal() && !asked(it);
    let known = |it: &Status| view.state.find(&it.operation_id);
    let operation = said.status.as_ref().filter(open).filter(|it| known(it).is_none());
    if let Some(status) = operation {
        return Some(adopt(view, status));
    }
    let no_commit = |it: &&Status| known(it).is_none_or(|done| done.commit.is_none());
    let commit = said.commit_status.as_ref().filter(open).filter(no_commit)?;
    Some(lost_commit(view, commit))
}

fn lost_commit(view: &View<'_>, commit: &Status) -> Act {
    let ours = |it: &&Status| it.operation_id == commit.operation_id && it.code.is_terminal();
    let done = view.state.find(&commit.operation_id).map(|done| &done.status);
    let status = done.or(view.annotations.status.as_ref().filter(ours));
    let status = status.cloned().unwrap_or_else(|| before(commit));
    let message =
        "the record of this commit was lost, and so was its request: how it ended is not known";
    let commit = ended(view, commit, Code::AgentInternalError, message);
    Act::Adopt { status: Box::new(status), commit: Some(Box::new(commit)) }
}

/// What a commit follows: an armed boot. Only a rollback names no target.
fn before(commit: &Status) -> Status {
    let operation = match commit.to_version {
        Some(_) => Phase::Finalize,
        None => Phase::Rollback,
    };
    let mut status = commit.clone();
    status.operation = operation;
    status.finish(Code::Success, "the boot was armed", commit.started_utc)
}

/// `None`: nothing of it needs to be accounted for.
pub(super) fn already_begun(view: &View<'_>, request: &Request) -> Option<Act> {
    let ours = |status: &&Status| {
        // The nil id stands for one that could not be read: that answer was to another text.
        let unread = status.operation_id == Id::nil() && status.code == Code::InvalidRequest;
        status.operation_id == request.operation_id && !unread
    };
    let status = view.annotations.status.as_ref().filter(ours)?;
    let commit = view.annotations.commit_status.as_ref().filter(ours);
    // What was begun counts: the request may use its id for something else by now.
    match (status.operation, status.code, commit) {
        (Phase::Stage, Code::InProgress, _) => None,
        (Phase::Stage | Phase::Commit, _, _) => Some(adopt(view, status)),
        (_, Code::InProgress | Code::Success, Some(commit)) if commit.code.is_terminal() => {
            Some(adopt_committed(view, status, commit))
        }
        (begun, Code::InProgress | Code::Success, _) if begun == request.operation().into() => {
            Some(recover(view, request, status))
        }
        (_, _, _) => Some(adopt(view, status)),
    }
}

fn adopt(view: &View<'_>, status: &Status) -> Act {
    let message = "its record was lost, and so was its request: how far it came is not known";
    let status = ended(view, status, Code::AgentInternalError, message);
    Act::Adopt { status: Box::new(status), commit: None }
}

/// A commit has followed, so the boot was armed, whatever the older annotation still says.
fn adopt_committed(view: &View<'_>, status: &Status, commit: &Status) -> Act {
    let message = "the boot was armed; found out from the status of its commit";
    let status = ended(view, status, Code::Success, message);
    Act::Adopt { status: Box::new(status), commit: Some(Box::new(commit.clone())) }
}

/// As it ended; or, where the Node says no end, with this one.
fn ended(view: &View<'_>, status: &Status, code: Code, message: &str) -> Status {
    match status.code.is_terminal() {
        true => status.clone(),
        false => status.clone().finish(code, message, view.now),
    }
}

/// The active version decides.
fn recover(view: &View<'_>, request: &Request, status: &Status) -> Act {
    let from = status.from_version.as_deref().unwrap_or_default();
    let on_target = is_on_target(request, from, view.version.unwrap_or_default());
    Act::Recover(Box::new(Recovery { request: request.clone(), status: status.clone(), on_target }))
}
