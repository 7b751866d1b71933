//! Arming the boot: the point from which the next boot may be another slot's.
//!
//! *arming* is recorded before tridentd is asked, *armed* together with the terminal status after it. An
//! attempt that finds *arming* asks tridentd what became of it, and never calls `Commit` to find out: before
//! the reboot that would discard the armed update.

use tracing::{info, warn};

use super::OperateError;
use super::again::PAUSE;
use super::answer::answer;
use super::means::Means;
use crate::contract::Operation;
use crate::contract::chain;
use crate::decide::{Answer, Served};
use crate::state::{Arming, InFlight};
use crate::trident::{Error, Retry, ServicingState};

/// How often a call that broke off is made again.
const TRIES: u32 = 3;

/// How arming ended, and the boot in which it was done.
pub(super) struct Armed {
    pub(super) answer: Answer,
    pub(super) boot_marker: String,
}

pub(super) async fn arm(means: &Means, operation: &InFlight) -> Result<Armed, OperateError> {
    let marker = match &operation.arming {
        Some(arming) => {
            info!("an earlier attempt was arming the boot, finding out how far it came");
            if let Some(marker) = find_out(means, operation, &arming.boot_marker).await {
                return Ok(Armed { answer: done(operation), boot_marker: marker });
            }
            means.boot_id.clone()
        }
        None => means.boot_id.clone(),
    };
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
    let mut tries = 0;
    loop {
        tries += 1;
        let served = match operation.request.operation() {
            Operation::Rollback => means.trident.rollback_finalize(limit).await,
            Operation::Stage | Operation::Finalize => means.trident.finalize(limit).await,
        };
        match &served {
            Err(error) if error.retry() == Retry::FindOut => {
                warn!("the finalize call broke off, finding out how far it came: {}", chain(error));
                tokio::time::sleep(PAUSE).await;
                if find_out(means, operation, marker).await.is_some() {
                    return done(operation);
                }
                if tries >= TRIES || matches!(error, Error::TimedOut { .. }) {
                    return answer(&served);
                }
            }
            _ => return answer(&served),
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
    let on_target = is_on_target(means, operation);
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

/// A rollback names no target: there, any version other than the one it left.
fn is_on_target(means: &Means, operation: &InFlight) -> bool {
    let version = means.host.version(&means.config.current_version).unwrap_or_default();
    match operation.request.target_version() {
        Some(target) => version == target,
        None => version != operation.from_version,
    }
}

fn done(operation: &InFlight) -> Answer {
    let served = match operation.request.operation() {
        Operation::Rollback => Served::AbRollback,
        Operation::Stage | Operation::Finalize => Served::AbUpdate,
    };
    Answer::Done { served, reboot: true }
}
