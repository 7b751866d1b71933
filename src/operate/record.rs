//! Recording how an operation ended. One write each, flushed before anything depends on it.

use super::OperateError;
use super::means::Means;
use crate::contract::{Code, Utc, log_end, message_id};
use crate::decide::Verdict;
use crate::state::{InFlight, State};

/// Records the verdict, with what else `change` does to the state.
pub(super) fn ended(
    means: &Means,
    operation: &InFlight,
    verdict: Verdict,
    change: impl FnOnce(&mut State),
) -> Result<Code, OperateError> {
    let code = verdict.code;
    log_end(message_id::OPERATION_ENDED, verdict.code, &verdict.message);
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
