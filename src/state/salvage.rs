//! What can be taken over from a state file that cannot be read as a whole: of a newer agent, which knows more
//! kinds of things, or of Trident's own agent, which keeps `pendingCommit` and `completed` too.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::record::{Completed, InFlight, OwedEvent, PendingCommit, Refused, Staged};
use super::{LOST_BOOT, State};
use crate::contract::Status;

type Fields = Map<String, Value>;

/// The state as far as it can be read, and what of it cannot.
pub(super) fn salvage(mut fields: Fields) -> Option<(State, Vec<String>)> {
    let mut lost = Vec::new();
    take_list(&mut fields, "completed", completed, &mut lost);
    complete_pending(&mut fields);
    take_list(&mut fields, "owedEvents", checked::<OwedEvent>, &mut lost);
    take::<InFlight>(&mut fields, "operation", &mut lost);
    take::<Staged>(&mut fields, "staged", &mut lost);
    take::<PendingCommit>(&mut fields, "pendingCommit", &mut lost);
    take::<Refused>(&mut fields, "refused", &mut lost);
    take::<u32>(&mut fields, "version", &mut lost);
    let state = serde_json::from_value(Value::Object(fields)).ok()?;
    Some((state, lost))
}

/// A field, if it can be read.
fn take<T: DeserializeOwned>(fields: &mut Fields, name: &str, lost: &mut Vec<String>) {
    let readable = |value: &Value| value.is_null() || checked::<T>(value).is_some();
    if fields.get(name).is_some_and(|value| !readable(value)) {
        fields.remove(name);
        lost.push(name.to_owned());
    }
}

/// The parts of a list that can be read; a map by operation is one too.
fn take_list(
    fields: &mut Fields,
    name: &str,
    readable: impl Fn(&Value) -> Option<Value>,
    lost: &mut Vec<String>,
) {
    let parts = match fields.remove(name) {
        None => return,
        Some(Value::Array(parts)) => parts,
        Some(Value::Object(parts)) => parts.into_iter().map(|(_, part)| part).collect(),
        Some(_) => return lost.push(name.to_owned()),
    };
    let kept: Vec<_> = parts.iter().filter_map(readable).collect();
    if kept.len() < parts.len() {
        lost.push(format!("{} of {name}", parts.len() - kept.len()));
    }
    fields.insert(name.to_owned(), Value::Array(kept));
}

fn checked<T: DeserializeOwned>(value: &Value) -> Option<Value> {
    serde_json::from_value::<T>(value.clone()).ok().map(|_readable| value.clone())
}

/// Ours; or a bare status, of an agent that publishes what it records at once.
fn completed(value: &Value) -> Option<Value> {
    if let Some(ours) = checked::<Completed>(value) {
        return Some(ours);
    }
    let status: Status = serde_json::from_value(value.clone()).ok()?;
    let mut done = Completed::new(status);
    done.published = true;
    done.status.code.is_terminal().then(|| serde_json::to_value(done).ok())?
}

/// Another agent's says which boot it was in only, and its mark may be something else than a boot id: taken
/// for another boot's, that would commit before the reboot. Without it the Node's status tells what began.
fn complete_pending(fields: &mut Fields) {
    let from = from_version(fields).unwrap_or_default();
    let Some(Value::Object(pending)) = fields.get_mut("pendingCommit") else { return };
    if pending.contains_key("fromVersion") {
        return;
    }
    let marker = pending.get("bootMarker").and_then(Value::as_str).unwrap_or_default();
    if marker == LOST_BOOT || Uuid::try_parse(marker).is_ok() {
        pending.insert("fromVersion".to_owned(), from.into());
    }
}

/// As the status of the same operation has it.
fn from_version(fields: &Fields) -> Option<String> {
    let id = fields.get("pendingCommit")?.pointer("/request/operationId")?;
    let done = fields.get("completed")?.as_array()?.iter().map(|done| &done["status"]);
    let status = done.into_iter().find(|status| status["operationId"] == *id)?;
    status["fromVersion"].as_str().map(str::to_owned)
}
