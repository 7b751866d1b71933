//! Rollback: the last A/B update undone. Two calls, the second of which arms the boot.

use super::OperateError;
use super::again;
use super::answer::answer;
use super::arm::{arm, earlier};
use super::means::Means;
use super::record::ended;
use crate::contract::Code;
use crate::decide::{Verdict, after_finalize, after_rollback_stage};
use crate::host::uptime;
use crate::state::{InFlight, LOST_BOOT, PendingCommit};

pub(super) async fn run(means: &Means, operation: &InFlight) -> Result<Code, OperateError> {
    let armed = match earlier(means, operation).await {
        Some(armed) => armed,
        None => match stage(means, operation).await {
            Ok(()) => arm(means, operation).await?,
            Err(verdict) => return ended(means, operation, verdict, |_| ()),
        },
    };
    let verdict = after_finalize(&armed.answer);
    let good = verdict.code == Code::Success;
    ended(means, operation, verdict, |state| {
        if good {
            let uptime = uptime().as_secs();
            state.pending_commit = Some(PendingCommit::new(operation, armed.boot_marker, uptime));
            state.staged = None;
        }
    })
}

/// The first call. Not again where it is known to have been made: an attempt records that it is arming after it.
async fn stage(means: &Means, operation: &InFlight) -> Result<(), Verdict> {
    let marker = operation.arming.as_ref().map(|arming| arming.boot_marker.as_str());
    if marker.is_some_and(|marker| marker != LOST_BOOT) {
        return Ok(());
    }
    let call = async |left| means.trident.rollback_stage(left).await;
    let staged = again::within(means.config.stage_timeout, call).await;
    after_rollback_stage(&answer(&staged)).map_or(Ok(()), Err)
}
