//! Finalize: arm the boot of the staged slot. The reboot is the watcher's.

use super::OperateError;
use super::arm::{arm, earlier};
use super::means::Means;
use super::owe::owe;
use super::record::ended;
use crate::contract::{Code, Phase, Update};
use crate::decide::after_finalize;
use crate::host::uptime;
use crate::state::{EventKind, InFlight, PendingCommit};

pub(super) async fn run(
    means: &Means,
    operation: &InFlight,
    update: &Update,
) -> Result<Code, OperateError> {
    let armed = match earlier(means, operation).await {
        Some(armed) => armed,
        None => arm(means, operation).await?,
    };
    let verdict = after_finalize(&armed.answer);
    let good = verdict.code == Code::Success;
    ended(means, operation, verdict, |state| {
        // A failed attempt leaves nothing that the next one could trip over: it is to stage anew.
        let event = if good { EventKind::Installed } else { EventKind::Failed };
        owe(state, (&operation.request, Phase::Finalize), update, &operation.from_version, event);
        if good {
            let uptime = uptime().as_secs();
            state.pending_commit = Some(PendingCommit::new(operation, armed.boot_marker, uptime));
        } else {
            state.staged = None;
        }
    })
}
