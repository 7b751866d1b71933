//! Waiting out a daemon that is away, starting or busy, within a call's own deadline.

use std::error::Error as _;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::{Code, Status};

use super::backoff::Backoff;
use super::error::{Error, Refusal};
use super::redact;

/// What to do about a daemon that runs another servicing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// Ask again until it takes this one.
    WaitOut,
    /// Say so.
    Tell,
}

/// Why one attempt brought nothing.
#[derive(Debug)]
pub(super) enum NotServed {
    /// Nothing was started: the attempt may be repeated.
    Refused(Refusal),
    /// Anything else ends the call.
    Ended(Error),
}

impl NotServed {
    /// Judges a status that came before any message did.
    pub(super) fn from_status(what: &'static str, status: Status) -> NotServed {
        if status.code() == Code::Unavailable && !is_transport(&status) {
            return NotServed::Refused(Refusal::Busy(redact::text(status.message())));
        }
        NotServed::Ended(ended(what, status, false))
    }
}

/// The error that ends a call with `status`; `started` when messages had come before it.
pub(super) fn ended(what: &'static str, status: Status, started: bool) -> Error {
    if is_transport(&status) {
        return Error::Broken { what, started, source: Box::new(status) };
    }
    let message = redact::text(status.message());
    Error::Status { what, code: status.code(), message, started }
}

/// Only a status that our own side made up has a source; one that the daemon sent has none.
fn is_transport(status: &Status) -> bool {
    status.source().is_some()
}

/// Makes one attempt within `limit`.
pub(super) async fn once<T, F>(
    what: &'static str,
    limit: Duration,
    attempt: impl FnOnce() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, NotServed>>,
{
    // Cancelled by the limit: a question leaves nothing behind.
    match tokio::time::timeout(limit, attempt()).await {
        Err(_elapsed) => Err(Error::TimedOut { what, after: limit }),
        Ok(Err(NotServed::Refused(source))) => {
            Err(Error::Unreachable { what, after: limit, tries: 1, source })
        }
        Ok(Err(NotServed::Ended(error))) => Err(error),
        Ok(Ok(value)) => Ok(value),
    }
}

/// Repeats a refused attempt with backoff until it is taken, ends otherwise, or `limit` is over.
pub(super) async fn patiently<T, F>(
    what: &'static str,
    limit: Duration,
    busy: Busy,
    attempt: impl Fn() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, NotServed>>,
{
    let begun = Instant::now();
    let until = deadline(limit);
    let mut backoff = Backoff::new();
    let mut tries = 0_u32;
    loop {
        tries = tries.saturating_add(1);
        // Cancelled by the deadline: the daemon finishes a call whose client has gone.
        let Ok(answer) = timeout_at(until, attempt()).await else {
            return Err(Error::TimedOut { what, after: limit });
        };
        let source = match answer {
            Ok(value) => {
                say_over(what, tries);
                return Ok(value);
            }
            Err(NotServed::Ended(error)) => {
                say_over(what, tries);
                return Err(error);
            }
            Err(NotServed::Refused(source @ Refusal::Busy(_))) if busy == Busy::Tell => {
                let after = begun.elapsed();
                return Err(Error::Unreachable { what, after, tries, source });
            }
            Err(NotServed::Refused(refusal)) => refusal,
        };
        if tries == 1 {
            tracing::info!(reason = %chain(&source), limit = ?limit, "{what}: waiting for tridentd");
        }
        let next = Instant::now() + backoff.wait();
        if next >= until {
            return Err(Error::Unreachable { what, after: limit, tries, source });
        }
        sleep_until(next).await;
    }
}

/// Says once that the wait is over, if there was one.
fn say_over(what: &str, tries: u32) {
    if tries > 1 {
        tracing::info!(tries, "{what}: no longer waiting for tridentd");
    }
}

/// `limit` from now; a limit beyond the clock's range counts as ten years.
pub(super) fn deadline(limit: Duration) -> Instant {
    const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(limit).unwrap_or_else(|| now + TEN_YEARS)
}

/// A refusal and its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
