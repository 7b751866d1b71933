use std::time::Duration;

use libsystemd::daemon::{self, NotifyState};
use tracing::warn;

/// Tells systemd how the service is; does nothing where nobody listens.
#[derive(Debug, Default)]
pub struct Notifier {
    status: String,
}

impl Notifier {
    pub fn ready(&mut self) {
        send(&[NotifyState::Ready]);
    }

    pub fn stopping(&mut self) {
        send(&[NotifyState::Stopping]);
    }

    /// Still alive: from the loop itself, so that a stuck one is found.
    pub fn watchdog(&mut self) {
        send(&[NotifyState::Watchdog]);
    }

    /// The line in `systemctl status`; sent only when it changed.
    pub fn status(&mut self, status: &str) {
        let line: String = status.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if line != self.status {
            send(&[NotifyState::Status(line.clone())]);
            self.status = line;
        }
    }
}

fn send(states: &[NotifyState]) {
    if let Err(error) = daemon::notify(false, states) {
        warn!(%error, "cannot notify systemd, ignoring");
    }
}

/// How often to say that we live: half of what systemd allows. `None`: no watchdog is set.
pub fn watchdog_interval() -> Option<Duration> {
    daemon::watchdog_enabled(false).map(|limit| limit / 2)
}
