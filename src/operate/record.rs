//! Recording how an operation ended. One write each, flushed before anything depends on it.

use super::OperateError;
use super::means::Means;
use crate::contract::{Code, Request, Utc, log_end, message_id};
use crate::decide::Verdict;
use crate::state::{InFlight, State};

/// Records the verdict, with what else `change` does to the state.
pub(super) fn ended(
    means: &Means,
    operation: &InFlight,
    mut verdict: Verdict,
    change: impl FnOnce(&mut State),
) -> Result<Code, OperateError> {
    let code = verdict.code;
    verdict.message.push_str(version_warning(&operation.request));
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

/// Nebraska compares such a version as if it were 0.0.0, which explains what it then answers.
fn version_warning(request: &Request) -> &'static str {
    let target = request.work.update().map(|update| semver::Version::parse(&update.target_version));
    match target {
        Some(Err(_)) => {
            "; warning: `targetVersion` is no semantic version, Nebraska takes it for 0.0.0"
        }
        Some(Ok(_)) | None => "",
    }
}
