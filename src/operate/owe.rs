//! Events for Nebraska: recorded as owed in the same write as what they tell of.

use crate::contract::{Phase, Request, Update};
use crate::state::{EventKind, OwedEvent, State};

/// Owes an event of this request, or of the commit that followed it.
pub(super) fn owe(
    state: &mut State,
    (request, phase): (&Request, Phase),
    update: &Update,
    version: &str,
    event: EventKind,
) {
    state.owe(OwedEvent {
        operation_id: request.operation_id.clone(),
        node_update_id: request.node_update_id.clone(),
        operation: phase,
        target_version: update.target_version.clone(),
        server: update.server.clone(),
        app_id: update.app_id.clone(),
        track: update.track.clone(),
        version: version.to_owned(),
        event,
    });
}
