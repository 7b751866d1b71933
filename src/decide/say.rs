use super::{Asked, View};
use crate::contract::{Code, Id, Status};
use crate::state::{Completed, InFlight};

/// Which of our two annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Status,
    CommitStatus,
}

/// One status to write, and what to record once the API server has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Publish {
    pub key: Key,
    pub status: Status,
    pub mark: Mark,
}

/// Which record is published by a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    Nothing,
    Operation(Id),
    CommitAnnounced(Id),
    Commit(Id),
    Refused,
}

/// What the Node does not say yet: recorded outcomes first, oldest first, then what is under way, then
/// what somebody else overwrote.
pub(super) fn say(view: &View<'_>) -> Option<Publish> {
    if !view.is_node_known() {
        return None;
    }
    unpublished(view)
        .or_else(|| refused(view))
        .or_else(|| in_flight(view))
        .or_else(|| commit(view))
        .or_else(|| overwritten(view))
}

fn unpublished(view: &View<'_>) -> Option<Publish> {
    let done = view.state.completed.iter().find(|done| !done.published)?;
    let mark = Mark::Operation(done.status.operation_id.clone());
    Some(publish(Key::Status, &done.status, mark, view))
}

fn refused(view: &View<'_>) -> Option<Publish> {
    let refused = view.state.refused.as_ref().filter(|refused| !refused.published)?;
    Some(publish(Key::Status, &refused.status, Mark::Refused, view))
}

/// Before the start the Node must say `InProgress`; after it, a heartbeat says so again. Not over an end: it
/// came to that before its record was lost, and whoever has read it may have acted on it.
fn in_flight(view: &View<'_>) -> Option<Publish> {
    let operation = view.state.operation.as_ref()?;
    let due = match operation.starts {
        0 => view.asks_for(&operation.request.operation_id) && !is_announced(view),
        _ => view.heartbeat_due && !has_ended(view, operation),
    };
    due.then(|| publish(Key::Status, &operation.status(), Mark::Nothing, view))
}

/// By the Node's word.
fn has_ended(view: &View<'_>, operation: &InFlight) -> bool {
    let said = view.annotations.status.as_ref();
    said.is_some_and(|said| {
        said.operation_id == operation.request.operation_id && said.code.is_terminal()
    })
}

/// Whether the Node says that the operation in flight is in progress.
pub(super) fn is_announced(view: &View<'_>) -> bool {
    let said = view.annotations.status.as_ref();
    view.state.operation.as_ref().zip(said).is_some_and(|(operation, said)| {
        said.operation_id == operation.request.operation_id && said.code == Code::InProgress
    })
}

/// The commit is announced before its outcome, however quick it was.
fn commit(view: &View<'_>) -> Option<Publish> {
    let commits = view.state.completed.iter().filter_map(|done| done.commit.as_ref());
    commits.into_iter().find_map(|commit| {
        let id = commit.status.operation_id.clone();
        let begun = || commit.status.clone().begun("committing the booted slot");
        if !commit.announced {
            Some(publish(Key::CommitStatus, &begun(), Mark::CommitAnnounced(id), view))
        } else if commit.status.code.is_terminal() {
            let mark = Mark::Commit(id);
            (!commit.published).then(|| publish(Key::CommitStatus, &commit.status, mark, view))
        } else {
            view.heartbeat_due.then(|| publish(Key::CommitStatus, &begun(), Mark::Nothing, view))
        }
    })
}

/// What the Node should say and does not, though it did. Not while an operation runs: then the annotation is
/// that one's.
fn overwritten(view: &View<'_>) -> Option<Publish> {
    if view.state.operation.is_some() {
        return None;
    }
    outlived(view).or_else(|| {
        if is_anothers_word(view) {
            return None;
        }
        match view.answered() {
            Some(done) => answer_overwritten(view, done),
            None => refused_overwritten(view),
        }
    })
}

/// What was asked for now was refused, and this is the outcome of the operation that it met. It stands until
/// its commit is done, and for a heartbeat at least: whoever reads from time to time is to find it, too.
fn is_anothers_word(view: &View<'_>) -> bool {
    let refused = view.answered().is_none_or(|done| done.status.code == Code::InvalidRequest);
    let said = view.annotations.status.as_ref().map(|said| &said.operation_id);
    let other = said.filter(|id| view.asked_id() != Some(*id) && view.state.find(id).is_some());
    let pending = view.state.pending_commit.as_ref().map(|it| &it.request.operation_id);
    refused && other.is_some() && (other == pending || !view.has_stood)
}

fn refused_overwritten(view: &View<'_>) -> Option<Publish> {
    let refused = view.state.refused.as_ref()?;
    let same = matches!(&view.annotations.asked, Asked::Broken { digest, .. } if *digest == refused.digest);
    (same && differs(view.annotations.status.as_ref(), &refused.status))
        .then(|| publish(Key::Status, &refused.status, Mark::Nothing, view))
}

fn answer_overwritten(view: &View<'_>, done: &Completed) -> Option<Publish> {
    if differs(view.annotations.status.as_ref(), &done.status) {
        return Some(publish(Key::Status, &done.status, Mark::Nothing, view));
    }
    let commit = done.commit.as_ref().filter(|commit| commit.published)?;
    differs(view.annotations.commit_status.as_ref(), &commit.status)
        .then(|| publish(Key::CommitStatus, &commit.status, Mark::Nothing, view))
}

/// `InProgress` of what has ended: a write that was held up on its way overtook nothing, but came last.
fn outlived(view: &View<'_>) -> Option<Publish> {
    let ended = |said: &Option<Status>| {
        let said = said.as_ref().filter(|said| !said.code.is_terminal())?;
        view.state.find(&said.operation_id)
    };
    if let Some(done) = ended(&view.annotations.status) {
        return Some(publish(Key::Status, &done.status, Mark::Nothing, view));
    }
    let commit = ended(&view.annotations.commit_status)?.commit.as_ref()?;
    commit.published.then(|| publish(Key::CommitStatus, &commit.status, Mark::Nothing, view))
}

/// Where the API server had no room for the message, the status stands there without it.
fn differs(said: Option<&Status>, recorded: &Status) -> bool {
    let short = || recorded.clone().with_message("");
    said.is_none_or(|said| !said.says_the_same(recorded) && !said.says_the_same(&short()))
}

fn publish(key: Key, status: &Status, mark: Mark, view: &View<'_>) -> Publish {
    Publish { key, status: status.clone().at(view.now), mark }
}
