use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use super::bus::call;
use super::{Systemd, SystemdError};
use crate::steps::Step;

/// Between attempts to reach a bus that went away.
const RECONNECT: Duration = Duration::from_secs(2);

/// Wakes `notify` whenever systemd finished a job of a unit whose name begins with `prefix`, and whenever
/// the bus came back: signals may have been missed. Runs for ever, in a task of its own, so that a busy
/// caller cannot make the bus queue up.
pub async fn follow_jobs(prefix: &str, notify: &Notify) {
    let mut failures = 0_u32;
    loop {
        let ended = follow_once(prefix, notify, &mut failures).await;
        if failures == 0 {
            warn!("lost systemd's signals, connecting again: {}", ended);
        }
        failures = failures.saturating_add(1);
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn follow_once(prefix: &str, notify: &Notify, failures: &mut u32) -> String {
    let streamed = async {
        let systemd = Systemd::connect().await?;
        let followed = systemd.manager.receive_job_removed();
        let stream = call(Step::Signals, "following systemd's jobs", followed).await?;
        Ok::<_, SystemdError>((systemd, stream))
    };
    let (_systemd, mut jobs) = match streamed.await {
        Ok(streamed) => streamed,
        Err(error) => return error.to_string(),
    };
    if *failures > 0 {
        info!(failures, "systemd's signals are back");
        *failures = 0;
    }
    notify.notify_one();
    while let Some(job) = jobs.next().await {
        let Ok(job) = job.args() else { continue };
        if job.unit.starts_with(prefix) {
            debug!(unit = job.unit, result = job.result, "job finished");
            notify.notify_one();
        }
    }
    "the bus closed the connection".to_owned()
}
