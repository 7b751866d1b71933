//! The state file does not know a request, but the Node says that it was begun: the file was lost.

use super::{Act, Recovery, View};
use crate::contract::{Code, Phase, Request, Status};

/// `None`: nothing of it needs to be accounted for.
pub(super) fn already_begun(view: &View<'_>, request: &Request) -> Option<Act> {
    let ours = |status: &&Status| status.operation_id == request.operation_id;
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

/// The active version decides. A rollback names none: there, any other than the one it left.
fn recover(view: &View<'_>, request: &Request, status: &Status) -> Act {
    let on_target = match (view.version, request.target_version()) {
        (None, _) => false,
        (Some(version), Some(target)) => version == target,
        (Some(version), None) => status.from_version.as_deref().is_some_and(|from| from != version),
    };
    Act::Recover(Box::new(Recovery { request: request.clone(), status: status.clone(), on_target }))
}
