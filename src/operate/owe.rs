//! Events for Nebraska: recorded as owed in the same write as what they tell of.

use crate::contract::{Request, Update};
use crate::state::{EventKind, OwedEvent, State};

/// Owes an event of this request, about an update from `version`.
pub(super) fn owe(
    state: &mut State,
    request: &Request,
    update: &Update,
    version: &str,
    event: EventKind,
) {
    state.owe(OwedEvent {
        operation_id: request.operation_id.clone(),
        server: update.server.clone(),
        app_id: update.app_id.clone(),
        track: update.track.clone(),
        version: version.to_owned(),
        event,
    });
}
