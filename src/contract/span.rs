use tracing::{Span, error, info, info_span};

use super::{Code, Id, Message, Phase, Request, Status};

/// The fields that every record of an operation carries in the journal: `OPERATION_ID`, `NODE_UPDATE_ID`,
/// `OPERATION`, `TARGET_VERSION`. Ids in lower case, so that one query finds all. Never within another
/// operation's span.
pub fn operation_span(
    operation_id: &Id,
    node_update_id: &Id,
    operation: Phase,
    target_version: Option<&str>,
) -> Span {
    info_span!(
        parent: None,
        "operation",
        operation_id = operation_id.canonical(),
        node_update_id = node_update_id.canonical(),
        operation = operation.name(),
        target_version = target_version.unwrap_or_default(),
    )
}

/// [`operation_span`] of a request.
pub fn request_span(request: &Request) -> Span {
    phase_span(request, request.operation().into())
}

/// [`operation_span`] of the commit that follows a request.
pub fn commit_span(request: &Request) -> Span {
    phase_span(request, Phase::Commit)
}

fn phase_span(request: &Request, phase: Phase) -> Span {
    operation_span(&request.operation_id, &request.node_update_id, phase, request.target_version())
}

/// [`operation_span`] of a status.
pub fn status_span(status: &Status) -> Span {
    let target = status.to_version.as_deref();
    operation_span(&status.operation_id, &status.node_update_id, status.operation, target)
}

/// The record that something ended: an error where the code is not a good one. Its text may come from far
/// away, so it is made one line.
pub fn log_end(message_id: &str, code: Code, message: &str) {
    let message = Message::new(message);
    if code.is_good() {
        info!(message_id, ?code, "ended with {code:?}: {message}");
    } else {
        error!(message_id, ?code, "ended with {code:?}: {message}");
    }
}
