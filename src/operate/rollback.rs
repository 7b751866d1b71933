//! Rollback: the last A/B update undone. Two calls, the second of which arms the boot.

use super::OperateError;
use super::again;
use super::answer::answer;
use super::arm::arm;
use super::means::Means;
use super::record::ended;
use crate::contract::Code;
use crate::decide::{after_finalize, after_rollback_stage};
use crate::host::uptime;
use crate::state::{InFlight, PendingCommit};

pub(super) async fn run(means: &Means, operation: &InFlight) -> Result<Code, OperateError> {
    if operation.arming.is_none() {
        let call = async |left| means.trident.rollback_stage(left).await;
        let staged = again::within(means.config.stage_timeout, call).await;
        if let Some(verdict) = after_rollback_stage(&answer(&staged)) {
            return ended(means, operation, verdict, |_| ());
        }
    }
    let armed = arm(means, operation).await?;
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
