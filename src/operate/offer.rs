//! Asking Nebraska for the image, and agreeing on it.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::OperateError;
use super::means::Means;
use super::report::app;
use crate::contract::chain;
use crate::contract::{Code, Update};
use crate::decide::Verdict;
use crate::omaha::{self, App, Check, CheckAnswer, Client, Event, Retry};
use crate::state::{InFlight, Offer, State};

/// How long a server that cannot be reached is asked again.
const PATIENCE: Duration = Duration::from_secs(120);
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(20);

/// The image to stage, or why there is none.
pub(super) async fn agree(
    means: &Means,
    operation: &InFlight,
    update: &Update,
) -> Result<Result<Offer, Verdict>, OperateError> {
    let client = means.nebraska()?;
    let app = app(&update.server, &update.app_id, &update.track)?;
    let known = known_offer(&means.store.read()?, operation, update);
    let asking =
        Asking { client, app, version: &operation.from_version, target: &update.target_version };
    Ok(asking.agree(known).await)
}

/// What an earlier attempt of this operation accepted, or what stands staged of the very same update.
fn known_offer(state: &State, operation: &InFlight, update: &Update) -> Option<Offer> {
    let staged = state.staged.as_ref().filter(|staged| staged.update == *update);
    operation.offer.clone().or_else(|| staged?.offer.clone())
}

struct Asking<'a> {
    client: Client,
    app: App,
    version: &'a str,
    target: &'a str,
}

impl Asking<'_> {
    async fn agree(&self, known: Option<Offer>) -> Result<Offer, Verdict> {
        match (self.check(Check::First).await?, known) {
            (CheckAnswer::InProgress, Some(known)) if known.version == self.target => {
                info!(
                    "Nebraska has this update in progress, going on with the offer that was accepted"
                );
                Ok(known)
            }
            (CheckAnswer::InProgress, _) => self.release_and_ask().await,
            (answer, _) => self.judge(answer),
        }
    }

    /// The server believes in an update that this node knows nothing of.
    async fn release_and_ask(&self) -> Result<Offer, Verdict> {
        warn!(
            "Nebraska has an update in progress for this machine that this node does not know, reporting it failed"
        );
        let released = self.client.report(&self.app, self.version, &Event::Failed).await;
        if let Err(error) = &released {
            warn!("Nebraska did not take that report, asking all the same: {}", chain(error));
        }
        match (self.check(Check::Again).await?, released) {
            (CheckAnswer::InProgress, Ok(())) => Err(failed(
                "Nebraska has an update in progress for this machine that this node did not start: \
                 is there a clone with the same machine id?",
            )),
            (CheckAnswer::InProgress, Err(error)) => Err(failed(format!(
                "releasing the update in progress at Nebraska: {}",
                chain(&error)
            ))),
            (answer, _) => self.judge(answer),
        }
    }

    fn judge(&self, answer: CheckAnswer) -> Result<Offer, Verdict> {
        let target = self.target;
        match answer {
            CheckAnswer::Offer(offer) if offer.version == target => Ok(Offer {
                version: offer.version,
                url: offer.url.to_string(),
                sha384: offer.sha384,
            }),
            CheckAnswer::Offer(offer) => Err(failed(format!(
                "Nebraska offers {:?}, not {target:?}: see what the track is pinned to, or whether an older \
                 version must be taken first",
                offer.version
            ))),
            CheckAnswer::NoUpdate => {
                Err(failed(format!("Nebraska has no update from {} on this track", self.version)))
            }
            CheckAnswer::InProgress => {
                Err(failed("Nebraska has an update in progress for this machine"))
            }
            CheckAnswer::Later(status) => {
                Err(failed(format!("Nebraska gives out no update now, ask again later: {status}")))
            }
            CheckAnswer::Refused(status) => Err(failed(format!("Nebraska refused: {status}"))),
        }
    }

    /// Network trouble is waited out for a while.
    async fn check(&self, check: Check) -> Result<CheckAnswer, Verdict> {
        let begun = Instant::now();
        let mut delay = FIRST_DELAY;
        loop {
            let error = match self.client.check(&self.app, self.version, check).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(pause) =
                pause(&error, delay).filter(|pause| begun.elapsed() + *pause < PATIENCE)
            else {
                return Err(failed(chain(&error)));
            };
            warn!("Nebraska does not answer, asking again: {}", chain(&error));
            sleep(pause).await;
            delay = (delay * 2).min(LONGEST_DELAY);
        }
    }
}

/// Until the next attempt; `None`: it would fail the same way.
fn pause(error: &omaha::Error, delay: Duration) -> Option<Duration> {
    match error.retry() {
        Retry::Never => None,
        Retry::Later { after } => {
            Some(after.unwrap_or_default().max(delay.mul_f64(0.5 + fastrand::f64())))
        }
    }
}

fn failed(message: impl Into<String>) -> Verdict {
    Verdict::new(Code::OperationFailed, message)
}
