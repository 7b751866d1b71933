use super::reject::{self, refusal};
use super::{Act, Asked, Unit, View, lost, say};
use crate::contract::{Code, Phase, Request, Status};
use crate::state::{InFlight, PendingCommit};

/// How often an operation whose unit ended without an outcome is started again.
const MAX_RESUMES: u32 = 3;

/// While the host shuts down, units are stopped and must not be judged: only what must not run is answered.
pub(super) fn act(view: &View<'_>) -> Act {
    if let Some(act) = refusal(view) {
        return act;
    }
    if view.boot.shutting_down {
        return Act::Wait;
    }
    if let Some(operation) = &view.state.operation {
        in_flight(view, operation)
    } else if let Some(pending) = &view.state.pending_commit {
        awaiting_commit(view, pending)
    } else {
        idle(view)
    }
}

/// After a failed attempt the timer decides when. A running operation delivers its own events.
pub(super) fn deliver(view: &View<'_>) -> bool {
    let idle = match view.report_unit {
        Unit::Absent => true,
        Unit::Running => false,
        Unit::Ended { result } => result == "success",
    };
    let idle = idle && !view.boot.shutting_down;
    idle && view.state.operation.is_none() && !view.state.owed_events.is_empty()
}

fn in_flight(view: &View<'_>, operation: &InFlight) -> Act {
    match (view.unit, operation.starts) {
        (Unit::Running, _) => Act::Wait,
        (Unit::Absent | Unit::Ended { .. }, 0) => first_start(view, operation),
        (Unit::Absent | Unit::Ended { .. }, starts) if starts <= MAX_RESUMES => {
            Act::Start { resumed: true }
        }
        (Unit::Absent, _) => give_up(view, operation, "gone"),
        (Unit::Ended { result }, _) => give_up(view, operation, result),
    }
}

fn first_start(view: &View<'_>, operation: &InFlight) -> Act {
    if !view.is_node_known() {
        Act::Wait
    } else if !view.asks_for(&operation.request.operation_id) {
        withdraw(view, operation)
    } else if say::is_announced(view) {
        Act::Start { resumed: false }
    } else {
        Act::Wait
    }
}

/// Nothing was run. What the Node was told is in progress must come to an end all the same.
fn withdraw(view: &View<'_>, operation: &InFlight) -> Act {
    if !say::is_announced(view) {
        return Act::Withdraw;
    }
    let message = "the request was taken away before its start: nothing was run";
    let status = operation.status().finish(Code::OperationFailed, message, view.now);
    Act::Complete(Box::new(status))
}

fn give_up(view: &View<'_>, operation: &InFlight, result: &str) -> Act {
    let armed = match operation.arming {
        Some(_) => "; the boot may have been armed",
        None => "",
    };
    let starts = operation.starts;
    let why = match &operation.trouble {
        Some(trouble) => format!("could not be started, last because: {trouble}"),
        None => format!("ended without an outcome, last with systemd's result \"{result}\""),
    };
    let id = operation.request.operation_id.canonical();
    let message = format!(
        "after {starts} starts, the operation's unit {why}{armed}; see journalctl OPERATION_ID={id}"
    );
    let status = operation.status().finish(Code::AgentInternalError, &message, view.now);
    Act::Complete(Box::new(status))
}

fn awaiting_commit(view: &View<'_>, pending: &PendingCommit) -> Act {
    if view.rebooted() { after_boot(view, pending) } else { before_reboot(view, pending) }
}

/// The terminal status first, then the reboot; but an API server that is away does not hold it for ever.
fn before_reboot(view: &View<'_>, pending: &PendingCommit) -> Act {
    let done = view.state.find(&pending.request.operation_id);
    let published = done.is_none_or(|done| done.published);
    let armed_for = view.boot.uptime.as_secs().saturating_sub(pending.armed_at_uptime);
    let waited = armed_for >= view.limits.publish_wait.as_secs();
    if published || waited { Act::Reboot } else { Act::Wait }
}

fn after_boot(view: &View<'_>, pending: &PendingCommit) -> Act {
    let known = view.state.find(&pending.request.operation_id);
    if known.is_some_and(|done| done.commit.is_none()) {
        return Act::Announce(Box::new(commit_begun(view, pending)));
    }
    match view.commit_unit {
        Unit::Running => Act::Wait,
        // It ran before there was anything to commit: nobody starts it again.
        Unit::Ended { result } if result == "success" => Act::RunCommit,
        Unit::Absent | Unit::Ended { .. } if view.boot.uptime < view.limits.commit_overdue => {
            Act::Wait
        }
        Unit::Absent | Unit::Ended { .. } => Act::RunCommit,
    }
}

fn commit_begun(view: &View<'_>, pending: &PendingCommit) -> Status {
    let from = Some(pending.from_version.clone());
    Status::begin(&pending.request, Phase::Commit, from, view.now)
}

fn idle(view: &View<'_>) -> Act {
    if let Some(act) = lost::orphaned(view) {
        return act;
    }
    let Asked::Request { request, server_allowed } = &view.annotations.asked else {
        return Act::Wait;
    };
    if view.answered().is_some() {
        return Act::Wait;
    }
    if let Some(act) = lost::already_begun(view, request) {
        return act;
    }
    match reject::fresh(view, request, *server_allowed) {
        Some(status) => Act::Complete(Box::new(status)),
        None => Act::Accept(Box::new(accepted(view, request))),
    }
}

fn accepted(view: &View<'_>, request: &Request) -> InFlight {
    // An unreadable version fails the operation itself, where the reason can be said.
    InFlight::new(request.clone(), view.version.unwrap_or_default().to_owned(), view.now)
}
