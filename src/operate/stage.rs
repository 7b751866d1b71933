//! Stage: agree with Nebraska on an image, let tridentd write it to the inactive slot.

use std::time::Duration;

use tokio::time::timeout;
use tracing::warn;

use super::OperateError;
use super::again;
use super::answer::answer;
use super::means::Means;
use super::offer;
use super::owe::owe;
use super::record::ended;
use super::report::{Stop, deliver_all, deliver_first};
use crate::contract::chain;
use crate::contract::{Code, Phase, Update};
use crate::decide::after_stage;
use crate::state::{EventKind, InFlight, Offer, Staged, State};
use crate::trident::Image;

/// How long the end of a stage waits for an event that is just being delivered.
const LAST_WORD: Duration = Duration::from_secs(2);

pub(super) async fn run(
    means: &Means,
    operation: &InFlight,
    update: &Update,
) -> Result<Code, OperateError> {
    deliver_first(means, &operation.request.operation_id, update).await;
    match offer::agree(means, operation, update).await? {
        Err(refused) => {
            let begun = operation.offer.is_some();
            ended(means, operation, refused, |state| fail(state, operation, update, begun))
        }
        Ok(offer) => stage(means, operation, update, offer).await,
    }
}

async fn stage(
    means: &Means,
    operation: &InFlight,
    update: &Update,
    offer: Offer,
) -> Result<Code, OperateError> {
    means.store.update(|state| accept(state, operation, update, &offer))?;
    let image = Image { url: offer.url.clone(), sha384: offer.sha384.clone() };
    let call = again::within(means.config.stage_timeout, async |left| {
        means.trident.stage(&image, left).await
    });
    let served = while_delivering(means, call).await;
    let verdict = after_stage(&answer(&served), &update.target_version);
    let staged = verdict.code == Code::Success;
    ended(means, operation, verdict, |state| {
        if staged {
            let id = operation.request.node_update_id.clone();
            state.staged = Some(Staged::new(id, update.clone(), Some(offer)));
            owe(
                state,
                (&operation.request, Phase::Stage),
                update,
                &operation.from_version,
                EventKind::DownloadFinished,
            );
        } else {
            fail(state, operation, update, true);
        }
    })
}

/// The offer, before tridentd acts on it: a resumed stage goes on with it. What was staged before is about
/// to be overwritten.
fn accept(state: &mut State, operation: &InFlight, update: &Update, offer: &Offer) {
    let known = operation.offer.is_some();
    state.staged = None;
    if let Some(operation) = &mut state.operation {
        operation.offer = Some(offer.clone());
    }
    if !known {
        owe(
            state,
            (&operation.request, Phase::Stage),
            update,
            &operation.from_version,
            EventKind::DownloadStarted,
        );
    }
}

/// Only an update that was begun can fail: a server may stop a whole rollout at the first failure.
fn fail(state: &mut State, operation: &InFlight, update: &Update, begun: bool) {
    if begun {
        owe(
            state,
            (&operation.request, Phase::Stage),
            update,
            &operation.from_version,
            EventKind::Failed,
        );
    }
}

/// The event that the download started goes out beside the download.
async fn while_delivering<T>(means: &Means, work: impl Future<Output = T>) -> T {
    let deliver = async {
        if let Err(error) = deliver_all(means, &mut Stop::never()).await {
            warn!("events are still owed, ignoring: {}", chain(&error));
        }
    };
    tokio::pin!(work, deliver);
    // Neither arm is dropped when the other ends first.
    tokio::select! {
        done = &mut work => {
            // Cut off here, the event is delivered again later: Nebraska does not mind.
            let _ = timeout(LAST_WORD, deliver).await;
            done
        }
        () = &mut deliver => work.await,
    }
}
