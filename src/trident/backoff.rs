//! Waiting times between attempts: doubled, capped, jittered.

use std::time::Duration;

/// The first wait: busy is often over within a second.
const FIRST: Duration = Duration::from_millis(250);
/// The longest: the socket is local, so asking often is cheap.
const LONGEST: Duration = Duration::from_secs(5);

/// The waits of one call, each at random between half and the whole of its step.
#[derive(Debug)]
pub(super) struct Backoff {
    step: Duration,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { step: FIRST }
    }

    /// The next wait.
    pub(super) fn wait(&mut self) -> Duration {
        let step = self.step;
        self.step = step.saturating_mul(2).min(LONGEST);
        step / 2 + (step / 2).mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_stay_in_their_half() {
        let mut backoff = Backoff::new();
        let mut step = FIRST;
        for _ in 0..20 {
            let wait = backoff.wait();
            assert!(wait >= step / 2 && wait <= step, "{wait:?} of {step:?}");
            step = (step * 2).min(LONGEST);
        }
        assert_eq!(backoff.step, LONGEST);
    }

    #[test]
    fn two_callers_do_not_march_in_step() {
        let waits = |mut backoff: Backoff| (0..8).map(|_| backoff.wait()).collect::<Vec<_>>();
        assert_ne!(waits(Backoff::new()), waits(Backoff::new()));
    }
}
