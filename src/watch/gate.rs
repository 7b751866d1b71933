//! When something that failed, or must not be done too often, may be tried again.

use std::time::Duration;

use tokio::time::Instant;

/// The first delay; it doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);

/// Capped exponential backoff with full jitter: the delay is random between nothing and twice the current
/// interval, so that a fleet does not come back as one.
#[derive(Debug, Default)]
pub(super) struct Gate {
    failures: u32,
    opens: Option<Instant>,
}

impl Gate {
    pub(super) fn is_open(&self) -> bool {
        self.opens.is_none_or(|opens| Instant::now() >= opens)
    }

    /// When it opens; `None`: it is open.
    pub(super) fn opens(&self) -> Option<Instant> {
        self.opens.filter(|opens| Instant::now() < *opens)
    }

    /// Closes it for `at_least` and a while, for longer each time: a server that names a time names the same
    /// one to a whole fleet.
    pub(super) fn close(&mut self, at_least: Option<Duration>) {
        let delay = jittered(interval(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.opens = Some(Instant::now() + at_least.unwrap_or_default() + delay);
    }

    /// Opens it; says how many failures there were before.
    pub(super) fn reset(&mut self) -> u32 {
        self.opens = None;
        std::mem::take(&mut self.failures)
    }

    /// How often it was closed since it was last reset.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

fn interval(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.min(8)).min(LONGEST)
}

/// Between nothing and twice the interval.
pub(super) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(2.0 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_and_is_capped() {
        let intervals: Vec<_> = (0..7).map(|failures| interval(failures).as_secs()).collect();
        assert_eq!(intervals, [2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(interval(u32::MAX), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn closes_for_at_least_what_was_asked() {
        let mut gate = Gate::default();
        assert!(gate.is_open());
        gate.close(Some(Duration::from_secs(90)));
        tokio::time::advance(Duration::from_secs(89)).await;
        assert!(!gate.is_open());
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(gate.is_open());
        assert_eq!(gate.reset(), 1);
    }
}
