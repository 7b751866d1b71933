//! Recording how an operation ended. One write each, flushed before anything depends on it.

use tracing::{error, info};

use super::OperateError;
use super::means::Means;
use crate::contract::{Code, Utc};
use crate::decide::Verdict;
use crate::state::{InFlight, State};

/// Marks the record of an operation's end in the journal; the watcher uses the same.
const ENDED: &str = crate::contract::message_id::OPERATION_ENDED;

/// Records the verdict, with what else `change` does to the state.
pub(super) fn ended(
    means: &Means,
    operation: &InFlight,
    verdict: Verdict,
    change: impl FnOnce(&mut State),
) -> Result<Code, OperateError> {
    let code = verdict.code;
    log(&verdict);
    let status = operation
        .status()
        .finish(code, &verdict.message, Utc::now())
        .with_trident_error(verdict.trident_error);
    means.store.update(|state| {
        state.complete(status);
        change(state);
    })?;
    Ok(code)
}

fn log(verdict: &Verdict) {
    if verdict.code.is_good() {
        info!(message_id = ENDED, code = ?verdict.code, "ended: {}", verdict.message);
    } else {
        error!(message_id = ENDED, code = ?verdict.code, "ended: {}", verdict.message);
    }
}
