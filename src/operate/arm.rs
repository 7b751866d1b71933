//! Arming the boot: the point from which the next boot may be another slot's.
//!
//! *arming* is recorded before tridentd is asked, *armed* together with the terminal status after it. An
//! attempt that finds *arming* asks tridentd what became of it, and never calls `Commit` to find out: before
//! the reboot that would discard the armed update.

use tokio::time::Instant;
use tracing::{info, warn};

use super::OperateError;
use super::again::PAUSE;
use super::answer::answer;
use super::means::Means;
use crate::contract::Operation;
use crate::contract::chain;
use crate::decide::{Answer, Served, is_on_target};
use crate::state::{Arming, InFlight};
use crate::trident::{Error, Retry, ServicingState};

/// How often a call that broke off is made again.
const TRIES: u32 = 3;

/// How arming ended, and the boot in which it was done.
pub(super) struct Armed {
    pub(super) answer: Answer,
    pub(super) boot_marker: String,
}

/// What an earlier attempt has armed; `None`: nothing, or nobody can tell.
pub(super) async fn earlier(means: &Means, operation: &InFlight) -> Option<Armed> {
    let arming = operation.arming.as_ref()?;
    info!("an earlier attempt was arming the boot, finding out how far it came");
    let boot_marker = find_out(means, operation, &arming.boot_marker).await?;
    Some(Armed { answer: done(operation), boot_marker })
}

pub(super) async fn arm(means: &Means, operation: &InFlight) -> Result<Armed, OperateError> {
    let marker = means.boot_id.clone();
    let arming = Arming { boot_marker: marker.clone() };
    means.store.update(|state| {
        if let Some(operation) = &mut state.operation {
            operation.arming = Some(arming);
        }
    })?;
    Ok(Armed { answer: call(means, operation, &marker).await, boot_marker: marker })
}

async fn call(means: &Means, operation: &InFlight, marker: &str) -> Answer {
    let limit = means.config.finalize_timeout;
    let begun = Instant::now();
    let (mut left, mut tries) = (limit, 0);
    // It may come to its end between our look and the next call, which is refused then.
    let mut has_earlier_call = operation.arming.is_some();
    loop {
        let served = match operation.request.operation() {
            Operation::Rollback => means.trident.rollback_finalize(left).await,
            Operation::Stage | Operation::Finalize => means.trident.finalize(left).await,
        };
        let Err(error) = &served else { return answer(&served) };
        let last = if error.is_busy() {
            // With the call of an attempt that died, perhaps: so the wait for it is no try.
            left = limit.saturating_sub(begun.elapsed());
            info!("waiting for tridentd: {}", chain(error));
            left <= PAUSE
        } else if error.retry() == Retry::FindOut {
            warn!("the finalize call broke off, finding out how far it came: {}", chain(error));
            tries += 1;
            tries >= TRIES || matches!(error, Error::TimedOut { .. })
        } else if has_earlier_call {
            info!("refused, finding out whether the earlier call did it: {}", chain(error));
            true
        } else {
            return answer(&served);
        };
        has_earlier_call = true;
        tokio::time::sleep(PAUSE).await;
        if find_out(means, operation, marker).await.is_some() {
            return done(operation);
        }
        if last {
            return answer(&served);
        }
    }
}

/// The boot in which it was armed; `None`: it was not, or nobody can tell.
async fn find_out(means: &Means, operation: &InFlight, marker: &str) -> Option<String> {
    let state = match means.trident.servicing_state().await {
        Ok(state) => state,
        Err(error) => {
            warn!("tridentd does not tell its servicing state: {}", chain(&error));
            None
        }
    };
    let rebooted = marker != means.boot_id;
    let version = means.host.version(&means.config.current_version).unwrap_or_default();
    let on_target = is_on_target(&operation.request, &operation.from_version, &version);
    match state {
        // Armed in a boot that no record tells of, and not on the target: rebooting once more is safe, and
        // the commit after it tells the truth.
        Some(ServicingState::UpdateAbFinalized | ServicingState::ManualRollbackAbFinalized) => {
            let lost = marker == crate::state::LOST_BOOT && !on_target;
            Some(if lost { means.boot_id.clone() } else { marker.to_owned() })
        }
        Some(ServicingState::UpdateAbHealthCheckFailed) => Some(marker.to_owned()),
        // Committed by another, or a daemon without this question.
        _ => (rebooted && on_target).then(|| marker.to_owned()),
    }
}

fn done(operation: &InFlight) -> Answer {
    let served = match operation.request.operation() {
        Operation::Rollback => Served::AbRollback,
        Operation::Stage | Operation::Finalize => Served::AbUpdate,
    };
    Answer::Done { served, reboot: true }
}
