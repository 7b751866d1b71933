//! Calls that start over when they are made again: staging an update, staging a rollback.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::contract::chain;
use crate::trident::{Error, Retry, Served};

/// For a daemon that died under a call to come back.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Makes the call again when the daemon died under it, all within one limit; each is handed what is left of it.
pub(super) async fn within(
    limit: Duration,
    mut call: impl AsyncFnMut(Duration) -> Result<Served, Error>,
) -> Result<Served, Error> {
    let begun = Instant::now();
    let mut left = limit;
    loop {
        match call(left).await {
            // Without time for another call, what happened is the better answer than "no time".
            Err(error) if broke_off(&error) && begun.elapsed() + PAUSE < limit => {
                warn!("the call broke off, calling again: {}", chain(&error));
                sleep(PAUSE).await;
                left = limit.saturating_sub(begun.elapsed());
            }
            served => return served,
        }
    }
}

/// Not a time-out: there is no time left after it.
pub(super) fn broke_off(error: &Error) -> bool {
    error.retry() == Retry::FindOut && !matches!(error, Error::TimedOut { .. })
}
