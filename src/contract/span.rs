use tracing::{Span, info_span};

use super::{Phase, Request, Status};

/// The fields that every record of an operation carries in the journal: `OPERATION_ID`, `NODE_UPDATE_ID`,
/// `OPERATION`, `TARGET_VERSION`. Ids in lower case, so that one query finds all.
pub fn request_span(request: &Request) -> Span {
    info_span!(
        "operation",
        operation_id = request.operation_id.canonical(),
        node_update_id = request.node_update_id.canonical(),
        operation = request.operation().name(),
        target_version = request.target_version().unwrap_or_default(),
    )
}

/// The same for a status.
pub fn status_span(status: &Status) -> Span {
    info_span!(
        "operation",
        operation_id = status.operation_id.canonical(),
        node_update_id = status.node_update_id.canonical(),
        operation = status.operation.name(),
        target_version = status.to_version.as_deref().unwrap_or_default(),
    )
}

/// The same for the commit that follows a request.
pub fn commit_span(request: &Request) -> Span {
    info_span!(
        "operation",
        operation_id = request.operation_id.canonical(),
        node_update_id = request.node_update_id.canonical(),
        operation = Phase::Commit.name(),
        target_version = request.target_version().unwrap_or_default(),
    )
}
