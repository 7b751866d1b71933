//! The daemon's log records, passed on at their own level under the target `tridentd`.
//!
//! Not all of a flood: journald drops what a unit says beyond its limit (by default 10,000 records in 30 s),
//! and would drop the operation's own last words with the rest.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::redact;
use super::wire::v1::{Log, LogLevel};

/// So many at once …
const BURST: u32 = 2000;
/// … and then one in each of these.
const REFILL: Duration = Duration::from_millis(20);

/// Passes the records of one call on.
#[derive(Debug)]
pub(super) struct Relay {
    /// Errors and warnings are not crowded out by the rest.
    grave: Budget,
    plain: Budget,
    left_out: u64,
}

/// A level is static for `tracing`, so each needs an event of its own; the fields stand here once. What nobody
/// wants is not counted.
macro_rules! pass {
    ($level:ident, $log:expr, $budget:expr, $left_out:expr) => {
        if tracing::enabled!(target: "tridentd", tracing::Level::$level) {
            if $budget.take() {
                let (file, line) = place($log);
                tracing::event!(
                    target: "tridentd",
                    tracing::Level::$level,
                    message = redact::text(&$log.message),
                    trident_target = redact::text(&$log.target),
                    trident_module = redact::text(&$log.module),
                    trident_file = file,
                    trident_line = line,
                );
            } else {
                $left_out += 1;
            }
        }
    };
}

impl Relay {
    pub(super) fn new() -> Self {
        Self { grave: Budget::new(), plain: Budget::new(), left_out: 0 }
    }

    /// Passes one record on, or counts it. A level that we do not know counts as INFO.
    pub(super) fn pass(&mut self, log: &Log) {
        match log.level() {
            LogLevel::Error => pass!(ERROR, log, self.grave, self.left_out),
            LogLevel::Warn => pass!(WARN, log, self.grave, self.left_out),
            LogLevel::Info | LogLevel::Unspecified => pass!(INFO, log, self.plain, self.left_out),
            LogLevel::Debug => pass!(DEBUG, log, self.plain, self.left_out),
            LogLevel::Trace => pass!(TRACE, log, self.plain, self.left_out),
        }
    }
}

/// However the call ends.
impl Drop for Relay {
    fn drop(&mut self) {
        if self.left_out > 0 {
            warn!("left {} records of tridentd out: its own journal has them all", self.left_out);
        }
    }
}

#[derive(Debug)]
struct Budget {
    left: u32,
    /// Up to when what came in is counted.
    filled: Instant,
}

impl Budget {
    fn new() -> Self {
        Self { left: BURST, filled: Instant::now() }
    }

    fn take(&mut self) -> bool {
        if self.left == 0 {
            self.fill();
        }
        let is_there = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_there
    }

    fn fill(&mut self) {
        let parts = self.filled.elapsed().as_millis() / REFILL.as_millis();
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        self.left = parts.min(BURST);
        self.filled += REFILL.saturating_mul(parts);
    }
}

fn place(log: &Log) -> (Option<String>, Option<u32>) {
    let location = log.location.as_ref();
    (location.map(|at| redact::text(&at.path)), location.map(|at| at.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_and_a_trickle_is_not() {
        let mut budget = Budget::new();
        let taken = (0..100_000).filter(|_| budget.take()).count();
        assert_eq!(taken, BURST as usize, "a burst and no more");
        for _ in 0..10_000 {
            tokio::time::advance(REFILL).await;
            assert!(budget.take(), "one in each interval");
            assert!(!budget.take(), "and no second");
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        let taken = (0..100_000).filter(|_| budget.take()).count();
        assert_eq!(taken, BURST as usize, "an hour of silence buys one burst");
    }
}
